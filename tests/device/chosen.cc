#include <cstdlib>
#include <string_view>

#include "shadow.h"

// FOVEA_TEST_DEVICE=shadow: all tensors of a test program on the shadow device, in place of a GPU;
// =cuda: on the GPU.
namespace fovea::test {
namespace {

const bool chosen = [] {
  const char* const name = std::getenv("FOVEA_TEST_DEVICE");
  if (name == nullptr) return false;
  if (std::string_view(name) == "shadow") kernels::use_kernels(Device::cuda, &shadow_kernels());
  set_default_device(std::string_view(name) == "shadow" ? Device::cuda : device(name));
  return true;
}();

}  // namespace
}  // namespace fovea::test
