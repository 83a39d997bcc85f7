#pragma once

#include <functional>

#include "fovea/loss.h"
#include "fovea/nn.h"

namespace fovea::models {

// What targets are padded with.
inline constexpr int64_t kPadding = 0;

// Where targets, of any shape, are not padding: places in row-major order, i64 [n].
Tensor places_of(const Tensor& targets, int64_t padding = kPadding);

// −log softmax(logits(x))_target of the targets that are not padding: x [..,W], targets i64 [..].
using Logits = std::function<Tensor(const Tensor& rows)>;  // [n,W] → [n,V]
Loss token_loss(const Tensor& x, const Tensor& targets, const Logits& logits, float label_smoothing,
                int64_t padding = kPadding);

}  // namespace fovea::models
