#include <cmath>

#include "fovea/layers.h"

namespace fovea::nn {
namespace {

constexpr double kBase = 10000.0;

// base^(−2i/width), i = 0 … width/2 − 1
double rate_of(int64_t i, int64_t width) {
  return std::pow(kBase, -2.0 * static_cast<double>(i) / static_cast<double>(width));
}

}  // namespace

const char* name_of(Positions p) {
  static constexpr const char* kNames[] = {"none",   "sinusoidal", "learned",
                                           "rotary", "alibi",      "t5"};
  return kNames[static_cast<int>(p)];
}

// Column 2i is the sine, 2i + 1 the cosine.
Tensor sinusoidal_positions(int64_t first, int64_t count, int64_t width) {
  Tensor t = Tensor::empty({count, width}, DType::f32, Device::cpu);
  float* out = t.mutable_data<float>();
  for (int64_t l = 0; l < count; ++l) {
    for (int64_t c = 0; c < width; ++c) {
      const double a = static_cast<double>(first + l) * rate_of(c / 2, width);
      out[l * width + c] = static_cast<float>(c % 2 == 0 ? std::sin(a) : std::cos(a));
    }
  }
  return t.to(default_device());
}

Rotary rotary_positions(int64_t first, int64_t count, int64_t depth, const RotaryConfig& c) {
  const int64_t half = depth / 2;
  if (!c.rates.empty() && c.rates.size() != static_cast<size_t>(half)) {
    throw Error("rotary_positions", "expected " + std::to_string(half) + " rates, found " +
                                        std::to_string(c.rates.size()));
  }
  Rotary r{Tensor::empty({count, half}, DType::f32, Device::cpu),
           Tensor::empty({count, half}, DType::f32, Device::cpu)};
  float *cos = r.cos.mutable_data<float>(), *sin = r.sin.mutable_data<float>();
  const auto gain = static_cast<double>(c.gain);
  for (int64_t i = 0; i < half; ++i) {
    const double rate = c.rates.empty() ? rate_of(i, depth) : c.rates[static_cast<size_t>(i)];
    for (int64_t l = 0; l < count; ++l) {
      const double a = static_cast<double>(first + l) * rate;
      cos[l * half + i] = static_cast<float>(gain * std::cos(a));
      sin[l * half + i] = static_cast<float>(gain * std::sin(a));
    }
  }
  return {r.cos.to(default_device()), r.sin.to(default_device())};
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
