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

// Sees each value as it is read, so that nothing beyond the limits is ever built.
class Guard {
 public:
  Guard(const std::string& name, const JsonLimits& limits) : name_(name), limits_(limits) {}

  bool operator()(int depth, Json::parse_event_t event, const Json&) {
    using Event = Json::parse_event_t;
    if (depth > limits_.depth) {
      throw Error(kCall, fmt::format("{} is nested too deeply: more than {} lists or objects "
                                     "within each other",
                                     name_, limits_.depth));
    }
    if (event == Event::object_start) names_.push_back(0);
    if (event == Event::object_end) names_.pop_back();
    if (event == Event::key && ++names_.back() > limits_.names) {
      throw Error(kCall, fmt::format("{}: an object has more than {} names", name_, limits_.names));
    }
    return true;
  }

 private:
  const std::string& name_;
  const JsonLimits& limits_;
  std::vector<size_t> names_;  // of the objects that are open
};

}  // namespace

Json parse_json(std::string_view text, const std::string& name, const JsonLimits& limits) {
  if (text.size() > limits.bytes) {
    throw Error(kCall, fmt::format("{} is too large: {} bytes, at most {} are read", name,
                                   text.size(), limits.bytes));
  }
  try {
    return Json::parse(text.begin(), text.end(), Guard(name, limits));
  } catch (const Json::parse_error& e) {
    throw Error(kCall, fmt::format("{} is not JSON in UTF-8: {}", name, place_of(text, e.byte)));
  } catch (const Json::exception&) {
    throw Error(kCall, fmt::format("{} is not JSON: a number is too large", name));
  }
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

Json read_json(const std::filesystem::path& path, const JsonLimits& limits) {
  std::string text;
  try {
    text = read_plain_file(path, limits.bytes);
  } catch (const Unreadable& e) {
    throw Error(kCall, fmt::format("{}: {}", path.string(), e.what()));
  }
  return parse_json(text, path.string(), limits);
}

void write_json(const std::filesystem::path& path, const Json& value) {
  const std::string text = value.dump(2, ' ', false, Json::error_handler_t::replace) + '\n';
  AtomicFile file(path);
  file.write(text.data(), text.size());
  file.commit();
}

}  // namespace fovea
