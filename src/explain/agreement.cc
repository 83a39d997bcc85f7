#include <algorithm>
#include <cmath>
#include <limits>

#include "explain/rows.h"

namespace fovea::explain {
namespace {

void expect_alike(const char* call, size_t a, size_t b) {
  if (a != b) {
    throw Error(call, "two lists of one length were expected, found " + std::to_string(a) +
                          " and " + std::to_string(b));
  }
}

int order_of(float x, float y) { return x < y ? -1 : x > y ? 1 : 0; }

}  // namespace

// τ_b = (concordant − discordant) / √((n₀ − tied in a)(n₀ − tied in b))
double kendall_tau(std::span<const float> a, std::span<const float> b) {
  expect_alike("kendall_tau", a.size(), b.size());
  int64_t agree = 0, in_a = 0, in_b = 0;  // pairs that have an order
  for (size_t i = 0; i < a.size(); ++i) {
    for (size_t j = i + 1; j < a.size(); ++j) {
      const int of_a = order_of(a[i], a[j]), of_b = order_of(b[i], b[j]);
      agree += of_a * of_b;
      in_a += of_a != 0;
      in_b += of_b != 0;
    }
  }
  if (in_a == 0 || in_b == 0) return std::numeric_limits<double>::quiet_NaN();
  return static_cast<double>(agree) /
         std::sqrt(static_cast<double>(in_a) * static_cast<double>(in_b));
}

// ½ KL(p ‖ m) + ½ KL(q ‖ m), m = (p + q)/2
double jensen_shannon(std::span<const float> p, std::span<const float> q) {
  expect_alike("jensen_shannon", p.size(), q.size());
  double total = 0;
  for (size_t i = 0; i < p.size(); ++i) {
    const auto a = static_cast<double>(p[i]), b = static_cast<double>(q[i]), m = (a + b) / 2;
    if (a > 0) total += a * std::log(a / m) / 2;
    if (b > 0) total += b * std::log(b / m) / 2;
  }
  return std::max(total, 0.0);
}

double total_variation(std::span<const float> p, std::span<const float> q) {
  expect_alike("total_variation", p.size(), q.size());
  double total = 0;
  for (size_t i = 0; i < p.size(); ++i) {
    total += std::abs(static_cast<double>(p[i]) - static_cast<double>(q[i])) / 2;
  }
  return total;
}

Tensor half_kept(const Tensor& weights) {
  const int rank = weights ? weights.rank() : 0;
  if (rank < 2 || rank > 3 || weights.size(-1) != weights.size(-2)) {
    throw Error("rollout", "a layer's weights must be [H,L,L] or [L,L], found " +
                               (weights ? to_string(weights.shape()) : "nothing"));
  }
  Tensor half = (rank == 3 ? mean(weights.detach(), {0}) : weights.detach().clone()) * 0.5f;
  for (int64_t i = 0; i < half.size(0); ++i) {
    Tensor cell = half.select(0, i).select(0, i);
    cell.fill_(cell.item() + 0.5f);
  }
  return half;
}

Tensor rollout(std::span<const Tensor> layers) {
  Tensor all;
  const NoGrad off;
  for (const Tensor& layer : layers) all = all ? matmul(half_kept(layer), all) : half_kept(layer);
  return all;
}

}  // namespace fovea::explain
