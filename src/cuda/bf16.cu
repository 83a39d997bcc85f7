#include "cuda/bf16_columns.cuh"

#include <vector>

#include "core/random.h"
#include "cuda/cublas.h"
#include "cuda/table.h"

// bf16: conversions, products, sums down columns and dropout.
namespace fovea::cuda {
namespace {

__global__ __launch_bounds__(kThreads) void narrow_all(int64_t n, const float* x, bf16* y) {
  const int64_t eights = n / 8;
  for (int64_t i = first_element(); i < eights; i += element_step()) {
    const float4 a = reinterpret_cast<const float4*>(x)[2 * i];
    const float4 b = reinterpret_cast<const float4*>(x)[2 * i + 1];
    const float eight[8] = {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w};
    reinterpret_cast<uint4*>(y)[i] = narrow8(eight);
  }
  for (int64_t i = eights * 8 + first_element(); i < n; i += element_step()) {
    y[i] = __float2bfloat16_rn(x[i]);
  }
}

__global__ __launch_bounds__(kThreads) void widen_all(int64_t n, const bf16* x, float* y) {
  const int64_t eights = n / 8;
  for (int64_t i = first_element(); i < eights; i += element_step()) {
    float eight[8];
    widen8(reinterpret_cast<const uint4*>(x)[i], eight);
    reinterpret_cast<float4*>(y)[2 * i] = {eight[0], eight[1], eight[2], eight[3]};
    reinterpret_cast<float4*>(y)[2 * i + 1] = {eight[4], eight[5], eight[6], eight[7]};
  }
  for (int64_t i = eights * 8 + first_element(); i < n; i += element_step()) {
    y[i] = __bfloat162float(x[i]);
  }
}

// One by one, where memory does not begin at 16 bytes.
__global__ __launch_bounds__(kThreads) void narrow_each(int64_t n, const float* x, bf16* y) {
  for (int64_t i = first_element(); i < n; i += element_step()) y[i] = __float2bfloat16_rn(x[i]);
}
__global__ __launch_bounds__(kThreads) void widen_each(int64_t n, const bf16* x, float* y) {
  for (int64_t i = first_element(); i < n; i += element_step()) y[i] = __bfloat162float(x[i]);
}

__global__ __launch_bounds__(kThreads) void drop_some(int64_t n, const bf16* x, Drop by, bf16* y) {
  for (int64_t i = first_element(); i < n; i += element_step()) {
    const bool gone = bits32(by.key, static_cast<uint64_t>(i)) < by.threshold;
    y[i] = __float2bfloat16_rn(gone ? 0.0f : __bfloat162float(x[i]) * by.scale);
  }
}

// As floats, by the products that every device has: where cuBLASLt is not, or knows no way.
void multiply_as_floats(const Bf16Gemm& g) {
  const auto floats = [](const Bf16* from, int64_t rows, int64_t cols, int64_t row, int64_t col) {
    Scratch<float> dense(static_cast<size_t>(rows * cols));
    const Scratch<uint16_t> copy(static_cast<size_t>(rows * cols));
    const int64_t shape[] = {rows, cols}, strides[] = {row, col}, own[] = {cols, 1};
    strided_copy(shape, sizeof(Bf16), {const_cast<Bf16*>(from), strides}, {copy.data(), own});
    widen_bf16(rows * cols, reinterpret_cast<const Bf16*>(copy.data()), dense.data());
    return dense;
  };
  const Scratch<float> a = floats(g.a, g.m, g.k, g.a_row, g.a_col);
  const Scratch<float> b = floats(g.b, g.k, g.n, g.b_row, g.b_col);
  Scratch<float> bias;
  if (g.bias != nullptr) bias = floats(g.bias, 1, g.n, g.n, 1);
  const bool narrow = g.c_type == Number::bf16;
  const Scratch<float> c(narrow ? static_cast<size_t>(g.m * g.n) : 0);
  gemm({.m = g.m,
        .n = g.n,
        .k = g.k,
        .a = a.data(),
        .a_row = g.k,
        .b = b.data(),
        .b_row = g.n,
        .c = narrow ? c.data() : static_cast<float*>(g.c),
        .c_row = narrow ? g.n : g.c_row,
        .bias = bias.data()});
  if (!narrow) return;
  const Scratch<uint16_t> copy(static_cast<size_t>(g.m * g.n));
  narrow_bf16(g.m * g.n, c.data(), reinterpret_cast<Bf16*>(copy.data()));
  const int64_t shape[] = {g.m, g.n}, own[] = {g.n, 1}, strides[] = {g.c_row, 1};
  strided_copy(shape, sizeof(Bf16), {copy.data(), own}, {g.c, strides});
}

}  // namespace

void narrow_bf16(int64_t n, const float* x, Bf16* y) {
  if (n == 0) return;
  const auto kernel = whole_from(x) && whole_from(y) ? narrow_all : narrow_each;
  kernel<<<grid_for((n + 7) / 8), kThreads, 0, stream()>>>(n, x, numbers(y));
  check_launch("conversion to bf16");
}

void widen_bf16(int64_t n, const Bf16* x, float* y) {
  if (n == 0) return;
  const auto kernel = whole_from(x) && whole_from(y) ? widen_all : widen_each;
  kernel<<<grid_for((n + 7) / 8), kThreads, 0, stream()>>>(n, numbers(x), y);
  check_launch("conversion from bf16");
}

void dropout_bf16(int64_t n, const Bf16* x, const Drop& by, Bf16* y) {
  if (n == 0) return;
  drop_some<<<grid_for(n), kThreads, 0, stream()>>>(n, numbers(x), by, numbers(y));
  check_launch("dropout");
}

void sum_rows_bf16(Bf16Rows rows, const Bf16* x, float* sums) {
  if (rows.n == 0) return;
  sum_columns<ColumnSum::plain>({rows, numbers(x)}, sums, nullptr);
}

// A row-major matrix is a transposed column-major one: Cᵀ = Bᵀ·Aᵀ.
void gemm_bf16(const Bf16Gemm& g) {
  if (g.m == 0 || g.n == 0) return;
  const bool a_across = g.a_col != 1, b_across = g.b_col != 1;
  if (g.k > 0 && multiply_by_cublas({.m = g.n,
                                     .n = g.m,
                                     .k = g.k,
                                     .a_transposed = b_across,
                                     .b_transposed = a_across,
                                     .a = g.b,
                                     .b = g.a,
                                     .bias = g.bias,
                                     .d = g.c,
                                     .type = Number::bf16,
                                     .d_type = g.c_type,
                                     .lda = b_across ? g.b_col : g.b_row,
                                     .ldb = a_across ? g.a_col : g.a_row,
                                     .ldc = g.c_row,
                                     .ldd = g.c_row})) {
    return;
  }
  multiply_as_floats(g);
}

}  // namespace fovea::cuda
