#pragma once

#include <cstdint>

namespace fovea::kernels {

constexpr int64_t DivCeil(int64_t n, int64_t by) { return (n + by - 1) / by; }
constexpr int64_t RoundUp(int64_t n, int64_t to) { return DivCeil(n, to) * to; }
constexpr int64_t RoundDown(int64_t n, int64_t to) { return n / to * to; }

}  // namespace fovea::kernels
