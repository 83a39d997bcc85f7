#include "io/convert.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

namespace fovea::safetensors {
namespace {

static_assert(std::endian::native == std::endian::little, "safetensors files are little-endian");

// 1 sign, 5 exponent (bias 15), 10 mantissa bits.
float from_half(uint16_t bits) {
  const uint32_t sign = (bits & 0x8000u) << 16;
  const uint32_t rest = bits & 0x7fffu;
  if (rest < 0x0400u) return std::copysign(static_cast<float>(rest) * 0x1p-24f, sign ? -1.f : 1.f);
  const uint32_t rebias = rest < 0x7c00u ? 127u - 15u : 255u - 31u;
  return std::bit_cast<float>(sign | ((rest << 13) + (rebias << 23)));
}

float from_bfloat(uint16_t bits) { return std::bit_cast<float>(uint32_t{bits} << 16); }

int64_t from_u64(uint64_t value) {
  if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
    throw Malformed("a U64 number exceeds 2^63 - 1");
  }
  return static_cast<int64_t>(value);
}

template <class From, class To, class F>
void each(const std::byte* from, void* to, int64_t n, F f) {
  To* out = static_cast<To*>(to);
  for (int64_t i = 0; i < n; ++i) {
    From x;
    std::memcpy(&x, from + i * sizeof(From), sizeof(From));
    out[i] = f(x);
  }
}

template <class From>
void integers(const std::byte* from, void* to, int64_t n) {
  each<From, int64_t>(from, to, n, [](From x) { return static_cast<int64_t>(x); });
}

}  // namespace

void convert(Stored stored, const std::byte* from, void* to, int64_t n) {
  switch (stored) {
    case Stored::boolean:
      return each<uint8_t, uint8_t>(from, to, n, [](uint8_t x) { return uint8_t{x != 0}; });
    case Stored::u8:
      return integers<uint8_t>(from, to, n);
    case Stored::i8:
      return integers<int8_t>(from, to, n);
    case Stored::u16:
      return integers<uint16_t>(from, to, n);
    case Stored::i16:
      return integers<int16_t>(from, to, n);
    case Stored::u32:
      return integers<uint32_t>(from, to, n);
    case Stored::i32:
      return integers<int32_t>(from, to, n);
    case Stored::i64:
      return integers<int64_t>(from, to, n);
    case Stored::u64:
      return each<uint64_t, int64_t>(from, to, n, from_u64);
    case Stored::f16:
      return each<uint16_t, float>(from, to, n, from_half);
    case Stored::bf16:
      return each<uint16_t, float>(from, to, n, from_bfloat);
    case Stored::f32:
      return each<float, float>(from, to, n, [](float x) { return x; });
    case Stored::f64:
      return each<double, float>(from, to, n, [](double x) { return static_cast<float>(x); });
  }
}

}  // namespace fovea::safetensors
