#include <algorithm>
#include <cmath>

#include "explain/rows.h"
#include "fovea/faithful.h"

namespace fovea::explain {
namespace {

// Numbers that Adam learns, one tensor for each look of a pass, in the order of the looks.
struct Learned {
  std::vector<float> value, first, second;  // and its moments
  Shape shape;
};

class Weights {
 public:
  explicit Weights(const Adversary& c) : c_(c) {}

  // softmax of what was learned so far, over the permitted keys.
  models::Intervention intervention() {
    next_ = 0;
    leaves_.clear();
    return [this](const models::Weighed& w) {
      if (next_ == all_.size()) all_.push_back(begun(w.weights.shape()));
      const Learned& l = all_[next_++];
      leaves_.push_back(Tensor::from(l.value, l.shape).set_requires_grad());
      const Tensor hidden = where(w.permitted(), Tensor::scalar(0.0f), Tensor::scalar(-1e9f));
      return softmax(leaves_.back() + hidden);
    };
  }

  void step(const Tensor& loss) {
    const std::vector<Tensor> d = gradients(loss, Tensor::scalar(1.0f), leaves_);
    ++steps_;
    for (size_t i = 0; i < d.size(); ++i) adam(all_[i], d[i].to_vector());
  }

 private:
  Learned begun(const Shape& shape) const {
    Learned l{.shape = shape};
    l.value = Tensor::randn(shape, c_.seed * 7919 + all_.size()).to_vector();
    l.first.assign(l.value.size(), 0.0f);
    l.second.assign(l.value.size(), 0.0f);
    return l;
  }

  void adam(Learned& l, const std::vector<float>& d) const {
    constexpr float kFirst = 0.9f, kSecond = 0.95f, kLittle = 1e-8f;
    const auto t = static_cast<float>(steps_);
    const float rate = c_.rate * std::sqrt(1 - std::pow(kSecond, t)) / (1 - std::pow(kFirst, t));
    for (size_t i = 0; i < d.size(); ++i) {
      l.first[i] = kFirst * l.first[i] + (1 - kFirst) * d[i];
      l.second[i] = kSecond * l.second[i] + (1 - kSecond) * d[i] * d[i];
      l.value[i] -= rate * l.first[i] / (std::sqrt(l.second[i]) + kLittle);
    }
  }

  const Adversary& c_;
  std::vector<Learned> all_;
  std::vector<Tensor> leaves_;
  size_t next_ = 0;
  int64_t steps_ = 0;
};

// By row: p is fixed, q is learned; a row of p that is 0 counts nothing.
Tensor distances(const Tensor& p, const Tensor& q) {
  const Tensor m = (p + q) * 0.5f, little = Tensor::scalar(1e-12f);
  const auto from_m = [&](const Tensor& x) {
    return sum(x * (log(maximum(x, little)) - log(maximum(m, little))), {-1}) * 0.5f;
  };
  return from_m(p) + from_m(q);
}

}  // namespace

Attacked attack(const LookAt& look, const Adversary& c, const Progress& progress) {
  const auto own = [&] {
    const NoGrad off;
    return look({});
  }();
  const Tensor p = exp(own.log_p).detach(), weights = own.weights.detach();
  const auto T = static_cast<size_t>(p.size(0));
  Attacked best{std::vector<double>(T, 0.0), std::vector<double>(T, 0.0)};
  Weights learned(c);
  const Recording on;
  for (int64_t s = 0; s < c.steps; ++s) {
    const Seen seen = look(learned.intervention());
    const Tensor apart = distances(weights, seen.weights);             // [T]
    const Tensor change = sum(abs(exp(seen.log_p) - p), {-1}) * 0.5f;  // [T]
    const std::vector<float> far = apart.to_vector(), changed = change.to_vector();
    for (size_t t = 0; t < T; ++t) {
      const auto distance = static_cast<double>(far[t]), by = static_cast<double>(changed[t]);
      if (by <= c.allowed && distance > best.distance[t]) {
        best.distance[t] = distance, best.change[t] = by;
      }
    }
    const Tensor excess = relu(change - static_cast<float>(c.allowed));
    learned.step(sum(excess * c.penalty - apart));
    if (progress) progress(static_cast<double>(s + 1) / static_cast<double>(c.steps));
  }
  return best;
}

}  // namespace fovea::explain
