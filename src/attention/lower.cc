#include "attention/lower.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "attention/check.h"
#include "fovea/ops.h"

namespace fovea {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

bool is_true(const kernels::View<const uint8_t>& v, int64_t b, int64_t h, int64_t i, int64_t j) {
  return v.row(b, h, i)[j * v.c] != 0;
}

// ---- ranges ------------------------------------------------------------------------------------

void intersect_ranges(const Mask& mask, const MaskContext& c, LoweredMask& out) {
  const Sizes& n = c.n;
  bool any = false, by_batch = out.center.defined();
  for (const MaskTerm& term : mask.terms) {
    any |= term.def->range != nullptr;
    by_batch |= term.def->range != nullptr && term.def->range_by_batch;
  }
  if (!any && !out.center) return;
  const int64_t batches = by_batch ? n.B : 1, heads = out.center ? n.H : 1;
  out.stride_h = heads > 1 ? n.Lq : 0;
  out.stride_b = batches > 1 ? heads * n.Lq : 0;
  out.begin.assign(batches * heads * n.Lq, 0);
  out.end.assign(batches * heads * n.Lq, static_cast<int32_t>(n.Lk));
  for (const MaskTerm& term : mask.terms) {
    if (!term.def->range) continue;
    for (int64_t b = 0; b < batches; ++b) {
      for (int64_t i = 0; i < n.Lq; ++i) {
        const KeyRange r = term.def->range(term, c, b, i);
        for (int64_t h = 0; h < heads; ++h) {
          const int64_t at = (b * heads + h) * n.Lq + i;
          out.begin[at] =
              std::max(out.begin[at], static_cast<int32_t>(std::max<int64_t>(r.begin, 0)));
          out.end[at] = std::min(out.end[at], static_cast<int32_t>(std::min(r.end, n.Lk)));
        }
      }
    }
  }
}

// |j − p| ≤ W; a centre that is no number sees nothing.
void intersect_windows(int64_t width, const Sizes& n, LoweredMask& out) {
  const std::vector<float> centers = out.center.detach().contiguous().to_vector();
  for (int64_t at = 0; at < n.B * n.H * n.Lq; ++at) {
    const double p = centers[at];
    const double low = std::ceil(p - static_cast<double>(width));
    const double high = std::floor(p + static_cast<double>(width)) + 1;
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
void forget_full_ranges(const Sizes& n, LoweredMask& out) {
  for (size_t at = 0; at < out.begin.size(); ++at) {
    if (out.begin[at] > 0 || out.end[at] < n.Lk) return;
  }
  out.begin.clear();
  out.end.clear();
}

// ---- matrices ----------------------------------------------------------------------------------

Tensor every_pair(const MaskTerm& term, const MaskContext& c) {
  if (term.def->allowed) {
    if (Tensor t = term.def->allowed(term, c)) return t;
  }
  if (term.def->bias && term.def->bias(term)) return {};
  const Sizes& n = c.n;
  Tensor out = Tensor::empty({n.B, n.H, n.Lq, n.Lk}, DType::boolean);
  uint8_t* to = out.mutable_data<uint8_t>();
  for (int64_t b = 0; b < n.B; ++b) {
    for (int64_t h = 0; h < n.H; ++h) {
      for (int64_t i = 0; i < n.Lq; ++i) {
        for (int64_t j = 0; j < n.Lk; ++j) *to++ = term.def->allows(term, c, b, h, i, j);
      }
    }
  }
  return out;
}

Tensor both(const Tensor& a, const Tensor& b, const Sizes& n) {
  if (!a) return b;
  if (!b) return a;
  const auto x = broadcast_view(a, a.data<uint8_t>()), y = broadcast_view(b, b.data<uint8_t>());
  Tensor out = Tensor::empty({n.B, n.H, n.Lq, n.Lk}, DType::boolean);
  uint8_t* to = out.mutable_data<uint8_t>();
  for (int64_t bi = 0; bi < n.B; ++bi) {
    for (int64_t h = 0; h < n.H; ++h) {
      for (int64_t i = 0; i < n.Lq; ++i) {
        for (int64_t j = 0; j < n.Lk; ++j)
          *to++ = is_true(x, bi, h, i, j) && is_true(y, bi, h, i, j);
      }
    }
  }
  return out;
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

void add_biases(const Attention& a, const Sizes& n, LoweredMask& out) {
  std::vector<Bias> all;
  if (a.score.bias) all.push_back(*a.score.bias);
  for (const MaskTerm& term : a.mask.terms) {
    if (!term.def->bias) continue;
    if (Tensor t = term.def->bias(term)) all.push_back({t, false});
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

// ---- pairs -------------------------------------------------------------------------------------

// Calls f(b, h, i, j) for every pair that the lowered mask permits.
template <class Function>
void each_permitted(const LoweredMask& m, const Sizes& n, const Function& f) {
  kernels::View<const uint8_t> allowed;
  kernels::View<const float> bias;
  if (m.allowed) allowed = broadcast_view(m.allowed, m.allowed.data<uint8_t>());
  if (m.bias) bias = bias_view(m, m.bias, m.bias.data<float>(), n);
  for (int64_t b = 0; b < n.B; ++b) {
    for (int64_t h = 0; h < n.H; ++h) {
      for (int64_t i = 0; i < n.Lq; ++i) {
        const int64_t at = b * m.stride_b + h * m.stride_h + i;
        const int64_t begin = m.begin.empty() ? 0 : m.begin[at];
        const int64_t end = m.end.empty() ? n.Lk : m.end[at];
        for (int64_t j = begin; j < end; ++j) {
          if (allowed && !is_true(allowed, b, h, i, j)) continue;
          if (bias && bias.row(b, h, i)[j * bias.c] == -kInf) continue;
          f(b, h, i, j);
        }
      }
    }
  }
}

Tensor pair_scores(const Lowered& lowered, const Tensor& q, const Tensor& k, const Tensor& q_ids,
                   const Tensor& k_ids) {
  const auto rows = [](const Tensor& t, const Tensor& ids) {
    return index_select(t.reshape({-1, t.size(3)}), 0, ids);  // [P,width]
  };
  if (const auto* dot = std::get_if<DotForm>(&lowered)) {
    return sum(rows(dot->q, q_ids) * rows(dot->k, k_ids), {1}) * dot->scale;
  }
  if (const auto* additive = std::get_if<AdditiveForm>(&lowered)) {
    return sum(tanh(rows(additive->a, q_ids) + rows(additive->kappa, k_ids)) * additive->u, {1});
  }
  return std::get<PairsForm>(lowered).score(rows(q, q_ids), rows(k, k_ids));
}

}  // namespace

LoweredMask lower_mask(const Attention& a, const Sizes& n, const Tensor& q) {
  const MaskContext c = mask_context(a.mask, n);
  LoweredMask out;
  int64_t width = 0;
  for (const MaskTerm& term : a.mask.terms) {
    if (!term.def->center) continue;
    out.center = term.def->center(q, term, c).contiguous();
    out.sigma = static_cast<float>(term.width) / 2.0f;
    out.renormalise = term.renormalise;
    width = term.width;
  }
  intersect_ranges(a.mask, c, out);
  if (out.center) intersect_windows(width, n, out);
  forget_full_ranges(n, out);
  for (const MaskTerm& term : a.mask.terms) {
    if (term.def->allows) out.allowed = both(out.allowed, every_pair(term, c), n);
  }
  add_biases(a, n, out);
  return out;
}

Visible visible(const LoweredMask& m, const Sizes& n) {
  Visible out{Tensor::zeros({n.B, n.Hk, n.Lk, 1}, DType::boolean),
              Tensor::zeros({n.B, n.H, n.Lq, 1}, DType::boolean)};
  uint8_t* keys = out.keys.mutable_data<uint8_t>();
  uint8_t* queries = out.queries.mutable_data<uint8_t>();
  each_permitted(m, n, [&](int64_t b, int64_t h, int64_t i, int64_t j) {
    keys[(b * n.Hk + h / (n.H / n.Hk)) * n.Lk + j] = 1;
    queries[(b * n.H + h) * n.Lq + i] = 1;
  });
  return out;
}

Tensor composed_scores(const Lowered& lowered, const LoweredMask& m, const Sizes& n,
                       const Tensor& q, const Tensor& k) {
  std::vector<int64_t> q_ids, k_ids, places;
  each_permitted(m, n, [&](int64_t b, int64_t h, int64_t i, int64_t j) {
    const int64_t row = (b * n.H + h) * n.Lq + i;
    q_ids.push_back(row);
    k_ids.push_back((b * n.Hk + h / (n.H / n.Hk)) * n.Lk + j);
    places.push_back(row * n.Lk + j);
  });
  const Shape count{static_cast<int64_t>(places.size())};
  const Tensor zeros = Tensor::zeros({n.B * n.H * n.Lq * n.Lk});
  if (places.empty()) return zeros.reshape({n.B, n.H, n.Lq, n.Lk});
  const Tensor scores =
      pair_scores(lowered, q, k, Tensor::from_ids(q_ids, count), Tensor::from_ids(k_ids, count));
  return scatter_add(zeros, 0, Tensor::from_ids(places, count), scores)
      .reshape({n.B, n.H, n.Lq, n.Lk});
}

}  // namespace fovea
