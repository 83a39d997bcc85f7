#include "kernels/continuations.h"

#include <algorithm>

#include "core/threads.h"

namespace fovea::kernels {
namespace {

bool better(const Continuation& a, const Continuation& b) {
  if (a.score != b.score) return a.score > b.score;
  if (a.beam != b.beam) return a.beam < b.beam;
  if (a.logit != b.logit) return a.logit > b.logit;  // log p may round what differs to the same
  return a.token < b.token;
}

std::vector<Continuation> best_of(const Beams& x, int64_t b, std::span<const int64_t> never,
                                  size_t count) {
  std::vector<Continuation> best;
  for (int64_t k = 0; k < x.K; ++k) {
    const int64_t row = b * x.K + k;
    if (x.scores[row] == kImpossible) continue;
    for (int64_t v = 0; v < x.V; ++v) {
      const int64_t at = row * x.V + v;
      const Continuation c{x.scores[row] + static_cast<double>(x.log_p[at]), k, v, x.logits[at]};
      if (best.size() == count && !better(c, best.back())) continue;
      if (std::find(never.begin(), never.end(), v) != never.end()) continue;
      best.insert(std::upper_bound(best.begin(), best.end(), c, better), c);
      if (best.size() > count) best.pop_back();
    }
  }
  return best;
}

}  // namespace

std::vector<std::vector<Continuation>> best_continuations(const Beams& x,
                                                          std::span<const int64_t> never,
                                                          size_t count) {
  std::vector<std::vector<Continuation>> all(static_cast<size_t>(x.B));
  parallel_for(x.B, x.K * x.V, [&](int64_t b) {
    if (x.done[b] == 0) all[static_cast<size_t>(b)] = best_of(x, b, never, count);
  });
  return all;
}

}  // namespace fovea::kernels
