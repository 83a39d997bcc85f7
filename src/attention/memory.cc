#include "fovea/memory.h"

#include <cmath>

#include "attention/check.h"
#include "attention/lower.h"
#include "attention/plan.h"
#include "fovea/ops.h"
#include "kernels/attention/steps.h"
#include "tensor/impl.h"
#include "tensor/tape.h"

// A step puts two nodes on the tape, its weights and its context. Their backward functions give the
// query's gradient and keep what the gradients of keys, values and parameters need, which are taken
// once for all steps.
namespace fovea {
namespace {

using kernels::KeptStep;
using kernels::RowsView;

[[noreturn]] void fail(const std::string& message) { throw Error("Memory", message); }

// A score with its keys projected: Σ u·tanh(a + k) where there is a u, else scale·a·k. The query
// side is a = W_q q + b, or q itself.
struct Folded {
  Tensor keys;  // [B,Lk,W]
  Tensor u;     // [W]
  Tensor w_q;   // [W,Dq]
  Tensor b;     // [W]
};

bool is_time_major(const Tensor& t) {
  return !t.is_contiguous() && t.transpose(0, 1).is_contiguous();
}

// k·wᵀ over the last dimension, in the layout of k. w [W,Dk].
Tensor project(const Tensor& k, const Tensor& w) {
  const Tensor right = w.transpose(0, 1);
  if (is_time_major(k)) return matmul(k.transpose(0, 1), right).transpose(0, 1);
  return matmul(k, right);
}

std::optional<Folded> fold(const Score& score, const Tensor& keys) {
  const std::string& name = def_of(score).name;
  const Tensors& p = score.parameters;
  const auto optional = [&](const char* key) { return p.contains(key) ? p.at(key) : Tensor(); };
  if (name == "additive") {
    return Folded{project(keys, p.at("w_k")), p.at("u"), p.at("w_q"), optional("b")};
  }
  if (name == "additive_keras") return Folded{.keys = keys, .u = p.at("u")};
  if (name == "tanh_unit") {
    return Folded{.keys = project(keys, p.at("w_y").unsqueeze(0)),
                  .u = Tensor::full({1}, 1.0f),
                  .w_q = p.at("w_c").unsqueeze(0)};
  }
  if (name == "multiplicative") return Folded{.keys = project(keys, p.at("w"))};
  if (name == "dot" || name == "scaled_dot") return Folded{.keys = keys};
  return std::nullopt;
}

// What a parameter or the keys say of the query's width.
int64_t query_width(const ScoreDef& def, const Tensors& given, int64_t Dk) {
  for (const ParameterDef& p : def.parameters) {
    const auto found = given.find(bare_name(p));
    if (found == given.end() || !found->second) continue;
    const Shape& shape = found->second.shape();
    for (size_t d = 0; d < std::min(shape.size(), p.shape.size()); ++d) {
      if (p.shape[d] == "Dq") return shape[d];
      if (p.shape[d] == "Dq+Dk") return shape[d] - Dk;
    }
  }
  return Dk;
}

bool all_finite(const Tensor& t) {  // rank 2 or 3
  const auto v = broadcast_view(t, t.data<float>());
  return t.numel() == 0 ||
         kernels::all_finite(v, 1, t.rank() == 3 ? t.size(0) : 1, t.size(-2), t.size(-1));
}

// A row's elements next to each other; on the tape.
Tensor with_dense_rows(const Tensor& t) {
  return t.size(-1) <= 1 || t.strides().back() == 1 ? t : t.contiguous();
}

template <class T>
RowsView<T> rows_of(const Tensor& t, T* data) {
  return {data, t.strides()[0], t.strides()[1], t.size(2)};
}

// Unwritten, in the layout of t.
Tensor room_for(const Tensor& t) {
  if (!is_time_major(t)) return Tensor::empty(t.shape());
  return Tensor::empty({t.size(1), t.size(0), t.size(2)}).transpose(0, 1);
}

// What the steps of one backward pass keep for d_fixed().
struct Kept {
  std::vector<Tensor> queries, a, g, da;  // of weights: [B,Dq], [B,W], [B,Lk], [B,W]
  std::vector<Tensor> p, d_context;       // of contexts: [B,Lk], [B,Dv]
};

std::vector<KeptStep> pairs_of(const std::vector<Tensor>& weights,
                               const std::vector<Tensor>& vectors) {
  std::vector<KeptStep> kept;
  for (size_t t = 0; t < weights.size(); ++t) kept.push_back({raw(weights[t]), raw(vectors[t])});
  return kept;
}

// Everything the steps share, off the tape.
struct Steps {
  kernels::StepMemory memory;
  Saved keys, values, u, w_q, b;
  bool want_keys, want_values, want_u, want_w_q, want_b;

