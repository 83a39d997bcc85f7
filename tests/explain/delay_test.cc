#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "core/random.h"
#include "fovea/explain.h"
#include "fovea/nn.h"
#include "fovea/ops.h"
#include "fovea/train.h"

// A recurrent network that learned to say what it read some steps ago looks there, though it has no
// attention: its Jacobian says so.
namespace fovea::explain {
namespace {

constexpr int64_t kTokens = 5, kSteps = 16, kDelay = 4, kRows = 48, kWidth = 12;

Tensor random_tokens(uint64_t seed, int64_t rows) {  // [T,R]
  const RandomKey key = random_key(seed, Purpose::data);
  std::vector<int64_t> ids(static_cast<size_t>(kSteps * rows));
  for (size_t i = 0; i < ids.size(); ++i) {
    ids[i] = static_cast<int64_t>(unit_open(bits32(key, i)) * kTokens);
  }
  return Tensor::from_ids(ids, {kSteps, rows});
}

struct Delayed {
  nn::Weights weights{3};
  nn::Embedding embedding = nn::embedding(weights, "tokens", kTokens, kWidth);
  nn::Recurrent net =
      nn::recurrent(weights, "net", {.cell = nn::Cell::gru, .input = kWidth, .hidden = 40});
  nn::Linear output = nn::linear(weights, "output", 40, kTokens);

  // [T,R,E] → the logits of steps from the delay on, [T − delay,R,V].
  Tensor logits(const Tensor& x) const { return output(net(x).sequence.slice(0, kDelay, kSteps)); }
};

Tensor expected(const Tensor& ids) { return ids.slice(0, 0, kSteps - kDelay).contiguous(); }

TEST(Copy, AJacobianPeaksWhereTheCopyWasRead) {
  Delayed m;
  train::Optimizer adam({}, m.weights.learned());
  float loss = 10;
  int64_t step = 0;
  for (; step < 3000 && loss > 0.01f; ++step) {
    const Tensor ids = random_tokens(static_cast<uint64_t>(step), kRows);
    const Tensor l = cross_entropy(m.logits(m.embedding(ids)), expected(ids));
    for (const auto& [name, t] : m.weights.learned()) Tensor(t).zero_grad();
    l.backward();
    train::clip_by_norm(m.weights.learned(), 1.0f);
    adam.step(step < 1500 ? 5e-3f : 2e-3f);
    loss = l.item();
  }
  ASSERT_LT(loss, 0.05f) << step;

  std::vector<int64_t> outputs(kSteps - kDelay);
  std::iota(outputs.begin(), outputs.end(), int64_t{0});
  int right = 0, all = 0;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const Tensor ids = random_tokens(100000 + seed, 1);
    const std::vector<int64_t> said = expected(ids).to_ids();
    const Outputs log_p = [&](const Tensor& rows) {
      const Tensor l = m.logits(rows.transpose(0, 1));  // [T′,R,V]
      const Tensor which =
          Tensor::from_ids(said, {l.size(0), 1, 1}).expand({l.size(0), l.size(1), 1}).contiguous();
      return gather(log_softmax(l), 2, which).squeeze(2).transpose(0, 1);
    };
    const Tensor x = m.embedding(ids).detach().select(1, 0);  // [T,E]
    const std::vector<int64_t> peaks =
        argmax(sequential_jacobian(log_p, x, outputs).norm, 1).to_ids();
    for (size_t t = 0; t < peaks.size(); ++t, ++all) right += peaks[t] == static_cast<int64_t>(t);
  }
  // Of seven seeds: 0.93 to 0.99.
  EXPECT_GE(right, 0.85 * all) << right << " of " << all;
}

}  // namespace
}  // namespace fovea::explain
