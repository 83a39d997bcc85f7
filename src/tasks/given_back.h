#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "checkpoints/origin.h"
#include "fovea/tensor.h"

// A model as others open it: a folder with config.json, model.safetensors and its tokenizer.
namespace fovea::tasks {

struct GivenBack {
  std::string title;  // "GPT-2"
  nlohmann::ordered_json config;
  Tensors tensors;                           // by their names
  std::vector<std::filesystem::path> files;  // to be copied
  struct MadeFile {
    std::string name;
    nlohmann::ordered_json json;
  };
  std::vector<MadeFile> made = {};  // to be written
  std::string no_tokenizer = {};    // why there is none, where there is none
};
GivenBack given_back(const checkpoints::Origin&, const Tensors& ours);

// The folder, whole or not at all: it must not be there, or be empty.
void write_folder(const GivenBack&, const std::filesystem::path&);

}  // namespace fovea::tasks
