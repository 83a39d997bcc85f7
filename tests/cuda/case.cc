#include "case.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "core/random.h"

namespace fovea::test {

using kernels::View;

View<float> view_of(float* data, const Shape& s, const Case& c) {
  if (c.heads_inside) return {data, s.R * s.H * s.C, s.C, s.H * s.C, 1};
  if (c.columns) return {data, s.H * s.R * s.C, s.R * s.C, 1, s.R};
  return {data, s.H * s.R * s.C, s.R * s.C, s.C, 1};
}

namespace {

View<const float> read_only(const View<float>& v) { return {v.data, v.b, v.h, v.r, v.c}; }

void make_ranges(const Case& c, std::mt19937_64& random, Numbers& n) {
  if (c.ranges == Ranges::none) return;
  for (int64_t b = 0; b < c.B; ++b) {
    const auto length = static_cast<int32_t>(1 + random() % c.Lk);
    for (int64_t h = 0; h < c.H; ++h) {
      for (int64_t i = 0; i < c.Lq; ++i) {
        const auto at = static_cast<int32_t>(i * c.Lk / c.Lq), Lk = static_cast<int32_t>(c.Lk);
        int32_t from = 0, to = Lk;
        if (c.ranges == Ranges::causal) to = at + 1;
        if (c.ranges == Ranges::window) from = at - 9, to = at + 23;  // past both ends, too
        if (c.ranges == Ranges::lengths) to = length;
        if (c.ranges == Ranges::segments) from = at / 50 * 50, to = from + 50;
        if (c.ranges == Ranges::some_empty) to = i % 3 == 1 ? 0 : at + 1;
        n.begin.push_back(from);
        n.end.push_back(to);
      }
    }
  }
  n.problem.begin = {n.begin.data(), c.H * c.Lq, c.Lq, 1, 0};
  n.problem.end = {n.end.data(), c.H * c.Lq, c.Lq, 1, 0};
}

void make_bias(const Case& c, std::mt19937_64& random, Numbers& n) {
  if (c.bias == Bias::none) return;
  std::normal_distribution<float> normal;
  const Shape full{c.B, c.H, c.Lq, c.Lk};
  View<const float>& view = n.problem.bias;
  const bool shared = c.bias == Bias::shared_by_heads, distance = c.bias == Bias::by_distance;
  n.bias.resize(distance ? c.Lq + c.Lk : shared ? c.Lq * c.Lk : full.size());
  for (float& x : n.bias) x = normal(random);
  view = {n.bias.data(), c.H * c.Lq * c.Lk, c.Lq * c.Lk, c.Lk, 1};
  if (shared) view.b = view.h = 0;
  if (distance) view = {n.bias.data() + c.Lq - 1, 0, 0, -1, 1};
  if (c.bias == Bias::forbidding) {
    for (float& x : n.bias) {
      if (random() % 3 == 0) x = -std::numeric_limits<float>::infinity();
    }
  }
}

// Opposites, which only q + k brings together again.
void move_apart(const Case& c, std::mt19937_64& random, Numbers& n) {
  if (c.far == 0.0f) return;
  std::normal_distribution<float> normal;
  std::vector<float> shift(c.A);
  for (float& x : shift) x = c.far * normal(random);
  const auto move = [&](std::vector<float>& rows, const Shape& s, float sign) {
    const View<float> v = view_of(rows.data(), s, c);
    const int64_t tile = s.R > 128 ? 128 : 16;
    for (int64_t row = 0; row < s.B * s.H * s.R; ++row) {
      const int64_t r = row % s.R;
      if (c.some_far && r / tile % 2 == 0) continue;
      float* const at = v.row(row / s.R / s.H, row / s.R % s.H, r);
      for (int64_t a = 0; a < c.A; ++a) at[a * v.c] += sign * shift[a];
    }
  };
  move(n.q, {c.B, c.H, c.Lq, c.A}, 1.0f);
  move(n.k, {c.B, c.Hk, c.Lk, c.A}, -1.0f);
}

}  // namespace

Numbers::Numbers(const Case& c, uint64_t seed) : what(c) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal;
  const auto fill = [&](std::vector<float>& x, int64_t n, float deviation) {
    x.resize(n);
    for (float& e : x) e = deviation * normal(random);
  };
  const Shape of_q{c.B, c.H, c.Lq, c.A}, of_k{c.B, c.Hk, c.Lk, c.A}, of_v{c.B, c.Hk, c.Lk, c.Dv};
  const Shape of_context{c.B, c.H, c.Lq, c.Dv};
  fill(q, of_q.size(), c.deviation);
  fill(k, of_k.size(), c.deviation);
  fill(v, of_v.size(), 1.0f);
  fill(u, c.family == Family::additive ? c.A : 0, 1.0f);
  fill(d_context, of_context.size(), 1.0f);
  for (size_t a = 0; a < u.size() && c.zero_weights; ++a) {
    if (a % 5 < 4) u[a] = 0.0f;
  }
  problem = {.B = c.B, .H = c.H, .Hk = c.Hk, .Lq = c.Lq, .Lk = c.Lk, .D = c.A, .Dv = c.Dv};
  problem.family = c.family;
  problem.q = read_only(view_of(q.data(), of_q, c));
  problem.k = read_only(view_of(k.data(), of_k, c));
  problem.v = read_only(view_of(v.data(), of_v, c));
  d_context_view = read_only(view_of(d_context.data(), of_context, c));
  problem.u = u.empty() ? nullptr : u.data();
  problem.scale = c.scale;
  problem.temperature = c.temperature;
  problem.softcap = c.softcap;
  problem.dropout = c.dropout;
  problem.seed = 12345;
  problem.first = {3, 1, 17};
  move_apart(c, random, *this);
  make_ranges(c, random, *this);
  make_bias(c, random, *this);
  if (c.allowed) {
    allowed.resize(c.B * c.Lq * c.Lk);
    for (uint8_t& x : allowed) x = random() % 4 != 0;
    problem.allowed = {allowed.data(), c.Lq * c.Lk, 0, c.Lk, 1};
  }
  if (c.sink) {
    fill(sink, c.H, 1.0f);
    problem.sink = sink.data();
  }
  if (c.d_stat) fill(d_stat, c.B * c.H * c.Lq, 1.0f);
}

double distance(const std::vector<double>& x, const std::vector<double>& y) {
  constexpr double kFar = std::numeric_limits<double>::infinity();
  if (x.size() != y.size()) return kFar;
  double error = 0.0, norm = 0.0;
  for (size_t i = 0; i < x.size(); ++i) {
    if (std::isnan(x[i]) != std::isnan(y[i])) return kFar;
    if (std::isnan(x[i]) || x[i] == y[i]) {
      norm += std::isfinite(y[i]) ? y[i] * y[i] : 0.0;
      continue;
    }
    if (!std::isfinite(x[i]) || !std::isfinite(y[i])) return kFar;
    error += (x[i] - y[i]) * (x[i] - y[i]);
    norm += y[i] * y[i];
  }
  return std::sqrt(error / std::max(norm, 1.0));
}

}  // namespace fovea::test
