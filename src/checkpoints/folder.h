#pragma once

#include <filesystem>
#include <string>
#include <vector>

// A model's folder as it comes from a hub: config.json with `model_type`, and weights as
// safetensors, in one file or in shards that an index lists.
namespace fovea::checkpoints {

// Whether config.json says `model_type`, or it is a hub's cache folder (models--a--b).
bool is_checkpoint(const std::filesystem::path&);

// Where the files lie: the folder itself, or the snapshot that a cache folder's refs/main names.
std::filesystem::path folder_of(const std::filesystem::path&);

// model.safetensors.index.json, the text of it: the shards, in order of their names. Names that
// leave the folder are refused. `name` is what messages call it.
std::vector<std::string> shards_in(std::string_view index, const std::string& name);

// The files with weights. A folder that has pickles alone is refused, with what to do.
std::vector<std::filesystem::path> weight_files(const std::filesystem::path& folder);

}  // namespace fovea::checkpoints
