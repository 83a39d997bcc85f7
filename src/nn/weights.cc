#include <algorithm>
#include <bit>
#include <cmath>
#include <numbers>
#include <numeric>

#include "core/random.h"
#include "fovea/nn.h"
#include "fovea/ops.h"

namespace fovea::nn {
namespace {

// Of [out, in] and of a convolution's [out, in, taps..].
struct Fans {
  double in = 1.0, out = 1.0;
};
Fans fans_of(const Shape& shape) {
  Fans fans;
  if (shape.empty()) return fans;
  for (size_t d = 1; d < shape.size(); ++d) fans.in *= static_cast<double>(shape[d]);
  fans.out = static_cast<double>(shape[0]);
  if (shape.size() == 1) fans.in = fans.out;
  for (size_t d = 2; d < shape.size(); ++d) fans.out *= static_cast<double>(shape[d]);
  return fans;
}

Tensor uniform(const Shape& shape, uint64_t seed, double bound) {
  return Tensor::rand(shape, seed) * static_cast<float>(2.0 * bound) - static_cast<float>(bound);
}

// A random rotation of n dimensions as rows of q: from the unit vectors, rounds in which all rows
// are paired at random and each pair is turned by a random angle (Kac's walk). A round takes a
// quarter off a row's excess Σ q⁴, hence the number of rounds until entries look normal; n² log n
// in all, where Gram–Schmidt takes n³: 25 ms for n = 1024.
std::vector<double> rotation(int64_t n, RandomKey key) {
  std::vector<double> q(n * n, 0.0);
  for (int64_t i = 0; i < n; ++i) q[i * n + i] = 1.0;
  std::vector<int64_t> order(n);
  std::iota(order.begin(), order.end(), 0);
  uint64_t draws = 0;
  const auto draw = [&] { return unit_open(bits32(key, draws++)); };
  const int rounds = 3 * std::bit_width(static_cast<uint64_t>(n)) + 8;
  for (int round = 0; round < rounds; ++round) {
    for (int64_t i = n - 1; i > 0; --i) {
      std::swap(order[i], order[static_cast<int64_t>(draw() * static_cast<double>(i + 1))]);
    }
    for (int64_t pair = 0; pair + 1 < n; pair += 2) {
      const double angle = 2.0 * std::numbers::pi * draw();
      const double c = std::cos(angle), s = std::sin(angle);
      double* a = q.data() + order[pair] * n;
      double* b = q.data() + order[pair + 1] * n;
      for (int64_t j = 0; j < n; ++j) {
        const double turned = c * a[j] - s * b[j];
        b[j] = s * a[j] + c * b[j];
        a[j] = turned;
      }
    }
  }
  return q;
}

Tensor orthogonal(const std::string& name, const Shape& shape, uint64_t seed) {
  if (shape.size() != 2) {
    throw Error("weights",
                name + " is orthogonal and must be [rows, columns], found " + to_string(shape));
  }
  const int64_t rows = shape[0], n = shape[1];
  Tensor t = Tensor::empty(shape, DType::f32, Device::cpu);
  float* out = t.mutable_data<float>();
  for (int64_t start = 0; start < rows && n > 0; start += n) {
    const auto q = rotation(n, random_key(seed, Purpose::weights, static_cast<uint64_t>(start)));
    const int64_t count = std::min(n, rows - start) * n;
    std::transform(q.begin(), q.begin() + count, out + start * n,
                   [](double x) { return static_cast<float>(x); });
  }
  return t;
}

Tensor start(const std::string& name, const Shape& shape, Init init, uint64_t seed) {
  const Fans fans = fans_of(shape);
  switch (init) {
    case Init::zeros:
      return Tensor::zeros(shape);
    case Init::uniform:
      return uniform(shape, seed, 1.0 / std::sqrt(std::max(1.0, fans.in)));
    case Init::xavier:
      return uniform(shape, seed, std::sqrt(6.0 / std::max(1.0, fans.in + fans.out)));
    case Init::orthogonal:
      return orthogonal(name, shape, seed);
    case Init::normal:
      return Tensor::randn(shape, seed) * 0.1f;
    case Init::small:
      return Tensor::randn(shape, seed) * 0.02f;
    case Init::ones:
      return Tensor::full(shape, 1.0f);
  }
  throw Error("weights", name + " starts from nothing known");
}

}  // namespace

Weights Weights::sketch() {
  Weights w;
  w.from_ = From::shapes;
  return w;
}

Weights Weights::given(Tensors tensors) {
  Weights w;
  w.from_ = From::tensors;
  w.given_ = std::move(tensors);
  return w;
}

Weights Weights::begun(Tensors tensors, std::function<bool(const std::string&)> held) {
  Weights w = given(std::move(tensors));
  w.from_ = From::learners;
  w.held_ = std::move(held);
  return w;
}

// Taken out, so that nothing is kept which no layer asked for.
Tensor Weights::given(const std::string& name, const Shape& shape) {
  const auto found = given_.extract(name);
  const Tensor t = found.empty() ? Tensor() : found.mapped();
  expect_tensors({{name, Tensor::scalar(0.0f).expand(shape)}}, {{name, t}});
  return t.to(default_device());
}

Tensor Weights::add(const std::string& name, const Shape& shape, Init init, float gain) {
  const NoGrad off;
  if (from_ == From::shapes) return enter(name, Tensor::scalar(0.0f).expand(shape), learned_);
  if (from_ == From::tensors) return enter(name, given(name, shape), learned_);
  if (from_ == From::learners) {
    if (held_(name)) return enter(name, given(name, shape), buffers_);
    return enter(name, given(name, shape).set_requires_grad(), learned_);
  }
  const RandomKey key = random_key(seed_, Purpose::weights, hash_of(name));
  const Device device = default_device();
  const DefaultDevice host(Device::cpu);  // the same start on every device
  Tensor t = start(name, shape, init, uint64_t{key.b} << 32 | key.a);
  if (gain != 1.0f) t.mul_(gain);
  return enter(name, t.to(device).set_requires_grad(), learned_);
}

Tensor Weights::add_buffer(const std::string& name, const Shape& shape, float value) {
  switch (from_) {
    case From::shapes:
      return enter(name, Tensor::scalar(value).expand(shape), buffers_);
    case From::tensors:
    case From::learners:
      return enter(name, given(name, shape), buffers_);
    case From::seed:
      break;
  }
  return enter(name, Tensor::full(shape, value), buffers_);
}

Tensor Weights::enter(const std::string& name, const Tensor& t, Tensors& kind) {
  if (!all_.emplace(name, t).second) throw Error("weights", name + " is there already");
  kind.emplace(name, t);
  return t;
}

int64_t Weights::count() const {
  return std::accumulate(learned_.begin(), learned_.end(), int64_t{0},
                         [](int64_t n, const auto& entry) { return n + entry.second.numel(); });
}

void expect_tensors(const Tensors& expected, const Tensors& from) {
  for (const auto& [name, t] : expected) {
    const auto found = from.find(name);
    if (found == from.end()) {
      throw Error("load", name + " is missing, expected " + to_string(t.shape()));
    }
    const Tensor& value = found->second;
    if (!value) throw Error("load", name + " is undefined, expected " + to_string(t.shape()));
    if (!is_weights(value.dtype())) {
      throw Error("load", name + " is " + name_of(value.dtype()) + ", expected f32");
    }
    if (value.shape() != t.shape()) {
      throw Error("load",
                  name + " is " + to_string(value.shape()) + ", expected " + to_string(t.shape()));
    }
  }
  for (const auto& [name, value] : from) {
    if (!expected.contains(name)) {
      throw Error("load", name + (value ? " " + to_string(value.shape()) : "") +
                              " is not known, expected one of " + std::to_string(expected.size()) +
                              " other tensors");
    }
  }
}

void Weights::load(const Tensors& from) {
  expect_tensors(all_, from);
  const NoGrad off;
  for (auto& [name, t] : all_) t.copy_(from.at(name).detach());
}

}  // namespace fovea::nn
