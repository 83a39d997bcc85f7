#include "tokens/part.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "fovea/error.h"
#include "io/json.h"
#include "text/messages.h"
#include "tokens/characters.h"

namespace fovea::tokens {

Part::Part(std::string kind, const Json& json) : kind_(std::move(kind)), json_(&json) {
  if (!json.is_object()) fail("expected an object");
  if (!json.contains("type") || !json["type"].is_string()) fail("it has no \"type\"");
  type_ = json["type"].get<std::string>();
}

bool Part::has(const char* name) const { return json_->contains(name) && !at(name).is_null(); }

const Part::Json& Part::at(const char* name) const {
  const auto found = json_->find(name);
  if (found == json_->end()) fail(fmt::format("\"{}\" is missing", name));
  return *found;
}

std::string Part::text(const char* name) const {
  const Json& value = at(name);
  if (!value.is_string()) fail(fmt::format("\"{}\" is no text", name));
  return value.get<std::string>();
}

char32_t Part::character(const char* name) const {
  const std::string value = text(name);
  const char32_t c = only_character(value);
  if (c == 0) {
    fail(fmt::format("\"{}\" takes one character, found {}", name, text::quoted_piece(value)));
  }
  return c;
}

bool Part::flag(const char* name) const {
  const Json& value = at(name);
  if (!value.is_boolean()) fail(fmt::format("\"{}\" is neither true nor false", name));
  return value.get<bool>();
}

bool Part::flag(const char* name, bool otherwise) const {
  return has(name) ? flag(name) : otherwise;
}

int64_t Part::number(const char* name) const {
  const int64_t value = whole_number(at(name));
  if (value < 0) fail(fmt::format("\"{}\" is {}, less than 0", name, value));
  return value;
}

std::vector<Part> Part::parts(const char* name) const {
  const Json& list = at(name);
  if (!list.is_array()) fail(fmt::format("\"{}\" is no list", name));
  std::vector<Part> all;
  for (const Json& one : list) all.emplace_back(kind_, one);
  return all;
}

Part::Pattern Part::pattern() const {
  const Json& value = at("pattern");
  for (const char* name : {"String", "Regex"}) {
    if (!value.is_object() || !value.contains(name) || !value[name].is_string()) continue;
    Pattern found{value[name].get<std::string>(), name == std::string("Regex")};
    if (found.text.empty()) fail("its pattern is empty");
    return found;
  }
  fail("\"pattern\" is neither a String nor a Regex");
}

void Part::refuse() const {
  throw Error("read_tokenizer",
              fmt::format("{} {} is not known here", kind_, text::quoted_piece(type_)));
}

void Part::fail(const std::string& what) const {
  throw Error("read_tokenizer",
              fmt::format("{}{}{}: {}", kind_, type_.empty() ? "" : " ", type_, what));
}

}  // namespace fovea::tokens
