#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/optimize.cc"
#include <hwy/foreach_target.h>
// Highway's headers follow the line above.
#include <hwy/highway.h>

#include <algorithm>
#include <array>
#include <vector>

#include "core/threads.h"
#include "kernels/optimize.h"

HWY_BEFORE_NAMESPACE();
namespace fovea::kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

// f on each vector of K arrays, of which it writes the first kWritten. Lanes past the end are
// computed from zeros and dropped.
template <int kWritten, int K, class F>
HWY_INLINE void InVectors(std::array<float*, K> p, int64_t n, const F& f) {
  const int64_t N = static_cast<int64_t>(hn::Lanes(D()));
  int64_t i = 0;
  for (; i + N <= n; i += N) {
    f(p);
    for (float*& at : p) at += N;
  }
  if (i == n) return;
  HWY_ALIGN float tail[K][HWY_MAX_BYTES / sizeof(float)] = {};
  std::array<float*, K> t;
  for (int k = 0; k < K; ++k) {
    t[k] = tail[k];
    std::copy_n(p[k], n - i, tail[k]);
  }
  f(t);
  for (int k = 0; k < kWritten; ++k) std::copy_n(tail[k], n - i, p[k]);
}

void AdamBlock(const Learned& x, const AdamUpdate& by) {
  const D d;
  const V gain1 = hn::Set(d, 1.0f - by.beta1), gain2 = hn::Set(d, 1.0f - by.beta2);
  const V beta2 = hn::Set(d, by.beta2), epsilon = hn::Set(d, by.epsilon);
  const V rate = hn::Set(d, by.rate), root = hn::Set(d, by.root);
  const V decay = hn::Set(d, by.decay), keep = hn::Set(d, by.keep), scale = hn::Set(d, by.scale);
  const std::array<float*, 4> arrays{x.weight, x.first, x.second, const_cast<float*>(x.gradient)};
  InVectors<3, 4>(arrays, x.n, [&](const std::array<float*, 4>& p) HWY_ATTR {
    const V w = hn::LoadU(d, p[0]);
    const V g = hn::MulAdd(w, decay, hn::Mul(hn::LoadU(d, p[3]), scale));
    V m = hn::LoadU(d, p[1]);
    m = hn::MulAdd(gain1, hn::Sub(g, m), m);
    const V v = hn::MulAdd(gain2, hn::Mul(g, g), hn::Mul(beta2, hn::LoadU(d, p[2])));
    const V divisor = hn::MulAdd(hn::Sqrt(v), root, epsilon);
    hn::StoreU(hn::NegMulAdd(rate, hn::Div(m, divisor), hn::Mul(w, keep)), d, p[0]);
    hn::StoreU(m, d, p[1]);
    hn::StoreU(v, d, p[2]);
  });
}

void DescendBlock(const Learned& x, const MomentumUpdate& by) {
  const D d;
  const V momentum = hn::Set(d, by.momentum), rate = hn::Set(d, by.rate);
  const V decay = hn::Set(d, by.decay), scale = hn::Set(d, by.scale);
  const std::array<float*, 3> arrays{x.weight, x.first, const_cast<float*>(x.gradient)};
  InVectors<2, 3>(arrays, x.n, [&](const std::array<float*, 3>& p) HWY_ATTR {
    const V w = hn::LoadU(d, p[0]);
    const V g = hn::MulAdd(w, decay, hn::Mul(hn::LoadU(d, p[2]), scale));
    const V m = hn::MulAdd(momentum, hn::LoadU(d, p[1]), g);
    hn::StoreU(hn::NegMulAdd(rate, m, w), d, p[0]);
    hn::StoreU(m, d, p[1]);
  });
}

void AverageBlock(const Averaged& x, float decay) {
  const D d;
  const V gain = hn::Set(d, 1.0f - decay);
  const std::array<float*, 2> arrays{x.average, const_cast<float*>(x.value)};
  InVectors<1, 2>(arrays, x.n, [&](const std::array<float*, 2>& p) HWY_ATTR {
    const V a = hn::LoadU(d, p[0]);
    hn::StoreU(hn::MulAdd(gain, hn::Sub(hn::LoadU(d, p[1]), a), a), d, p[0]);
  });
}

void ScaleBlock(const Values& x, float factor) {
  const D d;
  const V f = hn::Set(d, factor);
  InVectors<1, 1>({x.data}, x.n, [&](const std::array<float*, 1>& p) HWY_ATTR {
    hn::StoreU(hn::Mul(hn::LoadU(d, p[0]), f), d, p[0]);
  });
}

