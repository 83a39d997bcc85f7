#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

// A part of tokenizer.json, as it is written there. What is missing, of another type or unknown
// throws fovea::Error, which names the part.
namespace fovea::tokens {

class Part {
 public:
  using Json = nlohmann::ordered_json;
  Part(std::string kind, const Json& json);  // kind: "normalizer"; json: an object with a type

  const std::string& type() const { return type_; }
  bool has(const char* name) const;  // and is not null
  const Json& at(const char* name) const;
  std::string text(const char* name) const;
  char32_t character(const char* name) const;
  bool flag(const char* name) const;
  bool flag(const char* name, bool otherwise) const;
  int64_t number(const char* name) const;           // not negative
  std::vector<Part> parts(const char* name) const;  // of the same kind
  // "String" or "Regex" of a pattern
  struct Pattern {
    std::string text;
    bool regex = false;
  };
  Pattern pattern() const;

  [[noreturn]] void refuse() const;  // the type is not known
  [[noreturn]] void fail(const std::string& what) const;

 private:
  std::string kind_, type_;
  const Json* json_;
};

}  // namespace fovea::tokens
