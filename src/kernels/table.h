#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>

#include "fovea/device.h"
#include "kernels/attention/problem.h"
#include "kernels/attention/steps.h"
#include "kernels/bf16.h"
#include "kernels/conv.h"
#include "kernels/copy.h"
#include "kernels/cross_entropy.h"
#include "kernels/dropout.h"
#include "kernels/elementwise.h"
#include "kernels/gemm.h"
#include "kernels/lookup.h"
#include "kernels/narrow.h"
#include "kernels/optimize.h"
#include "kernels/pool.h"
#include "kernels/recurrent.h"
#include "kernels/reduce.h"
#include "kernels/rotate.h"
#include "kernels/rowwise.h"

// What a device computes: on(device).gemm({...}) is kernels::gemm() there. Numbers, ids and masks
// that a call points to are in the device's memory; shapes, strides, offsets by batch and lists of
// tensors are the host's, and are read before the call returns. Calls of one device run one after
// another; on a GPU they return before they are done.
namespace fovea::kernels {

struct Kernels {
  const char* (*name)() = nullptr;  // throws where the device cannot be used

  // Memory. A block may be handed on as soon as it is given back, what was uploaded may be changed
  // as soon as the call returns; downloads wait.
  void* (*allocate)(size_t bytes) = nullptr;
  void (*give_back)(void* block) = nullptr;
  void (*upload)(void* to, const void* from_host, size_t bytes) = nullptr;
  void (*download)(void* to_host, const void* from, size_t bytes) = nullptr;
  void (*clear)(void* to, size_t bytes) = nullptr;
  void (*fill)(int64_t n, float value, float* y) = nullptr;
  void (*synchronize)() = nullptr;

  // Copies and conversions.
  void (*strided_copy)(std::span<const int64_t> shape, int64_t element, Bytes from,
                       Bytes to) = nullptr;
  void (*strided_add)(std::span<const int64_t> shape, Bytes from, Bytes to) = nullptr;
  void (*copy_all)(std::span<const Copy>) = nullptr;  // null: one by one
  void (*to_floats)(int64_t n, const uint8_t* x, float* y) = nullptr;
  void (*truth_of)(int64_t n, const float* x, uint8_t* y) = nullptr;

  // Element by element, sums and products.
  void (*elementwise)(Op, std::span<const int64_t> shape, std::initializer_list<Source> inputs,
                      Target out, Numbers) = nullptr;
  void (*reduce)(Reduce, Axes kept, Axes reduced, const float* x, float* out) = nullptr;
  void (*argmax)(Axes kept, Candidates, const float* x, int64_t* out) = nullptr;
  void (*gemm)(const Gemm&) = nullptr;
  // Two that do not wait for each other; null: one by one.
  void (*gemm_two)(const Gemm&, const Gemm&) = nullptr;

  // Lookup.
  void (*take_rows)(Middle, const int64_t* ids, int64_t n, const float* x, float* y) = nullptr;
  void (*add_rows)(Middle, const int64_t* ids, int64_t n, const float* y, float* x) = nullptr;
  void (*take_along)(Middle, const int64_t* ids, int64_t n, const float* x, float* y) = nullptr;
  void (*add_along)(Middle, const int64_t* ids, int64_t n, const float* y, float* x) = nullptr;

  // Weights in fewer bits: of which types gemm() and widen_rows() take them; null: of none.
  bool (*takes)(Number) = nullptr;
  void (*widen_rows)(const WeightRows&, const int64_t* ids, int64_t n, float* y) = nullptr;

  // Rows.
  void (*clear_rows)(Rows, const uint8_t* keep, float* x) = nullptr;
  void (*softmax_rows)(Rows, const float* x, float* y) = nullptr;
  void (*d_softmax_rows)(Rows, const float* y, const float* dy, float* dx) = nullptr;
  void (*log_softmax_rows)(Rows, const float* x, float* y) = nullptr;
  void (*d_log_softmax_rows)(Rows, const float* y, const float* dy, float* dx) = nullptr;
  void (*norm_rows)(Rows, const float* x, const Affine&, float* y, Moments) = nullptr;
  void (*d_norm_rows)(Rows, const Normed&, const float* w, const NormGradients&) = nullptr;
  void (*cross_entropy_rows)(Rows, const Targets&, const float* x, LogSums, float* loss) = nullptr;
  void (*d_cross_entropy_rows)(Rows, const Targets&, const LossGradient&, const float* x, LogSums,
                               float* dx) = nullptr;
  void (*dropout)(int64_t n, const float* x, const Drop&, float* y) = nullptr;
  void (*rotate)(const HeadSizes&, const HeadRows& x, const Angles&, const HeadRows& y) = nullptr;

