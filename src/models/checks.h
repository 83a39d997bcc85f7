#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>

#include "fovea/error.h"

// What settings are checked with.
namespace fovea::models {

inline constexpr int64_t kLargest = int64_t{1} << 20;

inline void expect_range(const char* call, const char* field, int64_t value, int64_t low,
                         int64_t high) {
  if (value < low || value > high) {
    throw Error(call, fmt::format("{} must be in [{}, {}], found {}", field, low, high, value));
  }
}

// The one of a few that has this name.
template <class E, size_t N>
E by_name(const char* call, const char* what, const std::string& name, const E (&all)[N]) {
  std::string known;
  for (const E e : all) {
    if (name == name_of(e)) return e;
    known += std::string(known.empty() ? "" : ", ") + name_of(e);
  }
  throw Error(call, fmt::format("no {} '{}'; there are {}", what, name, known));
}

}  // namespace fovea::models
