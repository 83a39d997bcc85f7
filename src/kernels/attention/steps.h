#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/allocator.h"

// One query for each batch row against keys and values that stay the same from step to step.
// A step's gradient is the query's; those of keys, values and u come from all steps at once.
namespace fovea::kernels {

// [B,L,W] by strides; a row's elements lie next to each other.
template <class T>
struct RowsView {
  T* data = nullptr;
  int64_t b = 0, r = 0;
  int64_t width = 0;
  T* row(int64_t ib, int64_t ir) const { return data + ib * b + ir * r; }
};

constexpr int64_t kDeviceStepKeys = 8192;  // at most, off the CPU
constexpr int64_t kStepPad = 32;           // whole vectors, two at a time, of every instruction set

// What the CPU makes of a memory with additive scores.
struct StepExponentials {
  Buffer<float> keys;               // [B,Lk,ld]: e^{2k}, padding 0
  Buffer<float> u;                  // [ld], padding 0
  std::vector<float> largest_keys;  // [B]: the largest |k|; infinite where one is not finite
};

struct StepMemory {
  int64_t B = 0, Lk = 0;
  const int32_t* ends = nullptr;  // [B]: keys 0 … ends[b]−1 are seen
  RowsView<const float> keys, values;
  const float* u = nullptr;  // [width]: additive scores Σ_d u_d·tanh(q_d + k_d); null: q·k
  std::shared_ptr<const StepExponentials> made;  // by steps_prepare()

  int64_t ld() const { return u ? (keys.width + kStepPad - 1) / kStepPad * kStepPad : 0; }
};

std::shared_ptr<const StepExponentials> steps_prepare(const StepMemory&);

// s = factor·score(q, k_j), p = softmax(s), context = Σ_j p_j·v_j.
// q [B,width], p [B,Lk], context [B,Dv], contiguous.
void step_forward(const StepMemory&, const float* q, float factor, float* p, float* context);

// dp_j = d_context·v_j
void step_d_weights(const StepMemory&, const float* d_context, float* dp);

// g = factor·p∘(dp − Σ p·dp), dq = Σ_j g_j·∂score_j/∂q
struct StepGradient {
  const float *q, *p, *dp;
  float factor;
  float *g, *dq;
};
void step_d_query(const StepMemory&, const StepGradient&);

// What a step leaves for the end: weights of rows [B,Lk] and vectors [B,width].
struct KeptStep {
  const float *weights, *vectors;
};
// d m_bj = Σ_t weights_t[b,j]·vectors_t[b]: values by (p, d_context), keys of dot scores by (g, q).
void steps_d_rows(const StepMemory&, std::span<const KeptStep>, const RowsView<float>& d_rows);

// Additive, by (g, q): dk_bj = 4u∘Σ_t g_tj·(r − r²), du = −2 Σ g·r with r = 1/(1 + e^{2(q+k)}).
// Each may be absent.
void steps_d_additive(const StepMemory&, std::span<const KeptStep>, const RowsView<float>& d_keys,
                      float* du);

}  // namespace fovea::kernels
