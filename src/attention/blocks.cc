#include "attention/blocks.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "attention/check.h"
#include "attention/plan.h"
#include "fovea/ops.h"
#include "tensor/impl.h"

namespace fovea {
namespace {

constexpr float kEndless = std::numeric_limits<float>::infinity();
constexpr float kUndefined = std::numeric_limits<float>::quiet_NaN();

bool merges(WeightingKind kind) {
  return kind != WeightingKind::sparsemax && kind != WeightingKind::entmax15 &&
         kind != WeightingKind::formula;
}

bool has_log_sum_exp(WeightingKind kind) {
  return kind == WeightingKind::softmax || kind == WeightingKind::sample ||
         kind == WeightingKind::gumbel;
}

bool is_all_finite(const Tensor& t) {
  return on(t).all_finite(broadcast_view<const float>(t, raw(t)), t.size(0), t.size(1), t.size(2),
                          t.size(3));
}

// Parameters with a place for each key, or query, are those of the keys, or queries, at hand.
Tensors at_places(const Score& score, const std::vector<std::string>& letters, int64_t first,
                  int64_t count) {
  Tensors all = score.parameters;
  for (const ParameterDef& def : def_of(score).parameters) {
    const auto found = all.find(bare_name(def));
    for (size_t d = 0; found != all.end() && d < def.shape.size(); ++d) {
      if (std::ranges::find(letters, def.shape[d]) == letters.end()) continue;
      found->second = found->second.slice(static_cast<int>(d), first, first + count);
    }
  }
  return all;
}

Sizes sizes_of_block(const Sizes& whole, int64_t queries, int64_t keys) {
  Sizes n = whole;
  n.Lq = queries;
  n.Lk = keys;
  return n;
}

// Keys [B,Hk,count,1] that some query sees. A predicted window is taken for open.
Tensor seen_keys(const Attention& a, const Sizes& n, const KeyRange& keys) {
  constexpr int64_t kRows = 1024;
  Attention open = a;
  std::erase_if(open.mask.terms, [](const MaskTerm& t) { return t.def->center != nullptr; });
  Tensor seen = Tensor::zeros({n.B, n.Hk, keys.end - keys.begin, 1}, DType::boolean);
  uint8_t* to = seen.mutable_data<uint8_t>();
  for (int64_t i = 0; i < n.Lq; i += kRows) {
    const int64_t rows = std::min(kRows, n.Lq - i);
    const LoweredMask all = lower_mask_of_queries(open, n, Tensor::zeros({n.B, n.H, rows, 0}), i);
    const Visible part =
        visible(of_keys(all, rows, keys), sizes_of_block(n, rows, keys.end - keys.begin));
    const uint8_t* from = part.keys.data<uint8_t>();
    for (int64_t at = 0; at < seen.numel(); ++at) to[at] |= from[at];
  }
  return seen;
}

// Softmax of the scores that gumbel chooses by.
Attention softened(Attention a) {
  a.weighting.def = nullptr;
  return a;
}

using BlockState = std::unique_ptr<AttendedState>;

BlockState block_of(const Attention& a, const Sizes& whole, const QueryRows& q, const KeyRows& k) {
  BlockState s = std::make_unique<AttendedState>();
  s->n = sizes_of_block(whole, q.count(), k.k.size(2));
  s->attention = a;
  s->plan = choose_plan(request_for(a, s->n), Plan::automatic);
  s->mask = of_keys(q.mask, q.count(), k.range());
  const auto wanted_as = [](Tensor& part, const Tensor& all) {
    if (all && all.requires_grad()) part = part.detach().set_requires_grad();
  };
  wanted_as(s->mask.bias, q.mask.bias);
  wanted_as(s->mask.center, q.mask.center);
  take_inputs(*s, {q.q, k.k}, k.v);
  s->problem.sink = nullptr;  // it is no block's: Merged begins with it
  s->inputs.sink = {};
  if (q.u) s->problem.u = raw(s->inputs.u = q.u);
  s->problem.first.i = q.first;
  s->problem.first.j = k.first;
  s->problem.whole_rows = false;
  return s;
}

// Where the keys chosen lie in a block; `elsewhere` where that is in another.
std::vector<int32_t> chosen_in(const KeyRows& k, const std::vector<int64_t>& chosen,
                               int32_t elsewhere) {
  std::vector<int32_t> here;
  for (const int64_t j : chosen) {
    const bool inside = j >= k.range().begin && j < k.range().end;
    here.push_back(inside ? static_cast<int32_t>(j - k.first) : j < 0 ? -1 : elsewhere);
  }
  return here;
}

}  // namespace

void check_mergeable(const char* call, const Attention& a) {
  const WeightingDef& def = def_of(a.weighting);
  if (!merges(def.kind)) {
    std::string can;
    for (const WeightingDef* other : weighting_table()) {
      if (merges(other->kind)) can += (can.empty() ? "" : ", ") + other->name;
    }
    throw Error(call, "the weighting " + def.name +
                          " needs the scores of a whole row, which are nowhere together here; "
                          "these can be merged: " +
                          can);
  }
  const auto windows = std::ranges::count_if(
      a.mask.terms, [](const MaskTerm& term) { return term.def->center != nullptr; });
  if (windows > 1) {
    throw Error(call, "the mask has " + std::to_string(windows) +
                          " predicted windows, expected at most one");
  }
}

// ---- Lowering ----------------------------------------------------------------------------------

int64_t QueryRows::pairs_with(const KeyRange& keys, const Sizes& n) const {
  if (mask.begin.empty()) return n.B * count() * (keys.end - keys.begin);
  int64_t pairs = 0;
  for (size_t at = 0; at < mask.begin.size(); ++at) {
    const int64_t begin = std::max<int64_t>(mask.begin[at], keys.begin);
    pairs += std::max<int64_t>(0, std::min<int64_t>(mask.end[at], keys.end) - begin);
  }
  return mask.stride_b == 0 ? n.B * pairs : pairs;
}

QueryRows lower_queries(const Attention& a, const Sizes& n, const Tensor& q, int64_t first) {
  const ScoreDef& def = def_of(a.score);
  QueryRows out{.first = first, .q = q, .mask = lower_mask_of_queries(a, n, q, first)};
  const Sides sides = lowered_sides(def, n);
  // What sees nothing must not reach a projection, and its gradient.
  if ((sides.queries || out.mask.center) && out.mask.hides() && !is_all_finite(q)) {
    const Sizes rows = sizes_of_block(n, q.size(2), n.Lk);
    out.q = where(visible(out.mask, rows).queries, q, Tensor::scalar(0.0f));
    if (out.mask.center) out.mask.center = lower_mask_of_queries(a, n, out.q, first).center;
  }
  const Tensors here = at_places(a.score, {"Lq"}, first, q.size(2));
  if (sides.queries) out.q = def.queries(out.q, here);
  if (def.form == Form::additive) out.u = def.u(a.score.parameters).contiguous();
  return out;
}

Tensor lower_keys(const Attention& a, const Sizes& n, const Tensor& k, int64_t first) {
  const ScoreDef& def = def_of(a.score);
  if (!lowered_sides(def, n).keys) return k;
  const int64_t count = k.size(2);
  Tensor seen = k;
  if ((!a.mask.terms.empty() || a.score.bias) && !is_all_finite(k)) {
    seen = where(seen_keys(a, n, {first, first + count}), k, Tensor::scalar(0.0f));
  }
  return def.keys(seen, at_places(a.score, {"Lk", "Lmax"}, first, count));
}

// ---- Forward -----------------------------------------------------------------------------------

Merged::Merged(const Attention& a, const Sizes& n) : attention_(a), n_(n) {
  const WeightingDef& def = def_of(a.weighting);
  const size_t rows = static_cast<size_t>(n.B * n.H * n.Lq);
  context = Tensor::zeros({n.B, n.H, n.Lq, n.Dv});
  if (has_log_sum_exp(def.kind)) {
    m_.assign(rows, -kEndless);
    l_.assign(rows, 0.0f);
  }
  if (def.hard) {
    best_.assign(rows, -kEndless);
    score_.assign(rows, 0.0f);
    chosen.assign(rows, -1);
  }
  if (def.kind == WeightingKind::gumbel) soft_ = std::make_shared<Merged>(softened(a), n);
  const Tensor sink = sink_of(a.weighting);
  for (size_t at = 0; sink && at < rows; ++at) {
    const int64_t h = static_cast<int64_t>(at) / std::max<int64_t>(1, n.Lq) % n.H;
    const float s = raw(sink)[h * sink.strides()[0]] / a.weighting.temperature;
    m_[at] = s;
    l_[at] = s == -kEndless ? 0.0f : s < kEndless ? 1.0f : kUndefined;
  }
}

void Merged::add(const QueryRows& q, const KeyRows& k) {
  const NoGrad quiet;
  const WeightingDef& def = def_of(attention_.weighting);
  const auto run = [&](const Attention& a, bool noisy) {
    BlockState s = block_of(a, n_, q, k);
    s->problem.noisy = noisy;
    s->context = Tensor::empty({n_.B, n_.H, n_.Lq, n_.Dv});
    attend_by_kernels(*s, false);
    return s;
  };
  const BlockState s = run(attention_, false);
  if (def.hard) {
    const bool asked = def.kind == WeightingKind::sample;
    add_choices(*s, asked ? log_prob_by_kernels(*s, s->stat) : Tensor(), k.first);
  } else if (!has_log_sum_exp(def.kind)) {
    context.add_(s->context);
  }
  if (has_log_sum_exp(def.kind)) add_sums(*s);
  if (soft_) soft_->add_sums(*run(softened(attention_), true));
}

// A row's NaN is one of all that it sees: it stays.
void Merged::add_sums(const AttendedState& s) {
  const bool sums = !def_of(attention_.weighting).hard;
  const int64_t Dv = n_.Dv;
  for (size_t at = 0; at < m_.size(); ++at) {
    const float lse = raw(s.stat)[at];
    if (lse == -kEndless || std::isnan(l_[at])) continue;
    if (std::isnan(lse)) {
      l_[at] = kUndefined;
      continue;
    }
    const float before = m_[at], now = std::max(before, lse);
    const float old = before == now ? 1.0f : before == -kEndless ? 0.0f : std::exp(before - now);
    const float added = lse == now ? 1.0f : std::exp(lse - now);
    m_[at] = now;
    l_[at] = l_[at] * old + added;
    float* to = raw(context) + static_cast<int64_t>(at) * Dv;
    const float* from = raw(s.context) + static_cast<int64_t>(at) * Dv;
    for (int64_t d = 0; d < Dv && sums; ++d) to[d] = to[d] * old + from[d] * added;
  }
}

void Merged::add_choices(const AttendedState& s, const Tensor& block_log_prob, int64_t first_key) {
  for (size_t at = 0; at < best_.size(); ++at) {
    if (std::isnan(best_[at])) continue;
    if (!std::isnan(s.best[at]) && !(s.best[at] > best_[at])) continue;
    best_[at] = s.best[at];
    chosen[at] = s.chosen[at] < 0 ? -1 : first_key + s.chosen[at];
    if (block_log_prob) score_[at] = raw(block_log_prob)[at] + raw(s.stat)[at];
    const float* from = raw(s.context) + static_cast<int64_t>(at) * n_.Dv;
    std::copy(from, from + n_.Dv, raw(context) + static_cast<int64_t>(at) * n_.Dv);
  }
}

void Merged::finish() {
  const NoGrad quiet;
  stat = Tensor::full({n_.B, n_.H, n_.Lq}, -kEndless);
  for (size_t at = 0; at < best_.size(); ++at) {
    if (std::isnan(best_[at])) raw(stat)[at] = kUndefined;
  }
  const bool sums = !def_of(attention_.weighting).hard;
  for (size_t at = 0; at < m_.size(); ++at) {
    if (l_[at] == 0.0f) continue;
    raw(stat)[at] = std::isnan(l_[at]) ? kUndefined : m_[at] + std::log(l_[at]);
    float* row = raw(context) + static_cast<int64_t>(at) * n_.Dv;
    for (int64_t d = 0; d < n_.Dv && sums; ++d)
      row[d] = std::isnan(l_[at]) ? kUndefined : row[d] / l_[at];
  }
  if (def_of(attention_.weighting).kind == WeightingKind::sample) {
    log_prob = Tensor::zeros(stat.shape());
    for (size_t at = 0; at < chosen.size(); ++at) {
      const float s = raw(stat)[at];
      if (chosen[at] >= 0 || std::isnan(s)) raw(log_prob)[at] = score_[at] - s;
    }
  }
  if (soft_) soft_->finish();
  for (std::vector<float>* done : {&m_, &l_, &best_, &score_}) *done = {};
}

// ---- Backward ----------------------------------------------------------------------------------

BlockGradients block_backward(const Attention& a, const Sizes& n, const QueryRows& q,
                              const KeyRows& k, const Merged& whole, const Upstream& up) {
  const NoGrad quiet;
  const BlockState s = block_of(a, n, q, k);
  s->stat = whole.stat;
  s->context = whole.smooth_context();
  BlockGradients sum;
  const auto add = [](Tensor& to, const Tensor& d) {
    if (d && to) to.add_(d);
    if (d && !to) to = d;
  };
  const auto run = [&](const Upstream& one, int32_t elsewhere) {
    s->chosen = chosen_in(k, whole.chosen, elsewhere);
    const Grads d = backward_by_kernels(*s, one);
    Tensor* const places[] = {&sum.q, &sum.k, &sum.v, &sum.u, &sum.bias, &sum.center};
    for (size_t i = 0; i < std::size(places); ++i) add(*places[i], d[i]);
    size_t next = 7;  // the sink's is no block's
    for (const auto& [name, t] : s->pair.parameters) add(sum.parameters[name], d[next++]);
  };
  // A key chosen in another block has a probability that all of these lessen, but no value here.
  if (up.context) run({.context = up.context}, -1);
  if (up.log_sum_exp) run({.log_sum_exp = up.log_sum_exp}, -1);
  if (up.log_prob) run({.log_prob = up.log_prob}, static_cast<int32_t>(k.k.size(2)));
  return sum;
}

// p·(d stat − context·d context), p = e^{sink − stat}, over the temperature.
Tensor sink_gradient(const Attention& a, const Merged& whole, const Upstream& up) {
  const NoGrad quiet;
  const float inverse = 1.0f / a.weighting.temperature;
  const Tensor sink = sink_of(a.weighting).detach().contiguous();
  const Tensor d_context = up.context ? up.context.contiguous() : Tensor();
  const Tensor d_stat = up.log_sum_exp ? up.log_sum_exp.contiguous() : Tensor();
  const int64_t H = sink.size(0), Lq = whole.stat.size(2), Dv = whole.context.size(3);
  std::vector<double> d(static_cast<size_t>(H));
  for (int64_t row = 0; row < whole.stat.numel(); ++row) {
    const int64_t h = row / Lq % H;
    const float p = std::exp(raw(sink)[h] * inverse - raw(whole.stat)[row]);
    if (p == 0.0f || raw(sink)[h] == -kEndless) continue;
    float up_row = d_stat ? raw(d_stat)[row] : 0.0f;
    for (int64_t j = row * Dv; d_context && j < (row + 1) * Dv; ++j) {
      const float context = raw(whole.context)[j];
      if (context != 0.0f) up_row -= context * raw(d_context)[j];
    }
    d[h] += p * up_row * inverse;
  }
  return from_doubles(d, {H});
}

}  // namespace fovea
