#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "fovea/ops.h"
#include "tensor/impl.h"

// What a device computes of bf16, beside what the CPU computes of the same numbers in float32,
// which other tests hold against float64.
namespace fovea::test {

inline bool computes_bf16() { return computes_in(default_device(), DType::bf16); }

// A result has 8 bits, and so has what it is made of: 2⁻⁹ of a number each, less on average.
constexpr double kBf16Bound = 6e-3;

inline double distance(const Tensor& found, const Tensor& expected) {
  const std::vector<float> a = found.to(DType::f32).to_vector(), b = expected.to_vector();
  if (a.size() != b.size()) return INFINITY;
  double off = 0, all = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double d = static_cast<double>(a[i]) - static_cast<double>(b[i]);
    off += d * d;
    all += static_cast<double>(b[i]) * static_cast<double>(b[i]);
  }
  return std::sqrt(off / std::max(all, 1e-30));
}

// A function of what becomes bf16 and of weights, which stay float32.
struct Bf16Case {
  std::string name;
  std::vector<Shape> inputs, weights;
  std::function<Tensor(const std::vector<Tensor>& x, const std::vector<Tensor>& w)> f;
  double bound = kBf16Bound;
};

// The result and the gradients of inputs and weights.
struct Bf16Outcome {
  Tensor y;
  std::vector<Tensor> gradients;
};

inline Bf16Outcome run(const Bf16Case& c, Device device, DType type) {
  const DefaultDevice here(device);
  std::vector<Tensor> leaves, x, w;
  const auto leaf = [&](const Shape& shape, bool narrow) {
    const DefaultDevice host(Device::cpu);
    Tensor t = Tensor::randn(shape, 10 + leaves.size());
    if (narrow) t = t.to(DType::bf16).to(DType::f32);
    t = t.to(device).detach();
    leaves.push_back(t.set_requires_grad());
    return leaves.back();
  };
  for (const Shape& shape : c.inputs) x.push_back(leaf(shape, true).to(type));
  for (const Shape& shape : c.weights) w.push_back(leaf(shape, false));
  const Tensor y = c.f(x, w);
  const Tensor d = [&] {
    const DefaultDevice host(Device::cpu);
    return Tensor::randn(y.shape(), 5).to(DType::bf16).to(DType::f32);
  }();
  y.to(DType::f32).backward(d.to(device));
  Bf16Outcome out{y.detach(), {}};
  for (const Tensor& t : leaves) out.gradients.push_back(t.grad());
  return out;
}

inline void expect_bf16(const Bf16Case& c) {
  SCOPED_TRACE(c.name);
  const Bf16Outcome expected = run(c, Device::cpu, DType::f32);
  const Bf16Outcome found = run(c, default_device(), DType::bf16);
  ASSERT_EQ(found.y.shape(), expected.y.shape());
  EXPECT_LE(distance(found.y, expected.y), c.bound);
  for (size_t i = 0; i < expected.gradients.size(); ++i) {
    ASSERT_TRUE(found.gradients[i].defined()) << i;
    EXPECT_EQ(found.gradients[i].dtype(), DType::f32) << i;
    EXPECT_LE(distance(found.gradients[i], expected.gradients[i]), c.bound) << "gradient " << i;
  }
  const Bf16Outcome again = run(c, default_device(), DType::bf16);
  EXPECT_EQ(found.y.to(DType::f32).to_vector(), again.y.to(DType::f32).to_vector());
  for (size_t i = 0; i < expected.gradients.size(); ++i) {
    EXPECT_EQ(found.gradients[i].to_vector(), again.gradients[i].to_vector()) << i;
  }
}

}  // namespace fovea::test
