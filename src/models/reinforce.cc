#include "fovea/reinforce.h"

#include <vector>

#include "core/random.h"
#include "fovea/ops.h"
#include "kernels/discount.h"
#include "models/checks.h"
#include "tensor/impl.h"

namespace fovea::models {

const char* name_of(Baseline b) { return b == Baseline::learned ? "learned" : "expected"; }
Baseline baseline(const std::string& name) {
  return by_name("reinforce", "baseline", name, {Baseline::learned, Baseline::expected});
}

Tensor returns(const Tensor& rewards, float discount) {
  expect_dtype("returns", "rewards", rewards, DType::f32);
  if (rewards.rank() == 0) throw Error("returns", "rewards are a scalar, expected [T,..]");
  const Tensor r = rewards.detach().to(Device::cpu).contiguous();
  Tensor R = Tensor::empty(r.shape(), DType::f32, Device::cpu);
  const int64_t T = r.size(0);
  kernels::discounted_sums(T, T > 0 ? r.numel() / T : 0, raw(r), discount, raw(R));
  return R.to(rewards.device());
}

Tensor rows_to_expect(int64_t rows, float share, uint64_t seed) {
  std::vector<uint8_t> expect(static_cast<size_t>(rows));
  const RandomKey key = random_key(seed, Purpose::reinforce);
  for (int64_t b = 0; b < rows; ++b) {
    expect[static_cast<size_t>(b)] = unit_open(bits32(key, static_cast<uint64_t>(b))) < share;
  }
  return Tensor::from_bools(expect, {rows});
}

Tensor reinforce(const Choices& a, const Tensor& R, const Tensor& b, const ReinforceConfig& c) {
  const Tensor advantage = (R - b).detach() * a.counts;
  return sum(square(R - b) * a.counts) - sum(advantage * a.log_prob) * c.reward -
         sum(a.entropy * a.counts) * c.entropy;
}

}  // namespace fovea::models