  Steps(const Folded& f, const Tensor& v, std::vector<int32_t> ends)
      : keys(f.keys),
        values(v),
        u(f.u),
        w_q(f.w_q),
        b(f.b),
        want_keys(f.keys.requires_grad()),
        want_values(v.requires_grad()),
        want_u(f.u.requires_grad()),
        want_w_q(f.w_q.requires_grad()),
        want_b(f.b.requires_grad()) {
    memory.B = v.size(0), memory.Lk = v.size(1);
    memory.ends = std::move(ends);
    memory.keys = rows_of(f.keys, f.keys.data<float>());
    memory.values = rows_of(v, v.data<float>());
    memory.additive = f.u.defined();
    memory.prepare(f.u ? raw(f.u.contiguous()) : nullptr);
  }

  void check_unchanged() const {
    for (const Saved* s : {&keys, &values, &u, &w_q, &b}) s->get("Memory");
  }

  // a = W_q q + b
  Tensor query_side(const Tensor& query) const {
    const Tensor& w = w_q.get("Memory");
    if (!w) return query.contiguous();
    const Tensor a = matmul(query, w.transpose(0, 1));
    return b.get("Memory") ? a + b.get("Memory") : a;
  }

  struct Step {
    Tensor query, a, p;  // [B,Dq], [B,W], [B,Lk]
    float factor;
  };
  Tensor d_query(const Step&, const Tensor& dp, Kept*) const;
  Tensor d_weights(const Tensor& p, const Tensor& d_context, Kept*) const;
  Grads d_fixed(const Kept&) const;
};

Tensor Steps::d_query(const Step& s, const Tensor& dp_in, Kept* kept) const {
  check_unchanged();
  const Tensor dp = dp_in.contiguous(), g = Tensor::empty(s.p.shape());
  const Tensor da = Tensor::empty(s.a.shape());
  kernels::step_d_query(memory, {raw(s.a), raw(s.p), raw(dp), s.factor, raw(g), raw(da)});
  if (kept && (want_keys || want_u)) {
    kept->a.push_back(s.a);
    kept->g.push_back(g);
  }
  if (kept && (want_w_q || want_b)) {
    kept->queries.push_back(s.query);
    kept->da.push_back(da);
  }
  const Tensor& w = w_q.get("Memory");
  return w ? matmul(da, w) : da;
}

Tensor Steps::d_weights(const Tensor& p, const Tensor& d_in, Kept* kept) const {
  check_unchanged();
  const Tensor d_context = d_in.contiguous(), dp = Tensor::empty(p.shape());
  kernels::step_d_weights(memory, raw(d_context), raw(dp));
  if (kept && want_values) {
    kept->p.push_back(p);
    kept->d_context.push_back(d_context);
  }
  return dp;
}

// The gradients of keys, values, u, w_q and b.
Grads Steps::d_fixed(const Kept& all) const {
  check_unchanged();
  Grads grads(5);
  if (want_keys) grads[0] = room_for(keys.get("Memory"));
  if (want_values) grads[1] = room_for(values.get("Memory"));
  if (want_u) grads[2] = Tensor::empty(u.get("Memory").shape());
  const auto view = [](const Tensor& t) { return t ? rows_of(t, raw(t)) : RowsView<float>{}; };
  const std::vector<KeptStep> scores = pairs_of(all.g, all.a);
  if (memory.additive && (want_keys || want_u)) {
    kernels::steps_d_additive(memory, scores, view(grads[0]), want_u ? raw(grads[2]) : nullptr);
  } else if (want_keys) {
    kernels::steps_d_rows(memory, scores, view(grads[0]));
  }
  if (want_values) {
    kernels::steps_d_rows(memory, pairs_of(all.p, all.d_context), view(grads[1]));
  }
  if ((want_w_q || want_b) && !all.da.empty()) {
    const Tensor da = concatenate(all.da, 0);  // [T·B,W]
    if (want_w_q) grads[3] = matmul(da.transpose(0, 1), concatenate(all.queries, 0));
    if (want_b) grads[4] = sum(da, {0});
  }
  return grads;
}

}  // namespace

struct Memory::State {
  Sizes n{};
  Tensor keys, values;  // on the tape; what nobody sees is 0 where it was not finite
  Score score;
  Mask lengths;
  bool keys_finite = true;
  bool empty_rows = false;
  std::vector<int32_t> ends;
  std::optional<Folded> folded;
  std::shared_ptr<Steps> steps;  // where the score has such a form
  Deferred<Kept> fixed;          // keys, values, u, w_q and b

