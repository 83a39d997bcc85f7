#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace fovea::checkpoints {

struct WholeRange {
  int64_t low = 1, high = int64_t{1} << 24;
};

// The keys of a config.json, each asked for by its type and range. What is null counts as absent;
// what is there and wrong throws, with the file, the key, what was expected and what was found.
class Config {
 public:
  using Json = nlohmann::ordered_json;
  Config(Json, std::string file);
  static Config in(const std::filesystem::path& file);

  using Range = WholeRange;
  bool has(const std::string& key) const;
  int64_t integer(const std::string& key, Range = {}) const;
  int64_t integer(const std::string& key, int64_t otherwise, Range) const;
  double real(const std::string& key) const;
  double real(const std::string& key, double otherwise) const;
  bool flag(const std::string& key, bool otherwise) const;
  std::string text(const std::string& key) const;
  std::string text(const std::string& key, const std::string& otherwise) const;
  std::vector<std::string> texts(const std::string& key) const;  // none where it is absent
  std::vector<int64_t> integers(const std::string& key) const;   // one, or a list of them
  std::optional<Config> object(const std::string& key) const;
  const Json& json() const { return json_; }
  const std::string& file() const { return file_; }

  // "FILE: key is 3, WHAT"
  [[noreturn]] void refuse(const std::string& key, const std::string& what) const;

 private:
  const Json* find(const std::string& key) const;
  const Json& at(const std::string& key) const;

  Json json_;
  std::string file_;
};

}  // namespace fovea::checkpoints
