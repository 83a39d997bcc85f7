#include "attention/pairs.h"

#include <algorithm>
#include <cmath>

#include "attention/check.h"
#include "attention/state.h"
#include "fovea/ops.h"
#include "tensor/impl.h"

namespace fovea {
namespace {

struct Room {
  int64_t pairs = kPartPairs, scores = kPartScores;
  bool take(int64_t more_pairs, int64_t more_scores) {
    return (pairs -= more_pairs) >= 0 && (scores -= more_scores) >= 0;
  }
};

Tensor leaf(Tensor t, bool wanted) {
  t = t.detach();
  return wanted ? t.set_requires_grad() : t;
}

Tensor rows_of(const Tensor& t, const std::vector<int64_t>& ids) {
  return index_select(t.detach().reshape({-1, t.size(3)}), 0,
                      Tensor::from_ids(ids, {static_cast<int64_t>(ids.size())}));
}

Tensor dot_of_pairs(const Tensor& q_rows, const Tensor& k_rows, const Tensors&) {
  return sum(q_rows * k_rows, {1});
}

Tensor additive_of_pairs(const Tensor& q_rows, const Tensor& k_rows, const Tensors& p) {
  return sum(tanh(q_rows + k_rows) * p.at("u"), {1});
}

// to[ids[i]] += rows[i], of rows `width` wide.
void add_to_rows(const Tensor& rows, const std::vector<int64_t>& ids, int64_t width,
                 const Tensor& to) {
  const auto n = static_cast<int64_t>(ids.size());
  const Tensor there = Tensor::from_ids(ids, {n}).to(to.device());
  on(to).add_rows({.size = to.numel() / std::max<int64_t>(1, width), .inner = width},
                  raw_ids(there), n, raw(rows.contiguous()), raw(to));
}

// The scores of the pairs, on a tape of their own where a row or a parameter is wanted.
void score_pairs(const AttendedState& s, const PairGradients& wanted, PartScores& out) {
  out.scores = {};
  if (out.places.empty()) return;
  out.q_rows = leaf(rows_of(s.inputs.q, out.q), wanted.q.defined());
  out.k_rows = leaf(rows_of(s.inputs.k, out.k), wanted.k.defined());
  for (const auto& [name, t] : s.pair.parameters) {
    out.parameters[name] = leaf(t, wanted.parameters.contains(name));
  }
  const Recording on;
  out.scores = s.pair.score(out.q_rows, out.k_rows, out.parameters);
}

// Leaves out the pairs that have no gradient and whose scores are not finite, and says whether
// there were any: 0 times what made them so is not 0.
bool forget_nonfinite(const Tensor& d_matrix, PartScores& part) {
  const Tensor scores = part.scores.detach().contiguous().to(Device::cpu);
  const Tensor gradients = d_matrix.detach().to(Device::cpu);
  const float* d = raw(gradients);
  size_t kept = 0;
  for (size_t p = 0; p < part.places.size(); ++p) {
    if (d[part.places[p]] == 0.0f && !std::isfinite(raw(scores)[p])) continue;
    part.q[kept] = part.q[p], part.k[kept] = part.k[p], part.places[kept] = part.places[p];
    ++kept;
  }
  if (kept == part.places.size()) return false;
  for (auto* list : {&part.q, &part.k, &part.places}) list->resize(kept);
  return true;
}

}  // namespace

PairsPart whole(const Sizes& n) { return {.B = n.B, .H = n.H, .Lq = n.Lq}; }

std::vector<PairsPart> parts_of(const LoweredMask& m, const Sizes& n) {
  const int64_t group = n.H / n.Hk;
  const auto in_row = [&](int64_t b, int64_t h, int64_t i) {
    const int64_t at = b * m.stride_b + h * m.stride_h + i;
    return m.begin.empty() ? n.Lk : std::max<int64_t>(0, m.end[at] - m.begin[at]);
  };
  const auto in_heads = [&](int64_t b, int64_t h, int64_t heads) {
    int64_t pairs = 0;
    for (int64_t at = 0; at < heads * n.Lq; ++at) pairs += in_row(b, h + at / n.Lq, at % n.Lq);
    return pairs;
  };
  std::vector<PairsPart> parts;
  const auto add_rows_of = [&](int64_t b, int64_t h) {
    for (int64_t i = 0, rows = 0; i < n.Lq; i += rows) {
      Room room;
      rows = 0;
      while (i + rows < n.Lq && room.take(in_row(b, h, i + rows), n.Lk)) ++rows;
      rows = std::max<int64_t>(rows, 1);
      parts.push_back({b, h, i, 1, 1, rows});
    }
  };
  const auto add_heads_of = [&](int64_t b) {
    for (int64_t h = 0, heads = 0; h < n.H; h += std::max(heads, group)) {
      Room room;
      heads = 0;
      while (h + heads < n.H && room.take(in_heads(b, h + heads, group), group * n.Lq * n.Lk)) {
        heads += group;
      }
      if (heads > 0) {
        parts.push_back({b, h, 0, 1, heads, n.Lq});
      } else {
        for (int64_t g = 0; g < group; ++g) add_rows_of(b, h + g);
      }
    }
  };
  for (int64_t b = 0, entries = 0; b < n.B; b += std::max<int64_t>(entries, 1)) {
    Room room;
    entries = 0;
    while (b + entries < n.B && room.take(in_heads(b + entries, 0, n.H), n.H * n.Lq * n.Lk)) {
      ++entries;
    }
    if (entries > 0) {
      parts.push_back({b, 0, 0, entries, n.H, n.Lq});
    } else {
      add_heads_of(b);
    }
  }
  return parts;
}

PairScore pair_score(const Score& score) {
  const ScoreDef& def = def_of(score);
  switch (def.form) {
    case Form::dot:
      return {dot_of_pairs, {}};
    case Form::additive:
      return {additive_of_pairs, {{"u", def.u(score.parameters)}}};
    case Form::pairs:
      break;
  }
  return {def.pairs, score.parameters};
}

PartScores scores_of(const AttendedState& s, const PairsPart& part, const PairGradients& wanted) {
  const Sizes& n = s.n;
  const int64_t group = n.H / n.Hk;
  const int64_t first = (part.b * n.H + part.h) * n.Lq + part.i;
  PartScores out;
  each_permitted(s.mask_here, n, part, [&](int64_t b, int64_t h, int64_t i, int64_t j) {
    const int64_t row = (b * n.H + h) * n.Lq + i;
    out.q.push_back(row);
    out.k.push_back((b * n.Hk + h / group) * n.Lk + j);
    out.places.push_back((row - first) * n.Lk + j);
  });
  out.matrix = Tensor::zeros({part.B, part.H, part.Lq, n.Lk});
  if (out.places.empty()) return out;
  score_pairs(s, wanted, out);
  add_to_rows(out.scores.detach(), out.places, 1, out.matrix);
  return out;
}

void add_gradients(const AttendedState& s, const Tensor& d_matrix, PartScores& part,
                   PairGradients& sums) {
  if (!part.scores || !part.scores.requires_grad()) return;
  if (forget_nonfinite(d_matrix, part)) score_pairs(s, sums, part);
  if (!part.scores) return;
  const Shape count{static_cast<int64_t>(part.places.size())};
  part.scores.backward(
      index_select(d_matrix.reshape({-1}), 0, Tensor::from_ids(part.places, count)));
  if (sums.q && part.q_rows.grad()) add_to_rows(part.q_rows.grad(), part.q, sums.q.size(3), sums.q);
  if (sums.k && part.k_rows.grad()) add_to_rows(part.k_rows.grad(), part.k, sums.k.size(3), sums.k);
  for (auto& [name, sum] : sums.parameters) {
    const Tensor d = part.parameters.at(name).grad();
    if (d) sum.add_(d);
  }
}

}  // namespace fovea
