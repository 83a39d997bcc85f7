#include "attention/lower.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "attention/check.h"
#include "attention/pairs.h"
#include "fovea/ops.h"
#include "tensor/impl.h"

namespace fovea {
namespace {

// ---- ranges ------------------------------------------------------------------------------------

// Some queries of a call.
struct QueryRange {
  int64_t first, count;
};

void intersect_ranges(const std::vector<const MaskTerm*>& terms, const MaskContext& c,
                      const QueryRange& rows, LoweredMask& out) {
  const Sizes& n = c.n;
  if (terms.empty() && !out.center) return;
  bool by_batch = out.center.defined();
  for (const MaskTerm* term : terms) by_batch |= term->def->range_by_batch;
  const int64_t batches = by_batch ? n.B : 1, heads = out.center ? n.H : 1;
  out.stride_h = heads > 1 ? rows.count : 0;
  out.stride_b = batches > 1 ? heads * rows.count : 0;
  out.begin.assign(batches * heads * rows.count, 0);
  out.end.assign(batches * heads * rows.count, static_cast<int32_t>(n.Lk));
  for (const MaskTerm* term : terms) {
    for (int64_t b = 0; b < batches; ++b) {
      for (int64_t i = 0; i < rows.count; ++i) {
        const KeyRange r = term->def->range(*term, c, b, rows.first + i);
        for (int64_t h = 0; h < heads; ++h) {
          const int64_t at = (b * heads + h) * rows.count + i;
          out.begin[at] =
              std::max(out.begin[at], static_cast<int32_t>(std::max<int64_t>(r.begin, 0)));
          out.end[at] = std::min(out.end[at], static_cast<int32_t>(std::min(r.end, n.Lk)));
        }
      }
    }
  }
}

// |j − p| ≤ W; a centre that is NaN hides nothing, so that it shows.
void intersect_windows(double width, const Sizes& n, LoweredMask& out) {
  const std::vector<float> centers = out.center.detach().contiguous().to_vector();
  for (size_t at = 0; at < centers.size(); ++at) {
    const double p = centers[at];
    if (std::isnan(p)) continue;
    const double low = std::ceil(p - width);
    const double high = std::floor(p + width) + 1;
    if (!(low < high)) {
      out.begin[at] = out.end[at] = 0;
      continue;
    }
    const double Lk = static_cast<double>(n.Lk);
    out.begin[at] = std::max(out.begin[at], static_cast<int32_t>(std::clamp(low, 0.0, Lk)));
    out.end[at] = std::min(out.end[at], static_cast<int32_t>(std::clamp(high, 0.0, Lk)));
  }
}

// Ranges that hide nothing would only cost time.
void forget_full_ranges(int64_t Lk, LoweredMask& out) {
  for (size_t at = 0; at < out.begin.size(); ++at) {
    if (out.begin[at] > 0 || out.end[at] < Lk) return;
  }
  out.begin.clear();
  out.end.clear();
}

// ---- conditions --------------------------------------------------------------------------------

void ask_each(const void* self, const kernels::RowKeys& x, float* s) {
  const auto& [term, context] = *static_cast<const Conditions::Term*>(self);
  for (int64_t j = x.from; j < x.to; ++j) {
    if (!term.def->allows(term, context, x.b, x.h, x.i, j))
      s[j - x.from] = -std::numeric_limits<float>::infinity();
  }
}

Tensor matrix_of(const MaskTerm& term) {
  return term.def->allowed ? term.def->allowed(term) : Tensor();
}

// One matrix is read where it lies; whatever else there is, row by row.
void take_conditions(const std::vector<const MaskTerm*>& terms, const MaskContext& c,
                     LoweredMask& out) {
  if (terms.empty()) return;
  auto others = std::make_shared<Conditions>();
  for (const MaskTerm* term : terms) {
    if (term->def->bias && term->def->bias(*term)) continue;
    const Tensor matrix = matrix_of(*term);
    if (matrix && !out.allowed) {
      out.allowed = matrix;
    } else {
      others->terms.push_back({*term, c});
    }
  }
  if (others->terms.empty()) return;
  for (const Conditions::Term& asked : others->terms) {
    others->list.push_back(condition_on(Device::cpu, asked, others->read));
  }
  out.conditions = std::move(others);
}

// ---- biases ------------------------------------------------------------------------------------

// Of a tensor that broadcasts along a dimension, or has it, `count` from `first` on.
Tensor sliced(const Tensor& t, int from_end, int64_t first, int64_t count) {
  const int d = t.rank() - from_end;
  return d < 0 || t.size(d) == 1 ? t : t.slice(d, first, first + count);
}

// A bias by distance as the [..,Lq,Lk] matrix it stands for; a view.
Tensor spread_distances(const Tensor& t, const Sizes& n) {
  Shape shape(t.shape().begin(), t.shape().end() - 1),
      strides(t.strides().begin(), t.strides().end() - 1);
  const int64_t step = t.strides().back();
  shape.insert(shape.end(), {n.Lq, n.Lk});
  strides.insert(strides.end(), {-step, step});
  return t.as_strided(shape, strides, (n.Lq - 1) * step);
}

// Distances are read at j − i + Lq − 1: those of later queries begin earlier.
Bias of_queries(const Bias& all, const Sizes& n, const QueryRange& rows) {
  if (rows.count == n.Lq) return all;
  if (!all.relative) return {sliced(all.table, 2, rows.first, rows.count), false};
  return {sliced(all.table, 1, n.Lq - rows.count - rows.first, rows.count + n.Lk - 1), true};
}

void add_biases(const Attention& a, const Sizes& whole, const QueryRange& rows, LoweredMask& out) {
  Sizes n = whole;
  n.Lq = rows.count;
  std::vector<Bias> all;
  if (a.score.bias) all.push_back(of_queries(*a.score.bias, whole, rows));
  for (const MaskTerm& term : a.mask.terms) {
    if (!term.def->bias) continue;
    if (Tensor t = term.def->bias(term)) all.push_back(of_queries({t, false}, whole, rows));
  }
  if (all.empty() || n.Lq == 0 || n.Lk == 0) return;
  if (all.size() == 1) {
    out.bias = all[0].table;
    out.relative = all[0].relative;
    return;
  }
  for (const Bias& bias : all) {
    const Tensor matrix = bias.relative ? spread_distances(bias.table, n) : bias.table;
    out.bias = out.bias ? out.bias + matrix : matrix;
  }
}

LoweredMask lowered(const Attention& a, const Sizes& n, const Tensor& q, const QueryRange& rows) {
  const MaskContext c = mask_context(a.mask, n);
  LoweredMask out;
  double width = 0;
  for (const MaskTerm& term : a.mask.terms) {
    if (!term.def->center) continue;
    out.center = term.def->center(q, term, c).contiguous();
    width = term.numbers[0];
    out.sigma = static_cast<float>(width) / 2.0f;
    out.renormalise = term.renormalise;
  }
  std::vector<const MaskTerm*> ranges, conditions;
  for (const MaskTerm& term : a.mask.terms) {
    if (is_range(term, c)) {
      ranges.push_back(&term);
    } else if (term.def->allows) {
      conditions.push_back(&term);
    }
  }
  intersect_ranges(ranges, c, rows, out);
  if (out.center) intersect_windows(width, n, out);
  forget_full_ranges(n.Lk, out);
  take_conditions(conditions, c, out);
  add_biases(a, n, rows, out);
  return out;
}

}  // namespace

bool asked_by_memory(const MaskTerm& term) { return term.def->equal || matrix_of(term); }

kernels::Condition condition_on(Device device, const Conditions::Term& asked,
                                std::vector<Tensor>& read) {
  const auto there = [&](const Tensor& t) {
    read.push_back(t.to(device));
    return read.back();
  };
  if (const Tensor matrix = matrix_of(asked.term)) {
    const Tensor m = there(matrix);
    return {.allowed = broadcast_view<const uint8_t>(m, raw_bools(m))};
  }
  if (!asked.term.def->equal) return {.forbid = ask_each, .self = &asked};
  const EqualIds ids = asked.term.def->equal(asked.term);
  const auto by_row = [&](const Tensor& t) -> kernels::View<const int64_t> {
    const Tensor x = there(t);
    return {raw_ids(x), x.strides()[0], 0, x.strides()[1], 0};
  };
  return {.of_query = by_row(ids.of_query), .of_key = by_row(ids.of_key)};
}

LoweredMask lower_mask(const Attention& a, const Sizes& n, const Tensor& q) {
  return lowered(a, n, q, {0, n.Lq});
}

LoweredMask lower_mask_of_queries(const Attention& a, const Sizes& n, const Tensor& q,
                                  int64_t first) {
  const int64_t count = q.size(2);
  LoweredMask m = lowered(a, n, q, {first, count});
  m.first_query = first;
  if (m.allowed) m.allowed = sliced(m.allowed, 2, first, count);
  return m;
}

Tensor bias_of_keys(const LoweredMask& m, const Tensor& bias, int64_t queries,
                    const KeyRange& keys) {
  const int64_t count = keys.end - keys.begin;
  return sliced(bias, 1, keys.begin, m.relative ? queries + count - 1 : count);
}

LoweredMask of_keys(const LoweredMask& all, int64_t queries, const KeyRange& keys) {
  const int64_t first = keys.begin, count = keys.end - keys.begin;
  LoweredMask m = all;
  m.first_key += first;
  for (size_t at = 0; at < m.begin.size(); ++at) {
    m.begin[at] = static_cast<int32_t>(std::clamp<int64_t>(m.begin[at] - first, 0, count));
    m.end[at] = static_cast<int32_t>(std::clamp<int64_t>(m.end[at] - first, 0, count));
  }
  forget_full_ranges(count, m);
  if (m.allowed) m.allowed = sliced(m.allowed, 1, first, count);
  if (m.bias) m.bias = bias_of_keys(all, m.bias, queries, keys);
  if (m.center) m.center = m.center - static_cast<float>(first);
  return m;
}

Visible visible(const LoweredMask& m, const Sizes& n) {
  Visible out{Tensor::zeros({n.B, n.Hk, n.Lk, 1}, DType::boolean),
              Tensor::zeros({n.B, n.H, n.Lq, 1}, DType::boolean)};
  uint8_t* keys = out.keys.mutable_data<uint8_t>();
  uint8_t* queries = out.queries.mutable_data<uint8_t>();
  each_permitted(m, n, whole(n), [&](int64_t b, int64_t h, int64_t i, int64_t j) {
    keys[(b * n.Hk + h / (n.H / n.Hk)) * n.Lk + j] = 1;
    queries[(b * n.H + h) * n.Lq + i] = 1;
  });
  return out;
}

// Lowered queries are as wide as the keys, lowered keys as the queries: a projection, and products
// of all pairs.
Sides lowered_sides(const ScoreDef& def, const Sizes& n) {
  if (!def.either) return {def.queries != nullptr, def.keys != nullptr};
  const double Dq = n.Dq, Dk = n.Dk, pairs = static_cast<double>(n.H) * n.Lq * n.Lk;
  const double by_queries = static_cast<double>(n.H) * n.Lq * Dq * Dk + pairs * Dk;
  const double by_keys = static_cast<double>(n.Hk) * n.Lk * Dq * Dk + pairs * Dq;
  return {by_queries <= by_keys, by_queries > by_keys};
}

}  // namespace fovea