  // Recurrent cells.
  void (*rnn_forward)(const CellRows&, const RnnStep&) = nullptr;
  void (*rnn_backward)(const CellRows&, const RnnGradient&) = nullptr;
  void (*gru_forward)(const CellRows&, const GruStep&) = nullptr;
  void (*gru_backward)(const CellRows&, const GruGradient&) = nullptr;
  void (*lstm_forward)(const CellRows&, const LstmStep&) = nullptr;
  void (*lstm_backward)(const CellRows&, const LstmGradient&) = nullptr;
  // Steps that do not wait for one another, with their products; null: gemm() and the above.
  void (*gru_whole)(std::span<const GruWhole>) = nullptr;
  void (*gru_whole_backward)(std::span<const GruWholeGradient>) = nullptr;

  // Images.
  void (*conv)(const Convolution&, const float* x, const float* w, float* y) = nullptr;
  void (*d_conv_x)(const Convolution&, const float* w, const float* dy, float* dx) = nullptr;
  void (*d_conv_w)(const Convolution&, const float* x, const float* dy, float* dw) = nullptr;
  void (*max_pool)(const Pooling&, const float* x, float* y, int64_t* from) = nullptr;
  void (*d_max_pool)(const Pooling&, const int64_t* from, const float* dy, float* dx) = nullptr;
  void (*avg_pool)(const Pooling&, const float* x, float* y) = nullptr;
  void (*d_avg_pool)(const Pooling&, const float* dy, float* dx) = nullptr;

  // Weights that learn.
  void (*adam)(std::span<const Learned>, const AdamUpdate&) = nullptr;
  void (*descend)(std::span<const Learned>, const MomentumUpdate&) = nullptr;
  double (*squared_norm)(std::span<const Values>) = nullptr;
  void (*scale)(std::span<const Values>, float factor) = nullptr;
  void (*move_average)(std::span<const Averaged>, float decay) = nullptr;
  void (*swap)(Values, float* other) = nullptr;

  // Attention. Why the device cannot do it is null where it can.
  const char* (*refuses)(const AttentionProblem&) = nullptr;
  void (*attention_forward)(const AttentionProblem&, const AttentionResult&) = nullptr;
  void (*attention_backward)(const AttentionProblem&, const AttentionGradients&) = nullptr;
  void (*attention_weights)(const AttentionProblem&, const AttentionResult& done,
                            const WeightsSelection&, const View<float>& weights) = nullptr;
  void (*attention_entropy)(const AttentionProblem&, const float* stat, float* entropy) = nullptr;
  void (*attention_log_prob)(const AttentionProblem&, const float* stat, const int32_t* chosen,
                             float* log_prob) = nullptr;
  void (*top_of_rows)(const TopRows&, const float* weights, float* top, int64_t* keys) = nullptr;
  bool (*all_finite)(const View<const float>&, int64_t B, int64_t H, int64_t R,
                     int64_t C) = nullptr;

  // One query a row against keys that stay.
  std::shared_ptr<const StepExponentials> (*steps_prepare)(const StepMemory&) = nullptr;
  void (*step_forward)(const StepMemory&, const float* q, float factor, float* p,
                       float* context) = nullptr;
  void (*step_d_weights)(const StepMemory&, const float* d_context, float* dp) = nullptr;
  void (*step_d_query)(const StepMemory&, const StepGradient&) = nullptr;
  void (*steps_d_rows)(const StepMemory&, std::span<const KeptStep>,
                       const RowsView<float>& d_rows) = nullptr;
  void (*steps_d_additive)(const StepMemory&, std::span<const KeptStep>,
                           const RowsView<float>& d_keys, float* du) = nullptr;

  // Of bf16, which elementwise() takes then, too; null: the device computes nothing of it.
  const Bf16Kernels* bf16 = nullptr;
};

extern const Kernels kCpu;
const Kernels& kernels_of(Device);  // opened at first use; throws Error where there is none

inline const Kernels& on(Device d) { return d == Device::cpu ? kCpu : kernels_of(d); }

// In place of what the module has, for tests: it must outlive every tensor there.
void use_kernels(Device, const Kernels*);

// Memory of a device, given back with the last owner.
std::shared_ptr<void> allocate_on(Device, size_t bytes);

}  // namespace fovea::kernels
