#pragma once

#include <cstdint>
#include <span>

// Passes over the weights of a model, all tensors in one go: each number is read and written once.
// The work is cut into the same blocks at any number of threads, so sums are bit-equal.
namespace fovea::kernels {

struct Values {
  float* data;
  int64_t n;
};

// One tensor while it learns. `second` is Adam's alone.
struct Learned {
  float* weight;
  const float* gradient;
  float* first;
  float* second;
  int64_t n;
};

// g ← scale·g + decay·w;  m ← m + (1 − β₁)(g − m);  v ← β₂v + (1 − β₂)g²
// w ← keep·w − rate·m/(root·√v + ε)
struct AdamUpdate {
  float beta1, beta2, epsilon;
  float rate;          // the step's, over 1 − β₁ᵗ
  float root;          // 1/√(1 − β₂ᵗ)
  float decay = 0.0f;  // as a penalty on w²
  float keep = 1.0f;   // decay of the weights themselves
  float scale = 1.0f;  // of the gradient
};
void adam(std::span<const Learned>, const AdamUpdate&);

// g ← scale·g + decay·w;  m ← momentum·m + g;  w ← w − rate·m
struct MomentumUpdate {
  float momentum, rate;
  float decay = 0.0f;
  float scale = 1.0f;
};
void descend(std::span<const Learned>, const MomentumUpdate&);

double squared_norm(std::span<const Values>);
void scale(std::span<const Values>, float factor);

// average ← average + (1 − decay)(value − average)
struct Averaged {
  float* average;
  const float* value;
  int64_t n;
};
void move_average(std::span<const Averaged>, float decay);

void swap(Values, float* other);

}  // namespace fovea::kernels
