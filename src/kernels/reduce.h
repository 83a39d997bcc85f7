#pragma once

#include <cstdint>
#include <span>

namespace fovea::kernels {

enum class Reduce : uint8_t { sum, max };

struct Axes {
  std::span<const int64_t> sizes;
  const int64_t* strides;
};

// out[k] = Σ_r or max_r x[k, r], any strides; out is dense over the kept axes. Sums are taken in
// pieces of fixed size, those in double, so that the result depends on the shape alone. An empty
// sum is 0, an empty maximum −inf.
void reduce(Reduce, Axes kept, Axes reduced, const float* x, float* out);

// out[k] = the first j with the largest x[k, j], j in 0 … n−1, `step` apart; n at least 1.
struct Candidates {
  int64_t n, step;
};
void argmax(Axes kept, Candidates, const float* x, int64_t* out);

}  // namespace fovea::kernels
