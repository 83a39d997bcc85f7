#include "fovea/memory.h"

#include <algorithm>
#include <cmath>

#include "attention/check.h"
#include "attention/layout.h"
#include "attention/lower.h"
#include "attention/plan.h"
#include "attention/state.h"
#include "fovea/ops.h"
#include "kernels/table.h"
#include "tensor/impl.h"
#include "tensor/tape.h"

// A step puts two nodes on the tape, its weights and its context. Their backward functions give the
// query's gradient and keep what the gradients of keys, values and parameters need, which are taken
// once for all steps.
namespace fovea {
namespace {

using kernels::KeptStep;
using kernels::RowsView;

[[noreturn]] void refuse(const std::string& message) { throw Error("Memory", message); }

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
  const auto v = broadcast_view<const float>(t, raw(t));
  return t.numel() == 0 ||
         on(t).all_finite(v, 1, t.rank() == 3 ? t.size(0) : 1, t.size(-2), t.size(-1));
}

// A row's elements next to each other; on the tape.
Tensor with_dense_rows(const Tensor& t) {
  return t.size(-1) <= 1 || t.strides().back() == 1 ? t : t.contiguous();
}

template <class T>
RowsView<T> rows_of(const Tensor& t, T* data) {
  return {data, t.strides()[0], t.strides()[1], t.size(2)};
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

// The lowering of [N,Dq] queries, one by one.
Tensor lowered_queries(Lowering lower, const Tensor& queries, const Tensors& parameters) {
  const int64_t N = queries.size(0);
  return lower(queries.reshape({N, 1, 1, queries.size(1)}), parameters).reshape({N, -1});
}

// Everything the steps share, off the tape.
struct Steps {
  kernels::StepMemory memory;
  std::shared_ptr<void> ends;
  Saved keys, values, u;
  bool want_keys, want_values, want_u;
  // How a query is lowered; null: it is read as it is.
  Lowering lower;
  Tensors parameters;
  std::vector<Saved> saved;
  bool want_parameters = false;

  Steps(const Tensor& k, const Tensor& v, const Tensor& u_in, Lowering queries,
        const Tensors& given, const std::vector<int32_t>& seen)
      : keys(k),
        values(v),
        u(u_in),
        want_keys(k.requires_grad()),
        want_values(v.requires_grad()),
        want_u(u_in.requires_grad()),
        lower(queries) {
    memory.B = v.size(0), memory.Lk = v.size(1);
    memory.keys = rows_of<const float>(k, raw(k));
    memory.values = rows_of<const float>(v, raw(v));
    memory.u = u_in ? raw(u_in) : nullptr;
    const size_t bytes = seen.size() * sizeof(int32_t);
    ends = kernels::allocate_on(k.device(), bytes);
    on(k).upload(ends.get(), seen.data(), bytes);
    memory.ends = static_cast<const int32_t*>(ends.get());
    memory.made = on(k).steps_prepare(memory);
    for (const auto& [name, t] : given) {
      parameters[name] = t.detach();
      saved.emplace_back(t);
      want_parameters |= lower && t.requires_grad();
    }
  }

  void check_unchanged() const {
    for (const Saved* s : {&keys, &values, &u}) s->get("Memory");
    for (const Saved& s : saved) s.get("Memory");
  }

  // A step's query [B,Dq], and what is read of it [B,W]: of the query alone on a tape of its own.
  struct Query {
    Tensor given, lowered;
  };
  Query lower_query(const Tensor& query) const;

  struct Step {
    Query query;
    Tensor p;  // [B,Lk]
    float factor;
  };
  Tensor d_query(const Step&, const Tensor& dp, Kept*) const;
  Tensor d_weights(const Tensor& p, const Tensor& d_context, Kept*) const;
  Grads d_parameters(const Kept&) const;
  Grads d_fixed(const Kept&) const;
};

Steps::Query Steps::lower_query(const Tensor& query) const {
  Query q{.given = query.detach()};
  if (lower && query.requires_grad()) q.given.set_requires_grad();
  q.lowered = lower ? lowered_queries(lower, q.given, parameters) : q.given;
  if (!q.lowered.is_contiguous()) q.lowered = q.lowered.contiguous();
  return q;
}

Tensor Steps::d_query(const Step& s, const Tensor& dp_in, Kept* kept) const {
  check_unchanged();
  const DefaultDevice here(s.p.device());
  const Tensor& a = s.query.lowered;
  const Tensor dp = dp_in.contiguous(), g = Tensor::empty(s.p.shape());
  const Tensor da = Tensor::empty(a.shape());
  on(a).step_d_query(memory, {raw(a), raw(s.p), raw(dp), s.factor, raw(g), raw(da)});
  if (kept && (want_keys || want_u)) {
    kept->a.push_back(a.detach());
    kept->g.push_back(g);
  }
  if (kept && want_parameters) {
    kept->queries.push_back(s.query.given.detach());
    kept->da.push_back(da);
  }
  if (!lower) return da;
  return s.query.given.requires_grad() ? gradients(a, da, std::vector{s.query.given})[0] : Tensor();
}

Tensor Steps::d_weights(const Tensor& p, const Tensor& d_in, Kept* kept) const {
  check_unchanged();
  const DefaultDevice here(p.device());
  const Tensor d_context = d_in.contiguous(), dp = Tensor::empty(p.shape());
  on(p).step_d_weights(memory, raw(d_context), raw(dp));
  if (kept && want_values) {
    kept->p.push_back(p);
    kept->d_context.push_back(d_context);
  }
  return dp;
}

// Of the parameters that lower the queries: all queries are lowered again, as one, and
// differentiated.
Grads Steps::d_parameters(const Kept& all) const {
  if (all.da.empty()) return Grads(parameters.size());
  Tensors leaves;
  for (const auto& [name, t] : parameters) leaves[name] = t.detach().set_requires_grad();
  const Tensor da = concatenate(all.da, 0);  // [T·B,W]
  const Recording on;
  const Tensor a = lowered_queries(lower, concatenate(all.queries, 0), leaves);
  if (a.requires_grad()) a.backward(da);
  Grads grads;
  for (const auto& [name, t] : leaves) grads.push_back(t.grad());
  return grads;
}

// The gradients of keys, values, u and the parameters.
Grads Steps::d_fixed(const Kept& all) const {
  check_unchanged();
  Grads grads(3);
  const auto room_for = [](const Saved& s) {
    const Tensor& t = s.get("Memory");
    return empty_in_order_of(t, t.shape());
  };
  if (want_keys) grads[0] = room_for(keys);
  if (want_values) grads[1] = room_for(values);
  if (want_u) grads[2] = room_for(u);
  const auto view = [](const Tensor& t) { return t ? rows_of(t, raw(t)) : RowsView<float>{}; };
  const std::vector<KeptStep> scores = pairs_of(all.g, all.a);
  const kernels::Kernels& device = on(values.get("Memory"));
  if (memory.u && (want_keys || want_u)) {
    device.steps_d_additive(memory, scores, view(grads[0]), want_u ? raw(grads[2]) : nullptr);
  } else if (want_keys) {
    device.steps_d_rows(memory, scores, view(grads[0]));
  }
  if (want_values) {
    device.steps_d_rows(memory, pairs_of(all.p, all.d_context), view(grads[1]));
  }
  for (const Tensor& d : d_parameters(all)) grads.push_back(d);
  return grads;
}

}  // namespace

struct Memory::State {
  Sizes n{};
  Tensor keys, values;  // on the tape; what nobody sees is 0 where it was not finite
  Tensor lowered;       // the keys as the score reads them
  Score score;
  Mask lengths;
  bool keys_finite = true;
  bool finite = true;  // lowered keys and values
  bool empty_rows = false;
  std::vector<int32_t> ends;
  std::shared_ptr<Steps> steps;  // where the score has such a form and all is finite
  Deferred<Kept> fixed;          // keys, values, u and the parameters

