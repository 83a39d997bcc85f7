#pragma once

#include <functional>

#include "fovea/loss.h"
#include "fovea/nn.h"

namespace fovea::models {

// What targets are padded with.
inline constexpr int64_t kPadding = 0;

// Where targets, of any shape, are not padding: places in row-major order, i64 [n].
Tensor places_of(const Tensor& targets, int64_t padding = kPadding);

// −log p of the targets that are not padding: x [..,W], targets i64 [..]; `losses` gives that of
// rows [n,W] and targets [n].
using Losses =
    std::function<Tensor(const Tensor& rows, const Tensor& targets, const CrossEntropy&)>;
Loss token_loss(const Tensor& x, const Tensor& targets, const Losses& losses, float label_smoothing,
                int64_t padding = kPadding);
// −log softmax(W·x + b)_target.
Losses losses_of(const nn::Linear& output);

}  // namespace fovea::models
