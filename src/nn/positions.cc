#include <cmath>

#include "fovea/layers.h"

namespace fovea::nn {
namespace {

constexpr double kBase = 10000.0;

// p·base^(−2i/width), i = 0 … width/2 − 1
double angle(int64_t p, int64_t i, int64_t width) {
  const double rate = std::pow(kBase, -2.0 * static_cast<double>(i) / static_cast<double>(width));
  return static_cast<double>(p) * rate;
}

}  // namespace

const char* name_of(Positions p) {
  static constexpr const char* kNames[] = {"none",   "sinusoidal", "learned",
                                           "rotary", "alibi",      "t5"};
  return kNames[static_cast<int>(p)];
}

// Column 2i is the sine, 2i + 1 the cosine.
Tensor sinusoidal_positions(int64_t first, int64_t count, int64_t width) {
  Tensor t = Tensor::empty({count, width});
  float* out = t.mutable_data<float>();
  for (int64_t l = 0; l < count; ++l) {
    for (int64_t c = 0; c < width; ++c) {
      const double a = angle(first + l, c / 2, width);
      out[l * width + c] = static_cast<float>(c % 2 == 0 ? std::sin(a) : std::cos(a));
    }
  }
  return t;
}

Rotary rotary_positions(int64_t first, int64_t count, int64_t depth) {
  const int64_t half = depth / 2;
  Rotary r{Tensor::empty({count, half}), Tensor::empty({count, half})};
  float *cos = r.cos.mutable_data<float>(), *sin = r.sin.mutable_data<float>();
  for (int64_t i = 0; i < half; ++i) {
    for (int64_t l = 0; l < count; ++l) {
      const double a = angle(first + l, i, depth);
      cos[l * half + i] = static_cast<float>(std::cos(a));
      sin[l * half + i] = static_cast<float>(std::sin(a));
    }
  }
  return r;
}

// 2^(−8h/H), h = 1 … H; where H is no power of 2, those of the power below it, then every second
// one of the power above.
Tensor alibi_slopes(int64_t heads) {
  int64_t power = 1;
  while (2 * power <= heads) power *= 2;
  std::vector<float> slopes;
  for (int64_t h = 0; h < heads; ++h) {
    const bool below = h < power;
    const double n = static_cast<double>(below ? power : 2 * power);
    const auto k = static_cast<double>(below ? h + 1 : 2 * (h - power) + 1);
    slopes.push_back(static_cast<float>(std::exp2(-8.0 * k / n)));
  }
  return Tensor::from(slopes, {heads});
}

}  // namespace fovea::nn
