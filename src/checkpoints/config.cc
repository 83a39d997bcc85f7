#include "checkpoints/config.h"

#include <fmt/format.h>

#include <cmath>

#include "fovea/error.h"
#include "io/json.h"

namespace fovea::checkpoints {
namespace {

constexpr size_t kMostNames = 30'000;  // a vision model has its classes there

std::string shortened(const std::string& text) {
  constexpr size_t kMost = 60;
  return text.size() <= kMost ? text : text.substr(0, kMost) + "…";
}

}  // namespace

Config::Config(Json json, std::string file) : json_(std::move(json)), file_(std::move(file)) {
  if (!json_.is_object()) throw Error("open", file_ + " is no JSON object");
}

Config Config::in(const std::filesystem::path& file) {
  return {read_json(file, {.names = kMostNames}), file.string()};
}

const Config::Json* Config::find(const std::string& key) const {
  const auto found = json_.find(key);
  return found == json_.end() || found->is_null() ? nullptr : &*found;
}

const Config::Json& Config::at(const std::string& key) const {
  const Json* found = find(key);
  if (found == nullptr) throw Error("open", fmt::format("{} has no {}", file_, key));
  return *found;
}

void Config::refuse(const std::string& key, const std::string& what) const {
  const Json* found = find(key);
  const std::string value =
      found == nullptr ? "absent"
                       : shortened(found->dump(-1, ' ', true, Json::error_handler_t::replace));
  throw Error("open", fmt::format("{}: {} is {}, {}", file_, key, value, what));
}

bool Config::has(const std::string& key) const { return find(key) != nullptr; }

int64_t Config::integer(const std::string& key, Range range) const {
  const Json& j = at(key);
  const auto expected = [&] {
    refuse(key, fmt::format("expected a whole number in [{}, {}]", range.low, range.high));
  };
  if (!j.is_number()) expected();
  const double x = j.get<double>();
  if (x != std::floor(x) || x < static_cast<double>(range.low) ||
      x > static_cast<double>(range.high)) {
    expected();
  }
  return static_cast<int64_t>(x);
}

int64_t Config::integer(const std::string& key, int64_t otherwise, Range range) const {
  return has(key) ? integer(key, range) : otherwise;
}

double Config::real(const std::string& key) const {
  const Json& j = at(key);
  if (!j.is_number() || !std::isfinite(j.get<double>())) refuse(key, "expected a number");
  return j.get<double>();
}

double Config::real(const std::string& key, double otherwise) const {
  return has(key) ? real(key) : otherwise;
}

bool Config::flag(const std::string& key, bool otherwise) const {
  const Json* j = find(key);
  if (j == nullptr) return otherwise;
  if (!j->is_boolean()) refuse(key, "expected true or false");
  return j->get<bool>();
}

std::string Config::text(const std::string& key) const {
  const Json& j = at(key);
  if (!j.is_string()) refuse(key, "expected a text");
  return j.get<std::string>();
}

std::string Config::text(const std::string& key, const std::string& otherwise) const {
  return has(key) ? text(key) : otherwise;
}

std::vector<std::string> Config::texts(const std::string& key) const {
  const Json* j = find(key);
  if (j == nullptr) return {};
  if (!j->is_array()) refuse(key, "expected a list of texts");
  std::vector<std::string> all;
  for (const Json& one : *j) {
    if (!one.is_string()) refuse(key, "expected a list of texts");
    all.push_back(one.get<std::string>());
  }
  return all;
}

std::vector<int64_t> Config::integers(const std::string& key) const {
  const Json* j = find(key);
  if (j == nullptr) return {};
  const auto one = [&](const Json& x) {
    if (!x.is_number_integer()) refuse(key, "expected an id, or a list of ids");
    return x.get<int64_t>();
  };
  if (!j->is_array()) return {one(*j)};
  std::vector<int64_t> all;
  for (const Json& x : *j) all.push_back(one(x));
  return all;
}

std::optional<Config> Config::object(const std::string& key) const {
  const Json* j = find(key);
  if (j == nullptr) return {};
  if (!j->is_object()) refuse(key, "expected an object");
  return Config(*j, fmt::format("{}, {}", file_, key));
}

}  // namespace fovea::checkpoints
