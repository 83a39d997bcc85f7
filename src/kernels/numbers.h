#pragma once

#include <cstdint>

// How weights are kept that nobody learns. Whoever computes makes float32 of them in registers.
namespace fovea::kernels {

enum class Number : uint8_t { f32, bf16, f16, i8 };

constexpr int64_t size_of(Number n) { return n == Number::f32 ? 4 : n == Number::i8 ? 1 : 2; }

struct Bf16 {  // 1 sign, 8 exponent, 7 mantissa bits: the upper half of a float
  uint16_t bits;
};
struct F16 {  // 1 sign, 5 exponent, 10 mantissa bits
  uint16_t bits;
};

// use(static_cast<const T*>(data)), with the T that the numbers are.
template <class Use>
auto as_type(Number n, const void* data, const Use& use) {
  switch (n) {
    case Number::bf16:
      return use(static_cast<const Bf16*>(data));
    case Number::f16:
      return use(static_cast<const F16*>(data));
    case Number::i8:
      return use(static_cast<const int8_t*>(data));
    case Number::f32:
      break;
  }
  return use(static_cast<const float*>(data));
}

}  // namespace fovea::kernels