  void hide_unseen();
  void start_steps();
  Tensor seeing(const Tensor& query) const;
  bool deferred(const Mask&, const Weighting&) const;
  MemoryStep step(const Tensor& query, const Weighting&) const;
  MemoryStep call(const Tensor& query, const Mask&, const Weighting&) const;
};

// Padding must not reach projections and their gradients: 0·NaN.
void Memory::State::hide_unseen() {
  ends.assign(n.B, static_cast<int32_t>(n.Lk));
  const LoweredMask mask = lower_mask({.mask = lengths}, n, {});
  for (int64_t b = 0; b < n.B && !mask.end.empty(); ++b) ends[b] = mask.end[b * mask.stride_b];
  for (const int32_t end : ends) empty_rows |= end == 0;
  keys_finite = all_finite(keys);
  if (mask.end.empty() || (keys_finite && all_finite(values))) return;
  const Tensor seen = visible(mask, n).keys.squeeze(1);  // [B,Lk,1]
  keys = where(seen, keys, Tensor::scalar(0.0f));
  values = where(seen, values, Tensor::scalar(0.0f));
  keys_finite = all_finite(keys);
}

void Memory::State::start_steps() {
  if (!folded || score.bias || n.B == 0 || n.Lk == 0) return;
  const PlanRequest request{.n = n, .factored = true, .dot = !folded->u.defined()};
  if (choose_plan(request, Plan::automatic) != Plan::fused) return;
  folded->keys = with_dense_rows(folded->keys);
  const Tensor v = with_dense_rows(values);
  steps = std::make_shared<Steps>(*folded, v, ends);
  fixed = Deferred<Kept>("Memory", {folded->keys, v, folded->u, folded->w_q, folded->b},
                         [steps = steps](const Kept& kept) { return steps->d_fixed(kept); });
}

bool Memory::State::deferred(const Mask& mask, const Weighting& w) const {
  return steps && mask.terms.empty() && def_of(w).kind == WeightingKind::softmax &&
         w.dropout == 0.0f && w.temperature > 0.0f && std::isfinite(w.temperature);
}

// A query that sees nothing must not reach projections and their gradients either.
Tensor Memory::State::seeing(const Tensor& query) const {
  if (!empty_rows || all_finite(query)) return query;
  std::vector<uint8_t> sees;
  for (const int32_t end : ends) sees.push_back(end > 0);
  return where(Tensor::from_bools(sees, {n.B, 1}), query, Tensor::scalar(0.0f));
}

MemoryStep Memory::State::step(const Tensor& query, const Weighting& w) const {
  Tensor a;
  {
    const NoGrad off;
    a = steps->query_side(query.detach());
  }
  const float factor = scale_of(score, n) / w.temperature;
  const Tensor p = Tensor::empty({n.B, n.Lk}), context = Tensor::empty({n.B, n.Dv});
  kernels::step_forward(steps->memory, raw(a), factor, raw(p), raw(context));

  const Saved kept_p(p);
  MemoryStep out;
  out.soft = fixed.use(
      "Memory", {query}, p,
      [steps = steps, q = Saved(query), a = Saved(a), kept_p, factor](const Tensor& d, Kept* kept) {
        const Steps::Step s{q.get("Memory"), a.get("Memory"), kept_p.get("Memory"), factor};
        return Grads{steps->d_query(s, d, kept)};
      });
  out.context = fixed.use("Memory", {out.soft}, context,
                          [steps = steps, kept_p](const Tensor& d, Kept* kept) {
                            return Grads{steps->d_weights(kept_p.get("Memory"), d, kept)};
                          });
  return out;
}

// One call of attend(). A window predicted from the query wants the query itself.
MemoryStep Memory::State::call(const Tensor& query, const Mask& mask, const Weighting& w) const {
  bool as_given = !folded.has_value();
  for (const MaskTerm& term : mask.terms) {
    as_given |= term.def && term.def->center && folded && folded->w_q;
  }
  // What this mask hides must not reach projections.
  if (!mask.terms.empty()) as_given |= !keys_finite || !all_finite(query);
  Attention attention{score, lengths & mask, w};
  Tensor q = query;
  if (!as_given) {
    attention.score = folded->u ? scores::additive_keras(folded->u) : scores::dot();
    attention.score.scale = scale_of(score, n);
    attention.score.bias = score.bias;
    if (folded->w_q) q = matmul(q, folded->w_q.transpose(0, 1));
    if (folded->b) q = q + folded->b;
  }
  MemoryStep out;
  out.attended =
      attend(q.unsqueeze(1), as_given ? keys : folded->keys, values, attention, {.weights = true});
  out.context = out.attended.context.squeeze(1);
  return out;
}

Memory::Memory(const Tensor& keys, const Tensor& values, const Score& score, const Tensor& lengths)
    : state_(std::make_shared<State>()) {
  for (const auto& [name, t] : {std::pair("keys", keys), std::pair("values", values)}) {
    expect_dtype("Memory", name, t, DType::f32);
    if (t.rank() != 3)
      fail(std::string(name) + " is " + to_string(t.shape()) + ", expected rank 3");
  }
  if (keys.size(0) != values.size(0) || keys.size(1) != values.size(1)) {
    fail("keys are " + to_string(keys.shape()) + ", values are " + to_string(values.shape()) +
         ": B and Lk must be equal");
  }
  State& s = *state_;
  const int64_t Dq = query_width(def_of(score), score.parameters, keys.size(2));
  s.n = {keys.size(0), 1, 1, 1, keys.size(1), Dq, keys.size(2), values.size(2)};
  s.keys = keys, s.values = values, s.score = score;
  if (lengths) s.lengths = masks::lengths(lengths);
  check_attention("Memory", {.score = score, .mask = s.lengths}, s.n);
  s.hide_unseen();
  s.folded = fold(score, s.keys);
  s.start_steps();
}

MemoryStep Memory::operator()(const Tensor& query, const Mask& mask, const Weighting& weighting) {
  expect_dtype("Memory", "the query", query, DType::f32);
  if (query.shape() != Shape{state_->n.B, state_->n.Dq}) {
    fail("the query is " + to_string(query.shape()) + ", expected " +
         to_string({state_->n.B, state_->n.Dq}));
  }
  const Tensor q = state_->seeing(query);
  return state_->deferred(mask, weighting) ? state_->step(q, weighting)
                                           : state_->call(q, mask, weighting);
}

Tensor MemoryStep::weights() const { return soft ? soft : attended.weights().squeeze(1); }

Tensor MemoryStep::entropy() const {
  if (!soft) return attended.entropy().squeeze(1);
  return sum(soft * log(maximum(soft, Tensor::scalar(1e-37f))), {1}) * -1.0f;
}

Tensor MemoryStep::chosen() const {
  if (soft)
    throw Error("MemoryStep::chosen", "softmax chooses no key; sample, argmax and gumbel do");
  return attended.chosen().squeeze(1);
}

Tensor MemoryStep::log_prob() const {
  if (soft)
    throw Error("MemoryStep::log_prob", "softmax chooses no key; sample, argmax and gumbel do");
  return attended.log_prob().squeeze(1);
}

}  // namespace fovea
