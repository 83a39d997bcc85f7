#include "io/json.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <vector>

#include "fovea/error.h"
#include "io/atomic_file.h"
#include "io/plain_file.h"

namespace fovea {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kCall = "read_json";

std::string place_of(std::string_view text, size_t byte) {
  const std::string_view before = text.substr(0, std::min(byte, text.size()));
  return fmt::format("line {}, byte {}", 1 + std::count(before.begin(), before.end(), '\n'), byte);
}

// Builds values as they are read, and nothing beyond the limits.
class Builder {
 public:
  Builder(std::string_view text, const std::string& name, const JsonLimits& limits,
          std::span<const JsonMany> many)
      : text_(text), name_(name), limits_(limits), many_(many) {}

  Json result() && { return std::move(result_); }

  // What nlohmann's parser calls.
  bool null() { return put(nullptr); }
  bool boolean(bool value) { return put(value); }
  bool number_integer(Json::number_integer_t value) { return put(value); }
  bool number_unsigned(Json::number_unsigned_t value) { return put(value); }
  bool number_float(Json::number_float_t value, const std::string&) { return put(value); }
  bool string(std::string& value) { return put(std::move(value)); }
  bool binary(Json::binary_t&) { return false; }
  bool start_object(size_t) { return open(Json::object()); }
  bool start_array(size_t) { return open(Json::array()); }
  bool end_object() { return close(); }
  bool end_array() { return close(); }
  bool key(std::string& name) {
    Level& level = levels_.back();
    if (level.many == nullptr && ++level.names > limits_.names) {
      throw Error(kCall, fmt::format("{}: an object has more than {} names", name_, limits_.names));
    }
    level.name = std::move(name);
    return true;
  }
  bool parse_error(size_t byte, const std::string&, const Json::exception& e) {
    if (dynamic_cast<const Json::parse_error*>(&e) == nullptr) {
      throw Error(kCall, fmt::format("{} is not JSON: a number is too large", name_));
    }
    throw Error(kCall, fmt::format("{} is not JSON in UTF-8: {}", name_, place_of(text_, byte)));
  }

 private:
  struct Level {
    Json value;
    std::string name = {};  // the last that was read
    size_t names = 0;
    const JsonMany* many = nullptr;
  };

  bool put(Json value) {
    if (levels_.empty()) {
      result_ = std::move(value);
      return true;
    }
    Level& level = levels_.back();
    if (level.many != nullptr) {
      level.many->entry(std::move(level.name), std::move(value));
    } else if (level.value.is_array()) {
      level.value.push_back(std::move(value));
    } else {
      level.value[level.name] = std::move(value);
    }
    return true;
  }

  bool open(Json empty) {
    if (levels_.size() >= static_cast<size_t>(limits_.depth)) {
      throw Error(kCall, fmt::format("{} is nested too deeply: more than {} lists or objects "
                                     "within each other",
                                     name_, limits_.depth));
    }
    const JsonMany* many = many_here();
    levels_.push_back({.value = std::move(empty), .many = many});
    return true;
  }

  bool close() {
    Json value = std::move(levels_.back().value);
    levels_.pop_back();
    return put(std::move(value));
  }

  const JsonMany* many_here() const {
    if (many_.empty() || (!levels_.empty() && levels_.back().many != nullptr)) return nullptr;
    std::string path;
    for (const Level& level : levels_) {
      if (!level.value.is_object() || level.many != nullptr) return nullptr;
      path += (path.empty() ? "" : ".") + level.name;
    }
    const auto found = std::find_if(many_.begin(), many_.end(),
                                    [&](const JsonMany& many) { return many.path == path; });
    return found == many_.end() ? nullptr : &*found;
  }

  std::string_view text_;
  const std::string& name_;
  const JsonLimits& limits_;
  std::span<const JsonMany> many_;
  std::vector<Level> levels_;  // lists and objects that are open
  Json result_;
};

}  // namespace

Json parse_json(std::string_view text, const std::string& name, const JsonLimits& limits,
                std::span<const JsonMany> many) {
  if (text.size() > limits.bytes) {
    throw Error(kCall, fmt::format("{} is too large: {} bytes, at most {} are read", name,
                                   text.size(), limits.bytes));
  }
  Builder builder(text, name, limits, many);
  Json::sax_parse(text.begin(), text.end(), &builder);
  return std::move(builder).result();
}

int64_t whole_number(const Json& j) {
  constexpr double kBeyond = 9223372036854775808.0;  // 2⁶³
  const bool fits = j.is_number_unsigned() ? j.get<uint64_t>() <= INT64_MAX
                    : j.is_number_integer()
                        ? true
                        : j.is_number_float() && std::abs(j.get<double>()) < kBeyond &&
                              j.get<double>() == std::floor(j.get<double>());
  if (fits) return j.get<int64_t>();
  constexpr size_t kMost = 40;
  throw Error(kCall, fmt::format("expected a whole number, found {}", j.dump().substr(0, kMost)));
}

Json read_json(const std::filesystem::path& path, const JsonLimits& limits,
               std::span<const JsonMany> many) {
  std::string text;
  try {
    text = read_plain_file(path, limits.bytes);
  } catch (const Unreadable& e) {
    throw Error(kCall, fmt::format("{}: {}", path.string(), e.what()));
  }
  return parse_json(text, path.string(), limits, many);
}

void write_json(const std::filesystem::path& path, const Json& value) {
  const std::string text = value.dump(2, ' ', false, Json::error_handler_t::replace) + '\n';
  AtomicFile file(path);
  file.write(text.data(), text.size());
  file.commit();
}

}  // namespace fovea
