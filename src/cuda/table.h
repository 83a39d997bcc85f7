#pragma once

#include "cuda/device_memory.h"
#include "cuda/error.h"
#include "kernels/bf16.h"
#include "kernels/table.h"

// What the module gives tensors (kernels/table.h), a file for each family.
namespace fovea::cuda {

using namespace kernels;  // the types of the table

// device_memory.cu, copies.cu
void clear(void* to, size_t bytes);
void fill(int64_t n, float value, float* y);
void strided_copy(std::span<const int64_t> shape, int64_t element, Bytes from, Bytes to);
void strided_add(std::span<const int64_t> shape, Bytes from, Bytes to);
void copy_all(std::span<const Copy>);
void to_floats(int64_t n, const uint8_t* x, float* y);
void truth_of(int64_t n, const float* x, uint8_t* y);
bool all_finite(const View<const float>&, int64_t B, int64_t H, int64_t R, int64_t C);

// elementwise.cu
void elementwise(Op, std::span<const int64_t> shape, std::initializer_list<Source>, Target,
                 Numbers);
void dropout(int64_t n, const float* x, const Drop&, float* y);
void rotate(const HeadSizes&, const HeadRows& x, const Angles&, const HeadRows& y);

// reduce.cu
void reduce(Reduce, Axes kept, Axes reduced, const float* x, float* out);
void argmax(Axes kept, Candidates, const float* x, int64_t* out);

// gemm.cu, few.cu, wide.cu
void gemm(const Gemm&);
void gemm_two(const Gemm&, const Gemm&);
bool multiply_few_rows(const Gemm&);  // false where it is not for these
bool multiply_many_rows(const Gemm&);

// lookup.cu
void take_rows(Middle, const int64_t* ids, int64_t n, const float* x, float* y);
void add_rows(Middle, const int64_t* ids, int64_t n, const float* y, float* x);
void take_along(Middle, const int64_t* ids, int64_t n, const float* x, float* y);
void add_along(Middle, const int64_t* ids, int64_t n, const float* y, float* x);

// rowwise.cu
void clear_rows(Rows, const uint8_t* keep, float* x);
void softmax_rows(Rows, const float* x, float* y);
void d_softmax_rows(Rows, const float* y, const float* dy, float* dx);
void log_softmax_rows(Rows, const float* x, float* y);
void d_log_softmax_rows(Rows, const float* y, const float* dy, float* dx);
void norm_rows(Rows, const float* x, const Affine&, float* y, Moments);
void d_norm_rows(Rows, const Normed&, const float* w, const NormGradients&);
void cross_entropy_rows(Rows, const Targets&, const float* x, LogSums, float* loss);
void d_cross_entropy_rows(Rows, const Targets&, const LossGradient&, const float* x, LogSums,
                          float* dx);

// recurrent.cu
void rnn_forward(const CellRows&, const RnnStep&);
void rnn_backward(const CellRows&, const RnnGradient&);
void gru_forward(const CellRows&, const GruStep&);
void gru_backward(const CellRows&, const GruGradient&);
void lstm_forward(const CellRows&, const LstmStep&);
void lstm_backward(const CellRows&, const LstmGradient&);

// gru.cu
void gru_whole(std::span<const GruWhole>);
void gru_whole_backward(std::span<const GruWholeGradient>);

// steps.cu
void step_forward(const StepMemory&, const float* q, float factor, float* p, float* context);
void step_d_weights(const StepMemory&, const float* d_context, float* dp);
void step_d_query(const StepMemory&, const StepGradient&);
void steps_d_rows(const StepMemory&, std::span<const KeptStep>, const RowsView<float>& d_rows);
void steps_d_additive(const StepMemory&, std::span<const KeptStep>, const RowsView<float>& d_keys,
                      float* du);

// conv.cu
void conv(const Convolution&, const float* x, const float* w, float* y);
void d_conv_x(const Convolution&, const float* w, const float* dy, float* dx);
void d_conv_w(const Convolution&, const float* x, const float* dy, float* dw);
void max_pool(const Pooling&, const float* x, float* y, int64_t* from);
void d_max_pool(const Pooling&, const int64_t* from, const float* dy, float* dx);
void avg_pool(const Pooling&, const float* x, float* y);
void d_avg_pool(const Pooling&, const float* dy, float* dx);

// optimize.cu
void adam(std::span<const Learned>, const AdamUpdate&);
void descend(std::span<const Learned>, const MomentumUpdate&);
double squared_norm(std::span<const Values>);
void scale(std::span<const Values>, float factor);
void move_average(std::span<const Averaged>, float decay);
void swap(Values, float* other);

// bf16.cu, bf16_rows.cu
void narrow_bf16(int64_t n, const float* x, Bf16* y);
void widen_bf16(int64_t n, const Bf16* x, float* y);
void gemm_bf16(const Bf16Gemm&);
void sum_rows_bf16(Bf16Rows, const Bf16* x, float* sums);
void norm_rows_bf16(Rows, const Bf16* x, const Affine&, Bf16* y, Moments);
void d_norm_rows_bf16(Rows, const Bf16Normed&, const float* w, const Bf16NormGradients&);
void cross_entropy_rows_bf16(Bf16Rows, const Targets&, const Bf16* x, LogSums, float* loss);
void d_cross_entropy_rows_bf16(Bf16Rows, const Targets&, const LossGradient&, const Bf16* x,
                               LogSums, Bf16* dx);
void dropout_bf16(int64_t n, const Bf16* x, const Drop&, Bf16* y);

}  // namespace fovea::cuda
