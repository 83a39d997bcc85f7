#include "text/vocabulary.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "fovea/error.h"

namespace fovea::text {
namespace {

template <class... Args>
[[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) {
  throw Error("vocabulary", fmt::format(format, std::forward<Args>(args)...));
}

// For a message: without control characters, of bounded length.
std::string shown(std::string_view text) {
  std::string line;
  for (const std::string& c : characters(text.substr(0, 40))) {
    line += static_cast<unsigned char>(c[0]) < 0x20 || c[0] == 0x7F ? "?" : c;
  }
  return "'" + line + (text.size() > 40 ? "…'" : "'");
}

// Reads the file token by token, so that nothing is built that the format does not have.
class Reader : public nlohmann::json_sax<nlohmann::json> {
 public:
  bool has_unit = false, has_tokens = false;
  Unit unit = Unit::characters;
  std::vector<std::string> tokens;

  bool start_object(size_t) override {
    if (place_ != Place::start) wrong("an object");
    place_ = Place::fields;
    return true;
  }
  bool end_object() override { return true; }
  bool key(string_t& name) override {
    if (name != "unit" && name != "tokens") fail("unknown field {}", shown(name));
    if (name == "unit" ? has_unit : has_tokens) fail("field '{}' appears twice", name);
    key_ = name;
    return true;
  }
  bool start_array(size_t) override {
    if (place_ != Place::fields || key_ != "tokens") wrong("a list");
    place_ = Place::tokens;
    has_tokens = true;
    return true;
  }
  bool end_array() override {
    place_ = Place::fields;
    return true;
  }
  bool string(string_t& text) override {
    if (place_ == Place::tokens) {
      if (static_cast<int64_t>(tokens.size()) >= kMaxVocabulary - kFirst) {
        fail("more than {} tokens", kMaxVocabulary - kFirst);
      }
      tokens.push_back(std::move(text));
    } else if (place_ == Place::fields && key_ == "unit") {
      unit = text::unit(text);
      has_unit = true;
    } else {
      wrong("a string");
    }
    return true;
  }

  bool null() override { wrong("null"); }
  bool boolean(bool) override { wrong("a boolean"); }
  bool number_integer(number_integer_t number) override { wrong(fmt::format("{}", number)); }
  bool number_unsigned(number_unsigned_t number) override { wrong(fmt::format("{}", number)); }
  bool number_float(number_float_t, const string_t&) override { wrong("a number"); }
  bool binary(binary_t&) override { wrong("bytes"); }
  bool parse_error(size_t position, const std::string&, const nlohmann::json::exception&) override {
    fail("not valid JSON at byte {}", position);
  }

 private:
  enum class Place : uint8_t { start, fields, tokens };

  [[noreturn]] void wrong(std::string_view found) const {
    if (place_ == Place::start) fail("must be a JSON object, found {}", found);
    if (place_ == Place::tokens) {
      fail("token {} must be a string, found {}", tokens.size(), found);
    }
    fail("'{}' must be {}, found {}", key_, key_ == "unit" ? "a string" : "a list of strings",
         found);
  }

  Place place_ = Place::start;
  std::string key_;
};

}  // namespace

Vocabulary::Vocabulary(Unit unit, std::vector<std::string> tokens)
    : unit_(unit), tokens_(std::move(tokens)) {
  if (tokens_.empty()) fail("no tokens");
  if (size() > kMaxVocabulary) {
    fail("{} tokens, at most {} are allowed", tokens_.size(), kMaxVocabulary - kFirst);
  }
  ids_.reserve(tokens_.size());
  for (size_t i = 0; i < tokens_.size(); ++i) {
    const std::string& token = tokens_[i];
    if (token.empty()) fail("token {} is empty", i);
    if (token.size() > kMaxTokenBytes) {
      fail("token {} has {} bytes, at most {} are allowed", i, token.size(), kMaxTokenBytes);
    }
    if (!ids_.emplace(token, kFirst + static_cast<int64_t>(i)).second) {
      fail("token {} appears twice, last at {}", shown(token), i);
    }
    if (unit == Unit::characters && characters(token).size() != 1) {
      fail("token {} is {}, expected one character", i, shown(token));
    }
  }
}

int64_t Vocabulary::id(std::string_view token) const {
  const auto found = ids_.find(token);
  return found == ids_.end() ? static_cast<int64_t>(kUnknown) : found->second;
}

std::string Vocabulary::json() const {
  nlohmann::ordered_json file;
  file["unit"] = name_of(unit_);
  file["tokens"] = tokens_;
  return file.dump(1) + "\n";
}

Vocabulary parse_vocabulary(std::string_view json) {
  Reader reader;
  nlohmann::json::sax_parse(json.begin(), json.end(), &reader);
  if (!reader.has_unit) fail("field 'unit' is missing");
  if (!reader.has_tokens) fail("field 'tokens' is missing");
  return {reader.unit, std::move(reader.tokens)};
}

}  // namespace fovea::text