  void hide_unseen();
  void start_steps();
  Tensor seeing(const Tensor& query) const;
  bool deferred(const Mask&, const Weighting&) const;
  MemoryStep step(const Tensor& query, const Weighting&) const;
  MemoryStep call(const Tensor& query, const Mask&, const Weighting&);
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
  const ScoreDef& def = def_of(score);
  if (keys.device() != Device::cpu && n.Lk > kernels::kDeviceStepKeys) {  // attend() for each step
    finite = false;
    return;
  }
  finite = all_finite(lowered) && all_finite(values);
  if (def.form == Form::pairs || score.softcap || score.bias || n.B == 0 || n.Lk == 0 || !finite)
    return;
  if (choose_plan(request_for({.score = score}, n), usual_plan()) != Plan::fused) return;
  lowered = with_dense_rows(lowered);
  const Tensor v = with_dense_rows(values);
  const Tensor u = def.form == Form::additive ? def.u(score.parameters).contiguous() : Tensor();
  const Lowering queries = def.either ? nullptr : def.queries;
  steps = std::make_shared<Steps>(lowered, v, u, queries, score.parameters, ends);
  std::vector<Tensor> inputs{lowered, v, u};
  for (const auto& [name, t] : score.parameters) inputs.push_back(t);
  fixed = Deferred<Kept>("Memory", std::move(inputs),
                         [steps = steps](const Kept& kept) { return steps->d_fixed(kept); });
}

bool Memory::State::deferred(const Mask& mask, const Weighting& w) const {
  return steps && mask.terms.empty() && def_of(w).kind == WeightingKind::softmax &&
         w.parameters.empty() && w.dropout == 0.0f && w.temperature > 0.0f &&
         std::isfinite(w.temperature);
}

// A query that sees nothing must not reach projections and their gradients either.
Tensor Memory::State::seeing(const Tensor& query) const {
  if (!empty_rows || all_finite(query)) return query;
  std::vector<uint8_t> sees;
  for (const int32_t end : ends) sees.push_back(end > 0);
  return where(Tensor::from_bools(sees, {n.B, 1}), query, Tensor::scalar(0.0f));
}

MemoryStep Memory::State::step(const Tensor& query, const Weighting& w) const {
  const Steps::Query q = steps->lower_query(query);
  const float factor = scale_of(score, n) / w.temperature;
  const Tensor p = Tensor::empty({n.B, n.Lk}), context = Tensor::empty({n.B, n.Dv});
  on(p).step_forward(steps->memory, raw(q.lowered), factor, raw(p), raw(context));

  const Saved kept_p(p);
  MemoryStep out;
  out.soft = fixed.use(
      "Memory", {query}, p,
      [steps = steps, q, as_given = Saved(query), kept_p, factor](const Tensor& d, Kept* kept) {
        as_given.get("Memory");
        return Grads{steps->d_query({q, kept_p.get("Memory"), factor}, d, kept)};
      });
  out.context = fixed.use("Memory", {out.soft}, context,
                          [steps = steps, kept_p](const Tensor& d, Kept* kept) {
                            return Grads{steps->d_weights(kept_p.get("Memory"), d, kept)};
                          });
  return out;
}

// One call of attend(). What the mask hides of keys that are not finite must not reach their
// projection, which it would where that is done already.
MemoryStep Memory::State::call(const Tensor& query, const Mask& mask, const Weighting& w) {
  const bool as_given = !mask.terms.empty() && !keys_finite;
  const Keys known{keys, as_given ? Tensor() : lowered, finite};
  MemoryStep out;
  out.attended =
      attend_to(query.unsqueeze(1), known, values, {score, lengths & mask, w}, {.weights = true});
  out.context = out.attended.context.squeeze(1);
  return out;
}

Memory::Memory(const Tensor& keys, const Tensor& values, const Score& score, const Tensor& lengths)
    : state_(std::make_shared<State>()) {
  for (const auto& [name, t] : {std::pair("keys", keys), std::pair("values", values)}) {
    expect_dtype("Memory", name, t, DType::f32);
    if (t.rank() != 3)
      refuse(std::string(name) + " is " + to_string(t.shape()) + ", expected rank 3");
  }
  if (keys.size(0) != values.size(0) || keys.size(1) != values.size(1)) {
    refuse("keys are " + to_string(keys.shape()) + ", values are " + to_string(values.shape()) +
           ": B and Lk must be equal");
  }
  expect_together("Memory", {&keys, &values});
  const DefaultDevice here(keys.device());
  State& s = *state_;
  const int64_t Dq = query_width(def_of(score), score.parameters, keys.size(2));
  s.n = {keys.size(0), 1, 1, 1, keys.size(1), Dq, keys.size(2), values.size(2)};
  s.keys = keys, s.values = values, s.score = score;
  if (lengths) s.lengths = masks::lengths(lengths);
  check_attention("Memory", {.score = score, .mask = s.lengths}, s.n);
  s.hide_unseen();
  const Lowering lower = def_of(score).keys;
  s.lowered = lower ? lower(s.keys.unsqueeze(1), score.parameters).squeeze(1) : s.keys;
  s.start_steps();
}

MemoryStep Memory::operator()(const Tensor& query, const Mask& mask, const Weighting& weighting) {
  expect_dtype("Memory", "the query", query, DType::f32);
  expect_together("Memory", {&query, &state_->keys});
  const DefaultDevice here(query.device());
  if (query.shape() != Shape{state_->n.B, state_->n.Dq}) {
    refuse("the query is " + to_string(query.shape()) + ", expected " +
           to_string({state_->n.B, state_->n.Dq}));
  }
  return state_->deferred(mask, weighting) ? state_->step(state_->seeing(query), weighting)
                                           : state_->call(query, mask, weighting);
}

bool MemoryStep::deferred() const { return soft.defined(); }

Tensor MemoryStep::weights() const { return soft ? soft : attended.weights().squeeze(1); }

Tensor MemoryStep::entropy() const {
  if (!soft) return attended.entropy().squeeze(1);
  return sum(soft * log(maximum(soft, Tensor::scalar(1e-37f))), {1}) * -1.0f;
}

Tensor MemoryStep::chosen() const {
  if (deferred()) throw Error("MemoryStep::chosen", chooses_none("a softmax"));
  return attended.chosen().squeeze(1);
}

Tensor MemoryStep::log_prob() const {
  if (deferred()) throw Error("MemoryStep::log_prob", chooses_none("a softmax"));
  return attended.log_prob().squeeze(1);
}

}  // namespace fovea
