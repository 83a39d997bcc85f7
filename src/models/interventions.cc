#include <numeric>
#include <vector>

#include "core/random.h"
#include "fovea/look.h"

namespace fovea::models::interventions {
namespace {

// ids[0 … S) in an order of their own where permitted, elsewhere as they are.
void permute(const uint8_t* permitted, RandomKey key, std::span<int64_t> ids) {
  std::vector<int64_t> among;
  for (size_t j = 0; j < ids.size(); ++j) {
    if (permitted[j] != 0) among.push_back(static_cast<int64_t>(j));
  }
  std::vector<int64_t> order = among;
  for (size_t i = order.size(); i > 1; --i) {
    std::swap(order[i - 1],
              order[static_cast<size_t>(unit_open(bits32(key, i)) * static_cast<double>(i))]);
  }
  std::iota(ids.begin(), ids.end(), int64_t{0});
  for (size_t i = 0; i < among.size(); ++i) ids[static_cast<size_t>(among[i])] = order[i];
}

}  // namespace

Intervention held() {
  return [](const Weighed& w) { return w.weights.detach(); };
}

Intervention uniform() {
  return [](const Weighed& w) {
    const Tensor permitted = w.permitted().to(DType::f32);
    return permitted / maximum(sum(permitted, {-1}, Keep::yes), Tensor::scalar(1.0f));
  };
}

Intervention permuted(uint64_t seed) {
  return [seed](const Weighed& w) {
    const Tensor permitted = w.permitted().to(Device::cpu).contiguous();
    const int64_t B = permitted.size(0), T = permitted.size(1), S = permitted.size(2);
    std::vector<int64_t> ids(static_cast<size_t>(B * T * S));
    for (int64_t row = 0; row < B * T; ++row) {
      const Seed at = Seed(seed).at(row / T).at(w.t + row % T);
      permute(permitted.data<uint8_t>() + row * S, random_key(at.value(), Purpose::shuffle),
              std::span(ids).subspan(static_cast<size_t>(row * S), static_cast<size_t>(S)));
    }
    return gather(w.weights, -1, Tensor::from_ids(ids, w.weights.shape()));
  };
}

Intervention given(const Tensor& weights) {
  if (!weights || weights.rank() != 3) {
    throw Error("given", "weights are " +
                             (weights ? to_string(weights.shape()) : std::string("undefined")) +
                             ", expected [B, T, S]");
  }
  return [weights](const Weighed& w) {
    const int64_t rows = w.weights.size(0), T = w.weights.size(1), B = weights.size(0);
    if (B == 0 || rows % B != 0 || w.weights.size(2) != weights.size(2) ||
        w.t + T > weights.size(1)) {
      throw Error("given", "weights are " + to_string(weights.shape()) + ", expected " +
                               to_string(w.weights.shape()) + " from step " + std::to_string(w.t) +
                               " on");
    }
    const Tensor own = weights.slice(1, w.t, w.t + T);
    if (rows == B) return own;
    std::vector<int64_t> sequence(static_cast<size_t>(rows));
    for (int64_t row = 0; row < rows; ++row) sequence[static_cast<size_t>(row)] = row * B / rows;
    return index_select(own, 0, Tensor::from_ids(sequence, {rows}));
  };
}

}  // namespace fovea::models::interventions
