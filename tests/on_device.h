#pragma once

#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "fovea/runtime.h"

namespace fovea::test {

// The device on which the tests of this program run (device/chosen.cc); empty: the CPU.
inline std::string_view test_device() {
  const char* const name = std::getenv("FOVEA_TEST_DEVICE");
  return name == nullptr ? "" : name;
}
// The instruction sets that a test goes through; on a device there is one. The matrix unit has a
// part in products of 16 and 8 bits alone.
enum class Numbers : unsigned char { wide, narrow };
inline std::vector<std::string> tested_isas(Numbers numbers = Numbers::wide) {
  std::vector<std::string> all = isas();
  if (!test_device().empty()) {
    all.resize(1);
  } else if (numbers == Numbers::wide) {
    std::erase(all, "amx");
  }
  return all;
}

inline bool on_gpu() { return test_device() == "cuda"; }

// What tolerances are multiplied by: a GPU multiplies 16 bits of each number (docs/gpu.md).
inline double slack() { return on_gpu() ? 16.0 : 1.0; }

}  // namespace fovea::test
