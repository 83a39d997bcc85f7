// Hard attention learns by REINFORCE: one key is drawn, a reward comes back, and the gradient of
// −(reward − baseline)·log p(drawn key) teaches the query where to look. Only key 2 pays here.
#include <cstdio>

#include "fovea/attention.h"

int main() {
  using namespace fovea;
  const int64_t paying_key = 2;
  Tensor q = Tensor::zeros({1, 8}).set_requires_grad();                     // [Lq,D]
  const Tensor k = Tensor::randn({5, 8}, 1), v = Tensor::randn({5, 8}, 2);  // [Lk,D]
  float baseline = 0;

  for (uint64_t step = 0; step < 400; ++step) {
    const Attended a = attend(q, k, v, {.weighting = weightings::sample(/*seed=*/step)});
    const float reward = a.chosen().to_ids()[0] == paying_key ? 1.0f : 0.0f;
    const Tensor log_prob = a.log_prob();
    log_prob.backward(Tensor::full(log_prob.shape(), baseline - reward));
    baseline += 0.1f * (reward - baseline);

    const NoGrad no_grad;
    q.add_(q.grad(), /*scale=*/-0.5f);
    q.zero_grad();
  }

  const float p = attend(q, k, v).weights().to_vector()[paying_key];
  std::printf("probability of the key that pays: 0.2 before, %.2f after\n", p);
  return p > 0.9f ? 0 : 1;
}
