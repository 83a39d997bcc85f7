// Products by Intel's matrix unit, beside the same sums one by one. Elsewhere there is nothing to
// test.
#include "kernels/matrix-unit.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <vector>

#include "core/isa.h"
#include "core/random.h"

namespace fovea::kernels {
namespace {

class MatrixUnit : public testing::Test {
  void SetUp() override {
    if (!uses_matrix_unit()) GTEST_SKIP() << "this processor has none";
  }
};

struct Sides {
  int64_t m, n, K;  // K in words
  std::vector<uint32_t> a, b;
  Sides(int64_t rows, int64_t columns, int64_t words)
      : m(rows), n(columns), K(words), a(numbers(m * K, 1)), b(numbers(K * n, 2)) {}
  static std::vector<uint32_t> numbers(int64_t n, uint64_t seed) {
    const RandomKey key = random_key(seed, Purpose::tensor);
    std::vector<uint32_t> x(static_cast<size_t>(n));
    for (int64_t i = 0; i < n; ++i)
      x[static_cast<size_t>(i)] = bits32(key, static_cast<uint64_t>(i));
    return x;
  }
  template <class Sum>
  unit::Product<Sum> product(std::vector<Sum>& c, bool accumulate) const {
    return {.a = {a.data(), K},
            .b = {b.data(), n},
            .c = c.data(),
            .ldc = n,
            .m = m,
            .n = n,
            .K = K,
            .accumulate = accumulate};
  }
};

const std::vector<Sides>& sides() {
  static const std::vector<Sides> all = {
      {16, 16, 16}, {16, 48, 32}, {48, 16, 16}, {32, 64, 80}, {80, 80, 48}};
  return all;
}

// Whole numbers, from −8 to 7: their sums are exact in any order.
uint32_t halves_of(uint32_t bits) {
  const auto half = [](uint32_t x) {
    return std::bit_cast<uint32_t>(static_cast<float>(x % 16) - 8.0f) >> 16;
  };
  return half(bits) | half(bits >> 16) << 16;
}
float number(uint32_t word, int which) {
  return std::bit_cast<float>(which == 0 ? word << 16 : word & 0xffff0000u);
}

TEST_F(MatrixUnit, MultipliesHalves) {
  for (Sides x : sides()) {
    for (uint32_t& word : x.a) word = halves_of(word);
    for (uint32_t& word : x.b) word = halves_of(word);
    for (const bool accumulate : {false, true}) {
      std::vector<float> c(static_cast<size_t>(x.m * x.n), accumulate ? 3.0f : NAN);
      {
        const unit::Registers registers(true);
        unit::multiply<unit::Halves>(x.product(c, accumulate));
      }
      for (int64_t i = 0; i < x.m; ++i) {
        for (int64_t j = 0; j < x.n; ++j) {
          float sum = accumulate ? 3.0f : 0.0f;
          for (int64_t k = 0; k < x.K; ++k) {
            const uint32_t left = x.a[i * x.K + k], right = x.b[k * x.n + j];
            for (const int which : {0, 1}) sum += number(left, which) * number(right, which);
          }
          ASSERT_EQ(c[i * x.n + j], sum) << i << " " << j;
        }
      }
    }
  }
}

TEST_F(MatrixUnit, MultipliesBytesWithASignByThoseWithout) {
  for (const Sides& x : sides()) {
    for (const bool accumulate : {false, true}) {
      std::vector<int32_t> c(static_cast<size_t>(x.m * x.n), accumulate ? -5 : 77);
      {
        const unit::Registers registers(true);
        unit::multiply<unit::Bytes>(x.product(c, accumulate));
      }
      for (int64_t i = 0; i < x.m; ++i) {
        for (int64_t j = 0; j < x.n; ++j) {
          int32_t sum = accumulate ? -5 : 0;
          for (int64_t k = 0; k < x.K; ++k) {
            const uint32_t left = x.a[i * x.K + k], right = x.b[k * x.n + j];
            for (int shift = 0; shift < 32; shift += 8) {
              sum += static_cast<int8_t>(left >> shift) * static_cast<uint8_t>(right >> shift);
            }
          }
          ASSERT_EQ(c[i * x.n + j], sum) << i << " " << j;
        }
      }
    }
  }
}

}  // namespace
}  // namespace fovea::kernels
