#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "fovea/tensor.h"

// What the weights of an opened model are kept as: the matrices of its layers and its embeddings.
// Biases, norms and positions are float32, as is all that is computed.
namespace fovea::checkpoints {

enum class KeptAs : uint8_t {
  stored,   // f32, bf16 and f16 as they are in the files
  float32,  // what learns
  bf16,
  int8,  // by rows, symmetric: Tensor::to(DType::i8)
};
const char* name_of(KeptAs);
std::span<const KeptAs> all_kept();
KeptAs kept_as(const std::string& name);  // throws, with the names there are

// For who opens and does not say; `stored` unless it was set.
KeptAs default_kept();
void set_default_kept(KeptAs);

// As it can be on a device: `stored` is float32 where nothing else is computed with; others throw.
KeptAs kept_on(Device, KeptAs);

// The type of a matrix that is stored as `stored`.
DType type_of(KeptAs, DType stored);

}  // namespace fovea::checkpoints
