#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <mutex>

#include "cuda/device_memory.h"
#include "cuda/error.h"
#include "kernels/attention/problem.h"

// Attention on the device: what the paths share on the host's side.
namespace fovea::cuda {

using kernels::AttentionGradients;
using kernels::AttentionProblem;
using kernels::AttentionResult;
using kernels::Family;

const char* refuses(const AttentionProblem&);
void attention_forward(const AttentionProblem&, const AttentionResult&);
void attention_backward(const AttentionProblem&, const AttentionGradients&);
// Looks inside.
void attention_weights(const AttentionProblem&, const AttentionResult& done,
                       const kernels::WeightsSelection&, const kernels::View<float>& weights);
void attention_entropy(const AttentionProblem&, const float* stat, float* entropy);
void attention_log_prob(const AttentionProblem&, const float* stat, const int32_t* chosen,
                        float* log_prob);
void top_of_rows(const kernels::TopRows&, const float* weights, float* top, int64_t* keys);

// Every weighting, predicted windows, given scores, gradients of weights and of probabilities: a
// row of scores at a time.
void general_forward(const AttentionProblem&, const AttentionResult&);
void general_backward(const AttentionProblem&, const AttentionGradients&);

// All of softmax: scores in tiles through memory, products on tensor cores.
void long_forward(const AttentionProblem&, const AttentionResult&);
void long_backward(const AttentionProblem&, const AttentionGradients&);

// Additive, few keys: a block has whole rows.
bool short_suits(const AttentionProblem&);
void short_forward(const AttentionProblem&, const AttentionResult&);
void short_backward(const AttentionProblem&, const AttentionGradients&);

// Dot products on Hopper, scores in registers alone: widths up to 128, masks by ranges.
bool dot_suits(const AttentionProblem&);
bool dot_suits_bf16(const AttentionProblem&);  // and q, k and v are bf16
void dot_forward(const AttentionProblem&, const AttentionResult&);
void dot_backward(const AttentionProblem&, const AttentionGradients&);

// Lets a kernel have that much shared memory besides its own variables there, which are less than
// 2 KiB; told again only where it is more.
template <auto kKernel>
void allow_shared(size_t bytes) {
  static std::mutex one_at_a_time;
  static size_t allowed = size_t{46} << 10;
  const std::lock_guard lock(one_at_a_time);
  if (bytes <= allowed) return;
  check(cudaFuncSetAttribute(kKernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             static_cast<int>(bytes)),
        "asking for shared memory");
  allowed = bytes;
}

// Blocks for a loop over n elements, 256 at a time.
inline int blocks_for(size_t n) {
  return static_cast<int>(std::clamp<size_t>((n + 255) / 256, 1, 8 * size_t(limits().processors)));
}

// ds of rows of heads into the bias' gradient.
struct BiasRows {
  const float* ds;  // [heads][padded][step]
  int z, heads, row, rows, padded, step;
};
void add_bias_gradients(const AttentionProblem&, const AttentionGradients&, const BiasRows&);

}  // namespace fovea::cuda
