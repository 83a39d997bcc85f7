#include "checkpoints/folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "fovea/error.h"
#include "io/json.h"
#include "io/plain_file.h"

namespace fovea::checkpoints {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr const char* kWhole = "model.safetensors";
constexpr const char* kIndex = "model.safetensors.index.json";
constexpr uint64_t kLongestRef = 200;

[[noreturn]] void refuse_folder(const std::string& why) { throw Error("open", why); }

bool is_there(const fs::path& path) {
  std::error_code error;
  return fs::exists(path, error) && !error;
}

std::string text_in(const fs::path& file, uint64_t most) {
  try {
    return read_plain_file(file, most);
  } catch (const Unreadable& e) {
    refuse_folder(fmt::format("{}: {}", file.string(), e.what()));
  }
}

bool is_plain_name(const std::string& name) {
  return !name.empty() && name != "." && name != ".." &&
         name.find_first_of("/\\") == std::string::npos && name.find('\0') == std::string::npos;
}

// Weights in forms that are programs when they are read.
std::string pickle_in(const fs::path& folder) {
  std::error_code error;
  std::vector<std::string> found;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    const std::string ending = entry.path().extension().string();
    if (ending == ".bin" || ending == ".pt" || ending == ".pth" || ending == ".ckpt") {
      found.push_back(entry.path().filename().string());
    }
  }
  return found.empty() ? "" : *std::min_element(found.begin(), found.end());
}

}  // namespace

bool is_checkpoint(const fs::path& path) {
  if (is_there(path / "refs" / "main") && is_there(path / "snapshots")) return true;
  if (!is_there(path / "config.json")) return false;
  try {
    const Json j = read_json(path / "config.json", {.names = 100'000});
    return j.is_object() && j.contains("model_type") && !j.contains("task");
  } catch (const Error&) {
    return false;
  }
}

fs::path folder_of(const fs::path& path) {
  if (is_there(path / "config.json") || !is_there(path / "snapshots")) return path;
  const fs::path ref = path / "refs" / "main";
  std::string commit = text_in(ref, kLongestRef);
  while (!commit.empty() && static_cast<unsigned char>(commit.back()) <= ' ') commit.pop_back();
  if (!is_plain_name(commit)) {
    refuse_folder(
        fmt::format("{} names no snapshot: expected one name, found \"{}\"", ref.string(), commit));
  }
  const fs::path snapshot = path / "snapshots" / commit;
  if (!is_there(snapshot / "config.json")) {
    refuse_folder(
        fmt::format("{} names the snapshot {}, which has no config.json: fetch the model again",
                    ref.string(), commit));
  }
  return snapshot;
}

std::vector<std::string> shards_in(std::string_view index, const std::string& name) {
  constexpr size_t kMostTensors = 1'000'000;
  const Json j = parse_json(index, name, {.names = kMostTensors});
  if (!j.is_object() || !j.contains("weight_map") || !j["weight_map"].is_object()) {
    refuse_folder(name + " has no weight_map: it is no index of shards");
  }
  std::set<std::string> shards;
  for (const auto& [tensor, file] : j["weight_map"].items()) {
    if (!file.is_string()) refuse_folder(name + ": weight_map names files, found something else");
    shards.insert(file.get<std::string>());
  }
  for (const std::string& shard : shards) {
    if (!is_plain_name(shard) || !shard.ends_with(".safetensors")) {
      refuse_folder(
          fmt::format("{} names the shard \"{}\": expected the name of a .safetensors file in "
                      "the same folder",
                      name, shard));
    }
  }
  if (shards.empty()) refuse_folder(name + " lists no tensors");
  return {shards.begin(), shards.end()};
}

std::vector<fs::path> weight_files(const fs::path& folder) {
  constexpr uint64_t kLargestIndex = uint64_t{64} << 20;
  if (is_there(folder / kIndex)) {
    const fs::path index = folder / kIndex;
    std::vector<fs::path> files;
    for (const std::string& shard : shards_in(text_in(index, kLargestIndex), index.string())) {
      files.push_back(folder / shard);
      if (!is_there(files.back())) {
        refuse_folder(fmt::format("{} lists {}, which is not there: fetch the model again",
                                  index.string(), shard));
      }
    }
    return files;
  }
  if (is_there(folder / kWhole)) return {folder / kWhole};
  if (const std::string pickle = pickle_in(folder); !pickle.empty()) {
    refuse_folder(fmt::format(
        "{} has its weights in {}, which runs as a program when it is read: convert it once where "
        "you trust it, by transformers: AutoModel….from_pretrained(DIR).save_pretrained(DIR)",
        folder.string(), pickle));
  }
  refuse_folder(fmt::format("{} has no {} and no {}", folder.string(), kWhole, kIndex));
}

}  // namespace fovea::checkpoints
