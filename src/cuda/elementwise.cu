#include <cmath>

#include "core/random.h"
#include "cuda/bf16.cuh"
#include "cuda/launch.cuh"
#include "cuda/loops.cuh"
#include "cuda/table.h"

// One thread an element; bound by memory. What is computed is chosen by a branch that all threads
// take alike, so that there are two kernels and not a hundred.
namespace fovea::cuda {
namespace {

__device__ __forceinline__ float sigmoid_of(float x) { return 1.0f / (1.0f + expf(-x)); }
__device__ __forceinline__ float normal_cdf(float x) { return 0.5f * erfcf(x * -0.7071067812f); }
// 2u and its slope, u = √(2/π)·(x + 0.044715·x³)
__device__ __forceinline__ float twice_u(float x) {
  return fmaf(x, 1.595769122f, x * x * (x * 0.07135481283f));
}
__device__ __forceinline__ float d_twice_u(float x) {
  return fmaf(x * x, 0.2140644385f, 1.595769122f);
}
// x·s, 0 where x is so low that s is 0: −∞·0 is none.
__device__ __forceinline__ float gated(float x, float s) { return (x < -100.0f ? 0.0f : x) * s; }
// σ + x·σ·(1 − σ)·slope
__device__ __forceinline__ float d_gated(float x, float s, float slope) {
  return fmaf(gated(x, s * (1.0f - s)), slope, s);
}
__device__ __forceinline__ float keep_nan(float x, float y) { return x != x ? x : y; }

__device__ float of_one(Op op, float a, float p, float q) {
  switch (op) {
    case Op::affine:
      return fmaf(a, p, q);
    case Op::reverse_div:
      return p / a;
    case Op::power:
      return powf(a, p);
    case Op::exp:
      return expf(a);
    case Op::log:
      return logf(a);
    case Op::tanh:
      return tanhf(a);
    case Op::sigmoid:
      return sigmoid_of(a);
    case Op::relu:
      return a < 0.0f ? 0.0f : a;
    case Op::gelu:
      return (a < -20.0f ? 0.0f : a) * normal_cdf(a);
    case Op::gelu_tanh:
      return gated(a, sigmoid_of(twice_u(a)));
    case Op::silu:
      return gated(a, sigmoid_of(a));
    case Op::sqrt:
      return sqrtf(a);
    case Op::square:
      return a * a;
    case Op::abs:
      return fabsf(a);
    case Op::elu:
      return a > 0.0f ? a : p * expm1f(a);
    default:  // clamp
      return keep_nan(a, fminf(fmaxf(a, p), q));
  }
}

__device__ float of_two(Op op, float a, float b, float p, float q) {
  switch (op) {
    case Op::add:
      return a + b;
    case Op::sub:
      return a - b;
    case Op::mul:
      return a * b;
    case Op::div:
    case Op::d_log:
      return a / b;
    case Op::maximum:
      return keep_nan(a, keep_nan(b, fmaxf(a, b)));
    case Op::minimum:
      return keep_nan(a, keep_nan(b, fminf(a, b)));
    case Op::pow:
      return powf(a, b);
    case Op::add_scaled:
      return fmaf(b, p, a);
    case Op::less:
      return a < b;
    case Op::less_equal:
      return a <= b;
    case Op::equal:
      return a == b;
    case Op::not_equal:
      return a != b;
    case Op::d_tanh:
      return a * fmaf(-b, b, 1.0f);
    case Op::d_sigmoid:
      return a * fmaf(-b, b, b);
    case Op::d_relu:
      return b > 0.0f ? a : 0.0f;
    case Op::d_gelu:
      return a * fmaf(b * 0.3989422804f, expf(b * b * -0.5f), normal_cdf(b));
    case Op::d_gelu_tanh:
      return a * d_gated(b, sigmoid_of(twice_u(b)), d_twice_u(b));
    case Op::d_silu:
      return a * d_gated(b, sigmoid_of(b), 1.0f);
    case Op::d_sqrt:
      return a * 0.5f / b;
    case Op::d_square:
      return (a + a) * b;
    case Op::d_abs:
      return b > 0.0f ? a : b < 0.0f ? -a : 0.0f;
    case Op::d_elu:
      return b > 0.0f ? a : a * (b + p);
    case Op::d_clamp:
      return b >= p && b <= q ? a : 0.0f;
    default:  // d_power
      return p == 0.0f ? 0.0f : a * p * powf(b, p - 1.0f);
  }
}

__device__ __forceinline__ float result_of(Op op, const float (&in)[3], Numbers by) {
  if (op < Op::add) return of_one(op, in[0], by.p, by.q);
  if (op < Op::where) return of_two(op, in[0], in[1], by.p, by.q);
  if (op == Op::where) return in[0] != 0.0f ? in[1] : in[2];
  return in[0] * (in[1] > in[2] ? 1.0f : in[1] == in[2] ? 0.5f : 0.0f);  // d_maximum
}

struct Operands {
  const void* in[3];
  Element type[3];
  void* out;
  Element out_type;
};
__device__ __forceinline__ float number_at(const void* data, Element type, int64_t i) {
  if (type == Element::byte) return static_cast<const uint8_t*>(data)[i] != 0;
  if (type == Element::bf16) return __bfloat162float(static_cast<const bf16*>(data)[i]);
  return static_cast<const float*>(data)[i];
}

// Floats that lie one after another; a step of 0 repeats one.
struct Dense {
  const float* in[3];
  int64_t step[3];
  float* out;
};

__global__ __launch_bounds__(kThreads) void dense_elements(Op op, int operands, Dense x, Numbers by,
                                                           int64_t n) {
  wait_for_earlier();
  for (int64_t i = first_element(); i < n; i += element_step()) {
    float in[3];
#pragma unroll
    for (int o = 0; o < 3; ++o) in[o] = o < operands ? x.in[o][i * x.step[o]] : 0.0f;
    x.out[i] = result_of(op, in, by);
  }
}

__global__ __launch_bounds__(kThreads) void strided_elements(Op op, int operands, Operands x,
                                                             Numbers by,
                                                             const __grid_constant__ Walk<4> walk) {
  wait_for_earlier();
  for (int64_t i = first_element(); i < walk.numel; i += element_step()) {
    int64_t at[4];
    walk.at(i, at);
    float in[3];
#pragma unroll
    for (int o = 0; o < 3; ++o) {
      in[o] = o < operands ? number_at(x.in[o], x.type[o], at[o]) : 0.0f;
    }
    const float y = result_of(op, in, by);
    if (x.out_type == Element::byte) {
      static_cast<uint8_t*>(x.out)[at[3]] = y != 0.0f;
    } else if (x.out_type == Element::bf16) {
      static_cast<bf16*>(x.out)[at[3]] = __float2bfloat16_rn(y);
    } else {
      static_cast<float*>(x.out)[at[3]] = y;
    }
  }
}

// bf16 that lies one after another, eight a thread, by what training spends its time with. What the
// faster instructions are off by is far below a bit of bf16.
__device__ __forceinline__ float fast_sigmoid(float x) {
  return __fdividef(1.0f, 1.0f + exp2_of(-x * kLog2e));
}
template <Op kOp>
__device__ __forceinline__ float fast_result(float a, float b, Numbers by) {
  if constexpr (kOp == Op::add) return a + b;
  if constexpr (kOp == Op::add_scaled) return fmaf(b, by.p, a);
  if constexpr (kOp == Op::mul) return a * b;
  if constexpr (kOp == Op::gelu) return a * fmaf(0.5f, erff(a * 0.7071067812f), 0.5f);
  if constexpr (kOp == Op::gelu_tanh) return gated(a, fast_sigmoid(twice_u(a)));
  if constexpr (kOp == Op::d_gelu) {
    const float cdf = fmaf(0.5f, erff(b * 0.7071067812f), 0.5f);
    return a * fmaf(b * 0.3989422804f, exp2_of(b * b * (-0.5f * kLog2e)), cdf);
  }
  return a * d_gated(b, fast_sigmoid(twice_u(b)), d_twice_u(b));  // d_gelu_tanh
}

template <Op kOp>
__global__ __launch_bounds__(kThreads) void eight_elements(const uint4* a, const uint4* b, uint4* y,
                                                           Numbers by, int64_t eights) {
  constexpr bool kTwo = kOp >= Op::add;
  for (int64_t i = first_element(); i < eights; i += element_step()) {
    float u[8], v[8] = {};
    widen8(a[i], u);
    if constexpr (kTwo) widen8(b[i], v);
#pragma unroll
    for (int e = 0; e < 8; ++e) u[e] = fast_result<kOp>(u[e], v[e], by);
    y[i] = narrow8(u);
  }
}

// False where it has no such kernel.
bool by_eights(Op op, const Operands& x, Numbers by, int64_t n) {
  const auto run = [&](auto kernel) {
    kernel<<<grid_for(n / 8), kThreads, 0, stream()>>>(static_cast<const uint4*>(x.in[0]),
                                                       static_cast<const uint4*>(x.in[1]),
                                                       static_cast<uint4*>(x.out), by, n / 8);
    check_launch("elementwise");
    return true;
  };
  switch (op) {
    case Op::add:
      return run(eight_elements<Op::add>);
    case Op::add_scaled:
      return run(eight_elements<Op::add_scaled>);
    case Op::mul:
      return run(eight_elements<Op::mul>);
    case Op::gelu:
      return run(eight_elements<Op::gelu>);
    case Op::gelu_tanh:
      return run(eight_elements<Op::gelu_tanh>);
    case Op::d_gelu:
      return run(eight_elements<Op::d_gelu>);
    case Op::d_gelu_tanh:
      return run(eight_elements<Op::d_gelu_tanh>);
    default:
      return false;
  }
}

__global__ __launch_bounds__(kThreads) void drop(int64_t n, const float* x, Drop by, float* y) {
  for (int64_t i = first_element(); i < n; i += element_step()) {
    y[i] = bits32(by.key, static_cast<uint64_t>(i)) < by.threshold ? 0.0f : x[i] * by.scale;
  }
}

// (y₁, y₂) = (x₁·c − x₂·s, x₂·c + x₁·s) over the halves of a row; one thread a pair.
__global__ __launch_bounds__(kThreads) void turn(HeadSizes n, HeadRows x, Angles by, HeadRows y) {
  const int64_t half = n.d / 2, all = n.B * n.L * n.H * half;
  for (int64_t t = first_element(); t < all; t += element_step()) {
    const int64_t i = t % half, h = t / half % n.H, l = t / half / n.H % n.L;
    const int64_t b = t / half / n.H / n.L;
    const float* from = x.data + b * x.batch + h * x.head + l * x.row;
    float* to = y.data + b * y.batch + h * y.head + l * y.row;
    const float c = by.cos[l * half + i], s = by.sin[l * half + i] * by.turn;
    const float x1 = from[i], x2 = from[half + i];
    to[i] = fmaf(-x2, s, x1 * c);
    to[half + i] = fmaf(x1, s, x2 * c);
  }
}

}  // namespace

void elementwise(Op op, std::span<const int64_t> shape, std::initializer_list<Source> inputs,
                 Target out, Numbers by) {
  const int operands = static_cast<int>(inputs.size());
  const int64_t* strides[4] = {};
  Operands x{};
  Dense dense{};
  for (int o = 0; o < 3; ++o) {
    const Source& in = inputs.begin()[o < operands ? o : 0];
    x.in[o] = in.data;
    x.type[o] = in.type;
    strides[o] = in.strides;
  }
  x.out = out.data;
  x.out_type = out.type;
  strides[3] = out.strides;
  const Walk<4> walk(shape, strides);
  if (walk.numel == 0) return;
  const bool in_line = walk.rank == 1 && (walk.strides[3][0] == 1 || walk.numel == 1);
  bool plain = in_line && x.out_type == Element::f32;
  bool eights = in_line && x.out_type == Element::bf16 && walk.numel % 8 == 0 && whole_from(x.out);
  for (int o = 0; o < 3; ++o) {
    dense.in[o] = static_cast<const float*>(x.in[o]);
    dense.step[o] = walk.strides[o][0];
    plain &= x.type[o] == Element::f32;
    eights &= x.type[o] == Element::bf16 && walk.strides[o][0] == 1 && whole_from(x.in[o]);
  }
  dense.out = static_cast<float*>(x.out);
  if (eights && by_eights(op, x, by, walk.numel)) return;
  if (plain) {
    launch_early(dense_elements, {grid_for(walk.numel), kThreads}, "elementwise", op, operands,
                 dense, by, walk.numel);
  } else {
    launch_early(strided_elements, {grid_for(walk.numel), kThreads}, "elementwise", op, operands, x,
                 by, walk);
  }
}

void dropout(int64_t n, const float* x, const Drop& by, float* y) {
  if (n == 0) return;
  drop<<<grid_for(n), kThreads, 0, stream()>>>(n, x, by, y);
  check_launch("dropout");
}

void rotate(const HeadSizes& n, const HeadRows& x, const Angles& by, const HeadRows& y) {
  const int64_t all = n.B * n.L * n.H * (n.d / 2);
  if (all == 0) return;
  turn<<<grid_for(all), kThreads, 0, stream()>>>(n, x, by, y);
  check_launch("rotate");
}

}  // namespace fovea::cuda
