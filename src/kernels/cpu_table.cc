#include <algorithm>
#include <cstring>

#include "core/allocator.h"
#include "fovea/error.h"
#include "kernels/fill.h"
#include "kernels/table.h"

namespace fovea::kernels {
namespace {

void copy_bytes(void* to, const void* from, size_t bytes) {
  if (bytes > 0) std::memcpy(to, from, bytes);
}

}  // namespace

// Memory of the CPU is core/allocator.h's: allocate_on() asks there.
constinit const Kernels kCpu = {
    .name = [] { return "CPU"; },
    .upload = copy_bytes,
    .download = copy_bytes,
    .clear =
        [](void* to, size_t bytes) {
          if (bytes > 0) std::memset(to, 0, bytes);
        },
    .fill = [](int64_t n, float value, float* y) { std::fill_n(y, n, value); },
    .synchronize = [] {},
    .strided_copy = strided_copy,
    .strided_add = strided_add,
    .to_floats = convert<uint8_t, float>,
    .truth_of = truth_of<float>,
    .elementwise = elementwise,
    .reduce = reduce,
    .argmax = argmax,
    .gemm = gemm,
    .take_rows = take_rows<float>,
    .add_rows = add_rows,
    .take_along = take_along,
    .add_along = add_along,
    .takes = [](Number) { return true; },
    .widen_rows = widen_rows,
    .clear_rows = clear_rows,
    .softmax_rows = softmax_rows,
    .d_softmax_rows = d_softmax_rows,
    .log_softmax_rows = log_softmax_rows,
    .d_log_softmax_rows = d_log_softmax_rows,
    .norm_rows = norm_rows,
    .d_norm_rows = d_norm_rows,
    .cross_entropy_rows = [](Rows rows, const Targets& targets, const float* x, LogSums sums,
                             float* loss) { cross_entropy_rows(rows, targets, x, sums, loss); },
    .d_cross_entropy_rows = d_cross_entropy_rows,
    .dropout = dropout,
    .rotate = rotate,
    .rnn_forward = rnn_forward,
    .rnn_backward = rnn_backward,
    .gru_forward = gru_forward,
    .gru_backward = gru_backward,
    .lstm_forward = lstm_forward,
    .lstm_backward = lstm_backward,
    .conv = conv,
    .d_conv_x = d_conv_x,
    .d_conv_w = d_conv_w,
    .max_pool = max_pool,
    .d_max_pool = d_max_pool,
    .avg_pool = avg_pool,
    .d_avg_pool = d_avg_pool,
    .adam = adam,
    .descend = descend,
    .squared_norm = squared_norm,
    .scale = scale,
    .move_average = move_average,
    .swap = swap,
    .refuses = [](const AttentionProblem&) -> const char* { return nullptr; },
    .attention_forward = attention_forward,
    .attention_backward = attention_backward,
    .attention_weights = attention_weights,
    .attention_entropy = attention_entropy,
    .attention_log_prob = attention_log_prob,
    .top_of_rows = top_of_rows,
    .all_finite = all_finite,
    .steps_prepare = steps_prepare,
    .step_forward = step_forward,
    .step_d_weights = step_d_weights,
    .step_d_query = step_d_query,
    .steps_d_rows = steps_d_rows,
    .steps_d_additive = steps_d_additive,
};

}  // namespace fovea::kernels
