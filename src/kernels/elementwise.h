#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>

namespace fovea::kernels {

// What is computed from operands a, b, c and the numbers p, q. A gradient's op is named after the
// function, and gets dy first: d_tanh(dy, y) = dy·(1 − y²).
enum class Op : uint8_t {
  // one operand
  affine,       // p·a + q
  reverse_div,  // p / a
  power,        // a^p
  exp,
  log,
  tanh,
  sigmoid,
  relu,
  gelu,
  gelu_tanh,  // a·σ(2u), u = √(2/π)·(a + 0.044715·a³)
  silu,       // a·σ(a)
  sqrt,
  square,
  abs,
  elu,    // a > 0 ? a : p·(e^a − 1)
  clamp,  // min(max(a, p), q)
  // two
  add,
  sub,
  mul,
  div,
  maximum,
  minimum,
  pow,
  add_scaled,  // a + p·b
  less,
  less_equal,
  equal,
  not_equal,  // 1 or 0
  d_tanh,
  d_sigmoid,
  d_relu,
  d_gelu,
  d_gelu_tanh,
  d_silu,
  d_sqrt,
  d_square,
  d_abs,
  d_elu,
  d_clamp,
  d_log,
  d_power,  // a·p·b^(p−1)
  // three
  where,      // a ≠ 0 ? b : c
  d_maximum,  // a where b > c, a/2 where b = c, else 0
};

enum class Element : uint8_t { f32, byte, bf16 };  // a byte reads as 0 or 1; bf16 not on the CPU

struct Source {
  const void* data;
  const int64_t* strides;
  Element type = Element::f32;
};
struct Target {
  void* data;
  const int64_t* strides;
  Element type = Element::f32;
};
struct Numbers {
  float p = 0.0f, q = 0.0f;
};

// out[i] = op(inputs[0][i], …) over the shape, any strides. `out` may be one of the inputs when
// both are laid out alike.
void elementwise(Op op, std::span<const int64_t> shape, std::initializer_list<Source> inputs,
                 Target out, Numbers = {});

// out[i] = a[i] op b[i], op one of less, less_equal, equal and not_equal.
void compare_ids(Op op, int64_t n, const int64_t* a, const int64_t* b, uint8_t* out);

}  // namespace fovea::kernels
