#include "kernels/module.h"

#include "cuda/attention.h"
#include "cuda/device_memory.h"
#include "cuda/table.h"

namespace fovea::cuda {
namespace {

constexpr kernels::Bf16Kernels kBf16 = {
    .narrow = narrow_bf16,
    .widen = widen_bf16,
    .gemm = gemm_bf16,
    .sum_rows = sum_rows_bf16,
    .norm_rows = norm_rows_bf16,
    .d_norm_rows = d_norm_rows_bf16,
    .cross_entropy_rows = cross_entropy_rows_bf16,
    .d_cross_entropy_rows = d_cross_entropy_rows_bf16,
    .dropout = dropout_bf16,
};

constexpr kernels::Kernels kKernels = {
    .name = device_name,
    .allocate = allocate,
    .give_back = give_back,
    .upload = upload,
    .download = download,
    .clear = clear,
    .fill = fill,
    .synchronize = synchronize,
    .strided_copy = strided_copy,
    .strided_add = strided_add,
    .copy_all = copy_all,
    .to_floats = to_floats,
    .truth_of = truth_of,
    .elementwise = elementwise,
    .reduce = reduce,
    .argmax = argmax,
    .gemm = gemm,
    .gemm_two = gemm_two,
    .take_rows = take_rows,
    .add_rows = add_rows,
    .take_along = take_along,
    .add_along = add_along,
    .clear_rows = clear_rows,
    .softmax_rows = softmax_rows,
    .d_softmax_rows = d_softmax_rows,
    .log_softmax_rows = log_softmax_rows,
    .d_log_softmax_rows = d_log_softmax_rows,
    .norm_rows = norm_rows,
    .d_norm_rows = d_norm_rows,
    .cross_entropy_rows = cross_entropy_rows,
    .d_cross_entropy_rows = d_cross_entropy_rows,
    .dropout = dropout,
    .rotate = rotate,
    .rnn_forward = rnn_forward,
    .rnn_backward = rnn_backward,
    .gru_forward = gru_forward,
    .gru_backward = gru_backward,
    .lstm_forward = lstm_forward,
    .lstm_backward = lstm_backward,
    .gru_whole = gru_whole,
    .gru_whole_backward = gru_whole_backward,
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
    .refuses = refuses,
    .attention_forward = attention_forward,
    .attention_backward = attention_backward,
    .attention_weights = attention_weights,
    .attention_entropy = attention_entropy,
    .attention_log_prob = attention_log_prob,
    .top_of_rows = top_of_rows,
    .all_finite = all_finite,
    .steps_prepare = [](const StepMemory&) { return std::shared_ptr<const StepExponentials>(); },
    .step_forward = step_forward,
    .step_d_weights = step_d_weights,
    .step_d_query = step_d_query,
    .steps_d_rows = steps_d_rows,
    .steps_d_additive = steps_d_additive,
    .bf16 = &kBf16,
};

constexpr Module kModule = {
    .device_name = device_name,
    .allocate = allocate,
    .give_back = give_back,
    .release = release,
    .memory = memory,
    .reset_peak = reset_peak,
    .upload = upload,
    .download = download,
    .synchronize = synchronize,
    .stream = [] { return static_cast<void*>(stream()); },
    .refuses = refuses,
    .attention_forward = attention_forward,
    .attention_backward = attention_backward,
    .kernels = &kKernels,
};

}  // namespace
}  // namespace fovea::cuda

extern "C" __attribute__((visibility("default"))) const fovea::cuda::Module* fovea_cuda_module(
    int version) {
  return version == fovea::cuda::kModuleVersion ? &fovea::cuda::kModule : nullptr;
}
