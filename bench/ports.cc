// What vector instructions cost on this processor, in multiply-adds: a thread does independent
// chains of each, held in registers, taking turns. The kernels of additive scores choose between a
// division and an estimate of 1/x by it (docs/kernels.md).
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ports.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h, as Highway wants it.
#include <hwy/highway.h>

#include <cstdint>

HWY_BEFORE_NAMESPACE();
namespace fovea::bench {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using F = hn::ScalableTag<float>;
using Vec = hn::Vec<F>;

constexpr int kChains = HWY_TARGET <= HWY_AVX3 ? 12 : 8;
constexpr int64_t kRounds = 20'000;

// x ← step(x), kChains of them, kRounds times.
template <class Step>
HWY_INLINE float Chains(float start, const Step& step) {
  const F d;
  Vec x[kChains];
  HWY_UNROLL(16)
  for (int c = 0; c < kChains; ++c) x[c] = hn::Set(d, start + 0.01f * static_cast<float>(c));
  for (int64_t i = 0; i < kRounds; ++i) {
    HWY_UNROLL(16)
    for (int c = 0; c < kChains; ++c) x[c] = step(x[c]);
  }
  Vec sum = hn::Zero(d);
  HWY_UNROLL(16)
  for (int c = 0; c < kChains; ++c) sum = hn::Add(sum, x[c]);
  return hn::GetLane(sum);
}

HWY_INLINE Vec Better(Vec x, Vec r) {  // Newton's step towards 1/x
  return hn::Mul(r, hn::NegMulAdd(x, r, hn::Set(F(), 2.0f)));
}

}  // namespace

// A step of each kind; `start` is what the compiler does not know.
float Run(int kind, float start) {
  const F d;
  const Vec a = hn::Set(d, start), b = hn::Set(d, start * 0.5f), one = hn::Set(d, 1.0f);
  switch (kind) {
    case 0:
      return Chains(start, [&](Vec x) HWY_ATTR { return hn::MulAdd(x, a, b); });
    case 1:
      return Chains(start, [&](Vec x) HWY_ATTR { return hn::Mul(x, a); });
    case 2:
      return Chains(start, [&](Vec x) HWY_ATTR { return hn::Add(x, b); });
    case 3:
      return Chains(start, [&](Vec x) HWY_ATTR { return hn::Min(hn::Add(x, b), one); });
    case 4:
      return Chains(start, [&](Vec x) HWY_ATTR { return hn::Div(a, x); });
    case 5:
      return Chains(start, [&](Vec x) HWY_ATTR { return hn::ApproximateReciprocal(x); });
    case 6:
      return Chains(start, [&](Vec x) HWY_ATTR { return Better(x, hn::ApproximateReciprocal(x)); });
    case 7:  // (x + a)/(x·a), two terms of an additive score by one division
      return Chains(start, [&](Vec x) HWY_ATTR { return hn::Div(hn::Add(x, a), hn::Mul(x, a)); });
    default:  // the same by an estimate
      return Chains(start, [&](Vec x) HWY_ATTR {
        const Vec product = hn::Mul(x, a);
        return hn::Mul(hn::Add(x, a), Better(product, hn::ApproximateReciprocal(product)));
      });
  }
}

double Numbers() { return static_cast<double>(kRounds * kChains) * hn::Lanes(F()); }

}  // namespace HWY_NAMESPACE
}  // namespace fovea::bench
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <string>

#include "core/processor.h"
#include "fovea/runtime.h"
#include "machine.h"

namespace fovea::bench {
namespace {

HWY_EXPORT(Run);
HWY_EXPORT(Numbers);

constexpr std::array kKinds = {"multiply-add",
                               "multiplication",
                               "addition",
                               "addition and minimum",
                               "division",
                               "estimate of 1/x",
                               "estimate and Newton's step",
                               "two terms by a division",
                               "two terms by an estimate"};
constexpr int kTurns = 40;

void print_table() {
  const std::string used = isa();  // as FOVEA_ISA wants it
  std::array<double, kKinds.size()> best{};
  volatile float sink = 0;
  for (int turn = 0; turn < kTurns; ++turn) {
    for (size_t kind = 0; kind < kKinds.size(); ++kind) {
      const double start = now_seconds();
      sink = HWY_DYNAMIC_DISPATCH(Run)(static_cast<int>(kind), 1.0f + 0.0f * sink);
      const double rate = HWY_DYNAMIC_DISPATCH(Numbers)() / (now_seconds() - start);
      best[kind] = std::max(best[kind], rate);
    }
  }
  fmt::print("{}, {}\n\n{:<30}{:>12}{:>16}\n", processor().name, used, "a vector's", "G numbers/s",
             "multiply-adds");
  for (size_t kind = 0; kind < kKinds.size(); ++kind) {
    fmt::print("{:<30}{:>12.1f}{:>16.2f}\n", kKinds[kind], best[kind] * 1e-9, best[0] / best[kind]);
  }
}

}  // namespace
}  // namespace fovea::bench

int main() {
  fovea::bench::print_table();
  return 0;
}
#endif  // HWY_ONCE