// In double, where no square of a float overflows.
void SquaresBlock(const Values& x, double* sum) {
  const hn::ScalableTag<double> d;
  const hn::Rebind<float, decltype(d)> half;
  const int64_t N = static_cast<int64_t>(hn::Lanes(d));
  auto s0 = hn::Zero(d), s1 = hn::Zero(d);
  int64_t i = 0;
  for (; i + 2 * N <= x.n; i += 2 * N) {
    const auto a = hn::PromoteTo(d, hn::LoadU(half, x.data + i));
    const auto b = hn::PromoteTo(d, hn::LoadU(half, x.data + i + N));
    s0 = hn::MulAdd(a, a, s0);
    s1 = hn::MulAdd(b, b, s1);
  }
  double total = hn::GetLane(hn::SumOfLanes(d, hn::Add(s0, s1)));
  for (; i < x.n; ++i) total += static_cast<double>(x.data[i]) * x.data[i];
  *sum = total;
}

}  // namespace HWY_NAMESPACE
}  // namespace fovea::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace fovea::kernels {

HWY_EXPORT(AdamBlock);
HWY_EXPORT(DescendBlock);
HWY_EXPORT(AverageBlock);
HWY_EXPORT(ScaleBlock);
HWY_EXPORT(SquaresBlock);

namespace {

constexpr int64_t kBlock = 1 << 14;  // numbers of one tensor to a task

Values part(const Values& x, int64_t at, int64_t n) { return {x.data + at, n}; }
Averaged part(const Averaged& x, int64_t at, int64_t n) {
  return {x.average + at, x.value + at, n};
}
Learned part(const Learned& x, int64_t at, int64_t n) {
  return {x.weight + at, x.gradient + at, x.first + at, x.second ? x.second + at : nullptr, n};
}

template <class T>
std::vector<T> blocks_of(std::span<const T> tensors) {
  std::vector<T> blocks;
  for (const T& x : tensors) {
    for (int64_t at = 0; at < x.n; at += kBlock) {
      blocks.push_back(part(x, at, std::min(kBlock, x.n - at)));
    }
  }
  return blocks;
}

// body(i, block). A model smaller than a block wakes no threads.
template <class T, class F>
void for_blocks(const std::vector<T>& blocks, const F& body) {
  int64_t numbers = 0;
  for (const T& x : blocks) numbers += x.n;
  const int64_t n = static_cast<int64_t>(blocks.size());
  if (numbers <= kBlock) {
    for (int64_t i = 0; i < n; ++i) body(i, blocks[i]);
  } else {
    parallel_for(n, [&](int64_t i) { body(i, blocks[i]); });
  }
}

}  // namespace

void adam(std::span<const Learned> tensors, const AdamUpdate& by) {
  for_blocks(blocks_of(tensors), [&](int64_t, const Learned& x) {
    HWY_DYNAMIC_DISPATCH(AdamBlock)(x, by);
  });
}

void descend(std::span<const Learned> tensors, const MomentumUpdate& by) {
  for_blocks(blocks_of(tensors), [&](int64_t, const Learned& x) {
    HWY_DYNAMIC_DISPATCH(DescendBlock)(x, by);
  });
}

void move_average(std::span<const Averaged> tensors, float decay) {
  for_blocks(blocks_of(tensors), [&](int64_t, const Averaged& x) {
    HWY_DYNAMIC_DISPATCH(AverageBlock)(x, decay);
  });
}

void scale(std::span<const Values> tensors, float factor) {
  for_blocks(blocks_of(tensors), [&](int64_t, const Values& x) {
    HWY_DYNAMIC_DISPATCH(ScaleBlock)(x, factor);
  });
}

double squared_norm(std::span<const Values> tensors) {
  const std::vector<Values> blocks = blocks_of(tensors);
  std::vector<double> sums(blocks.size());
  for_blocks(blocks, [&](int64_t i, const Values& x) {
    HWY_DYNAMIC_DISPATCH(SquaresBlock)(x, &sums[i]);
  });
  double total = 0;
  for (const double sum : sums) total += sum;
  return total;
}

void swap(Values x, float* other) { std::swap_ranges(x.data, x.data + x.n, other); }

}  // namespace fovea::kernels
#endif  // HWY_ONCE
