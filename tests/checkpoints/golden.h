#pragma once

#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "fovea/io.h"
#include "where.h"

// The small models that make_golden.py wrote.
namespace fovea::checkpoints::test {

inline std::filesystem::path golden(const std::string& name) {
  return std::filesystem::path(fovea::test::source_dir()) / "tests/checkpoints/golden" / name;
}
// Those that read texts and say something of them.
inline std::vector<const char*> golden_of_texts() {
  return {"gpt2",
          "llama",
          "mistral",
          "qwen2",
          "qwen3",
          "gemma2",
          "gemma3",
          "bert_fills",
          "bert_tells",
          "roberta_fills",
          "roberta_tells",
          "distilbert_fills",
          "distilbert_tells",
          "albert_fills",
          "albert_tells",
          "marian",
          "t5",
          "t5_gated"};
}
inline Tensors expected(const std::string& name) {
  return load_safetensors(golden(name) / "expected.safetensors");
}

// A copy of a golden folder that a test may spoil; gone with it.
class Copied {
 public:
  explicit Copied(const std::string& name)
      : path_(std::filesystem::temp_directory_path() /
              fmt::format("fovea-{}-{}-{}", name, ::getpid(), ++copies)) {
    std::filesystem::remove_all(path_);
    std::filesystem::copy(golden(name), path_);
  }
  ~Copied() { std::filesystem::remove_all(path_); }
  Copied(const Copied&) = delete;
  Copied& operator=(const Copied&) = delete;

  const std::filesystem::path& path() const { return path_; }
  void write(const std::string& file, const std::string& text) const {
    std::ofstream(path_ / file, std::ios::binary) << text;
  }
  nlohmann::ordered_json json(const std::string& file = "config.json") const {
    return nlohmann::ordered_json::parse(std::ifstream(path_ / file));
  }
  // Keys of config.json; null takes one out.
  void edit(const nlohmann::ordered_json& changes, const std::string& file = "config.json") const {
    nlohmann::ordered_json j = json(file);
    for (const auto& [key, value] : changes.items()) {
      j.erase(key);
      if (!value.is_null()) j[key] = value;
    }
    write(file, j.dump());
  }
  // The weights, changed and written again.
  template <class Change>
  void change_weights(const Change& change) const {
    Tensors all = load_safetensors(path_ / "model.safetensors");
    change(all);
    save_safetensors(path_ / "model.safetensors", all);
  }

 private:
  static inline int copies = 0;
  std::filesystem::path path_;
};

}  // namespace fovea::checkpoints::test
