#pragma once

#include <cstdint>

#include "kernels/numbers.h"

// Rows of weights from one type to another.
namespace fovea::kernels {

// w[r][c] = scale[r]·data[r·row + c], of i8; others have no scale (null: 1).
struct WeightRows {
  const void* data = nullptr;
  Number type = Number::f32;
  const float* scale = nullptr;
  int64_t cols = 0, row = 0;
};

// y[i,:] = w[ids[i],:], n rows; ids null: the first n. y [n,cols].
void widen_rows(const WeightRows& w, const int64_t* ids, int64_t n, float* y);

// What a change of type costs: the sums of (w − ŵ)² and of w².
struct Narrowed {
  double lost = 0, all = 0;
};

// The first n rows of w as another type, to [n,cols]. bf16 and f16 are the nearest, of two the even
// one. Of i8 a row is s·q with whole q from −127 to 127 and s = max|w|/127, so that
// |w − s·q| ≤ s/2; of a row with a number that is not finite s is NaN. `scale` [n], where it is i8.
Narrowed narrow_rows(const WeightRows& w, int64_t n, Number type, void* to, float* scale);
// The same of n numbers to 16 bits, and nobody asks what it costs.
void narrow_numbers(const float* x, int64_t n, Number type, void* to);

}  // namespace fovea::kernels
