#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "attention/check.h"
#include "attention/state.h"
#include "fovea/ops.h"
#include "tensor/impl.h"

// What a result of attend() can be asked for.
namespace fovea {
namespace {

using State = std::shared_ptr<const AttendedState>;

// What looks inside read: floats.
State state_of(const State& s) {
  if (!s->in_floats) return s;
  s->check_unchanged("Attended");  // the inputs are read again
  return s->in_floats().state;
}

constexpr int64_t kTopScores = int64_t{1} << 20;  // weights of a head that top() has at a time

bool by_reference(const State& s) { return s->plan == Plan::reference; }
Shape rows_shape(const State& s) { return {s->n.B, s->n.H, s->n.Lq}; }

void check_selection(const char* what, const std::vector<int64_t>& picked, int64_t n) {
  for (const int64_t i : picked) {
    if (i < 0 || i >= n) {
      throw Error("Attended::weights", std::string("there is no ") + what + " " +
                                           std::to_string(i) + "; there are " + std::to_string(n));
    }
  }
}

void expect_hard(const char* call, const State& s) {
  const WeightingDef& def = def_of(s->attention.weighting);
  if (!def.hard) throw Error(call, chooses_none(def.name));
}

// Off the tape: [B,H',Lq',Lk].
Tensor selected_weights(const State& s, const Select& select) {
  const bool all = select.heads.empty() && select.rows.empty();
  const Tensor kept = by_reference(s)
                          ? from_doubles(s->result.weights, {s->n.B, s->n.H, s->n.Lq, s->n.Lk})
                          : s->weights;
  if (kept && all) return kept;
  if (!kept) {
    s->check_unchanged("Attended::weights");
    return weights_by_kernels(*s, select);
  }
  const auto pick = [](const Tensor& t, int dim, const std::vector<int64_t>& ids) {
    return ids.empty()
               ? t
               : index_select(t, dim, Tensor::from_ids(ids, {static_cast<int64_t>(ids.size())}));
  };
  return pick(pick(kept, 1, select.heads), 2, select.rows);
}

// d weights of the selection as d weights of everything.
Tensor spread(const State& s, const Select& select, const Tensor& d) {
  if (select.heads.empty() && select.rows.empty()) return d;
  const Sizes& n = s->n;
  Tensor at = d.contiguous();
  const auto add = [&](const std::vector<int64_t>& picked, kernels::Middle where, Shape shape) {
    if (picked.empty()) return;
    const auto count = static_cast<int64_t>(picked.size());
    const Tensor ids = Tensor::from_ids(picked, {count}).to(at.device());
    const Tensor to = Tensor::zeros(shape);
    on(to).add_rows(where, raw_ids(ids), count, raw(at), raw(to));
    at = to;
  };
  const int64_t rows = d.size(2);
  add(select.heads, {.outer = n.B, .size = n.H, .inner = rows * n.Lk}, {n.B, n.H, rows, n.Lk});
  add(select.rows, {.outer = n.B * n.H, .size = n.Lq, .inner = n.Lk}, {n.B, n.H, n.Lq, n.Lk});
  return at;
}

Tensor record_selection(const State& s, const Select& select, const Tensor& weights) {
  return record("Attended::weights", s->on_tape, weights.detach(), [s, select](const Tensor& d) {
    const DefaultDevice here(s->computed);
    return attend_backward(*s, "Attended::weights", {.weights = spread(s, select, d)});
  });
}

Tensor row_log_sum_exp(const State& s) {
  s->check_unchanged("Attended");
  return by_reference(s) ? from_doubles(s->result.log_sum_exp, rows_shape(s))
                         : log_sum_exp_by_kernels(*s);
}

// Sparse weightings have an entropy of their own, before windows and dropout: −Σ w log w.
Tensor sparse_entropy(const State& s) {
  s->check_unchanged("Attended::entropy");
  auto plain = std::make_shared<AttendedState>(*s);
  if (plain->problem.begin && !plain->ranges) {  // its own copy: `s` may go first
    plain->problem.begin.data = plain->mask.begin.data();
    plain->problem.end.data = plain->mask.end.data();
  }
  plain->problem.formula.self = &plain->attention.weighting;
  plain->problem.dropout = 0.0f;
  if (!plain->problem.renormalise) plain->problem.center = {};
  plain->weights = {};
  const Tensor w = record_selection(plain, {}, weights_by_kernels(*plain, {}));
  return sum(w * log(maximum(w, Tensor::scalar(1e-37f))), {3}) * -1.0f;
}

}  // namespace

Tensor Attended::weights(const Select& select) const {
  const State s = state_of(state);
  const DefaultDevice here(s->computed);
  check_selection("head", select.heads, s->n.H);
  check_selection("row", select.rows, s->n.Lq);
  return s->shaped(record_selection(s, select, selected_weights(s, select)));
}

TopK Attended::top(int64_t k, const Select& select) const {
  const State s = state_of(state);
  const DefaultDevice here(s->computed);
  check_selection("head", select.heads, s->n.H);
  check_selection("row", select.rows, s->n.Lq);
  const Sizes& n = s->n;
  if (k < 0 || k > n.Lk) {
    throw Error("Attended::top",
                "k is " + std::to_string(k) + ", expected 0 to Lk=" + std::to_string(n.Lk));
  }
  const NoGrad quiet;
  std::vector<int64_t> rows = select.rows;
  if (rows.empty()) {
    rows.resize(n.Lq);
    std::iota(rows.begin(), rows.end(), 0);
  }
  const int64_t heads = select.heads.empty() ? n.H : static_cast<int64_t>(select.heads.size());
  const int64_t count = static_cast<int64_t>(rows.size());
  TopK out{Tensor::empty({n.B, heads, count, k}),
           Tensor::empty({n.B, heads, count, k}, DType::i64, s->computed)};
  // A few rows at a time: the whole matrix is never there.
  const int64_t most = s->computed == Device::cpu
                           ? 64
                           : std::max<int64_t>(64, kTopScores / std::max<int64_t>(1, n.Lk));
  for (int64_t first = 0; first < count && k > 0; first += most) {
    const int64_t m = std::min(most, count - first);
    const Select part{select.heads, {rows.begin() + first, rows.begin() + first + m}};
    const Tensor w = selected_weights(s, part);
    const Tensor top = Tensor::empty({n.B, heads, m, k});
    const Tensor keys = Tensor::empty({n.B, heads, m, k}, DType::i64, s->computed);
    on(w).top_of_rows({.rows = n.B * heads * m, .n = n.Lk, .k = k}, raw(w), raw(top),
                      raw_ids(keys));
    out.weights.slice(2, first, first + m).copy_(top);
    out.keys.slice(2, first, first + m).copy_(keys);
  }
  out.weights = s->shaped(out.weights);
  out.keys = s->shaped(out.keys.to(Device::cpu));
  return out;
}

Tensor Attended::log_sum_exp() const {
  const State s = state_of(state);
  const DefaultDevice here(s->computed);
  return s->shaped(
      record_output(s, "Attended::log_sum_exp", row_log_sum_exp(s), &Upstream::log_sum_exp));
}

Tensor Attended::entropy() const {
  const State s = state_of(state);
  const DefaultDevice here(s->computed);
  const WeightingDef& def = def_of(s->attention.weighting);
  const bool own = !def.hard && def.normalised && def.kind != WeightingKind::softmax;
  if (own && !by_reference(s)) return s->shaped(sparse_entropy(s));
  const Tensor h = by_reference(s) ? from_doubles(s->result.entropy, rows_shape(s))
                                   : entropy_by_kernels(*s, row_log_sum_exp(s));
  return s->shaped(record_output(s, "Attended::entropy", h, &Upstream::entropy));
}

Tensor Attended::chosen() const {
  const State s = state_of(state);
  const DefaultDevice here(s->computed);
  expect_hard("Attended::chosen", s);
  const std::vector<int32_t> chosen = chosen_keys(*s);
  const std::vector<int64_t> keys(chosen.begin(), chosen.end());
  return s->shaped(Tensor::from_ids(keys, rows_shape(s)));
}

Tensor Attended::log_prob() const {
  const State s = state_of(state);
  const DefaultDevice here(s->computed);
  expect_hard("Attended::log_prob", s);
  const Tensor p = by_reference(s) ? from_doubles(s->result.log_prob, rows_shape(s))
                                   : log_prob_by_kernels(*s, row_log_sum_exp(s));
  return s->shaped(record_output(s, "Attended::log_prob", p, &Upstream::log_prob));
}

Plan Attended::plan() const { return state->plan; }

Computed Attended::computed() const {
  Computed c{.context = context.detach()};
  const Tensor none = Tensor::full(rows_shape(state), std::numeric_limits<float>::quiet_NaN());
  c.stat = state->shaped(state->stat ? state->stat : none);  // the reference has none
  if (def_of(state->attention.weighting).hard) c.chosen = chosen();
  return c;
}

}  // namespace fovea
