#pragma once

#include <cstdlib>
#include <string_view>

namespace fovea::test {

// The device on which the tests of this program run (device/chosen.cc); empty: the CPU.
inline std::string_view test_device() {
  const char* const name = std::getenv("FOVEA_TEST_DEVICE");
  return name == nullptr ? "" : name;
}
inline bool on_gpu() { return test_device() == "cuda"; }

// What tolerances are multiplied by: a GPU multiplies 16 bits of each number (docs/gpu.md).
inline double slack() { return on_gpu() ? 16.0 : 1.0; }

}  // namespace fovea::test
