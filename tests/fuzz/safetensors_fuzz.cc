// Any bytes load or throw fovea::Error; and what loads agrees with itself.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>

#include "fovea/io.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const fovea::TensorFile file =
        fovea::parse_safetensors(std::as_bytes(std::span<const uint8_t>(data, size)));
    size_t loaded = 0;
    for (const auto& [name, tensor] : file.tensors) {
      loaded += static_cast<size_t>(tensor.numel() * fovea::size_of(tensor.dtype()));
    }
    if (loaded > 8 * size) std::abort();  // more than the bytes there can become
  } catch (const fovea::Error&) {
  }
  return 0;
}
