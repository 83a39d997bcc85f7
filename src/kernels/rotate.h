#pragma once

#include <cstdint>

namespace fovea::kernels {

// Rows of d numbers, d even, at (b, h, l) = data + b·batch + h·head + l·row.
struct HeadRows {
  float* data = nullptr;
  int64_t batch = 0, head = 0, row = 0;
};
struct HeadSizes {
  int64_t B = 0, H = 0, L = 0, d = 0;
};
struct Angles {
  const float *cos = nullptr, *sin = nullptr;  // [L, d/2]
  float turn = 1.0f;                           // −1: back
};

// (y_i, y_{i+d/2}) = (x_i, x_{i+d/2}) turned by the angle of (l, i), in every head alike.
void rotate(const HeadSizes&, const HeadRows& x, const Angles&, const HeadRows& y);

}  // namespace fovea::kernels
