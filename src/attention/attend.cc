#include "fovea/attention.h"

#include <algorithm>

#include "attention/check.h"
#include "attention/layout.h"
#include "attention/lower.h"
#include "attention/plan.h"
#include "attention/state.h"
#include "fovea/ops.h"

// attend(), forward: check, choose a plan, lower mask, queries and keys, run it (by_kernels.cc:
// fused, linear and composed; by_reference.cc); and backward. What the result may be asked for
// afterwards is in attended.cc.
namespace fovea {
namespace {

[[noreturn]] void fail(const std::string& message) { throw Error("attend", message); }

// [L,D] and [B,L,D] as [B,H,L,D].
Tensor with_rank_4(Tensor t) {
  if (t.rank() == 2) t = t.unsqueeze(0);
  return t.rank() == 3 ? t.unsqueeze(1) : t;
}

void check_tensor(const char* name, const Tensor& t, int rank) {
  const std::string what(name);
  if (!t) fail(what + " is undefined");
  if (t.dtype() != DType::f32) fail(what + " is " + name_of(t.dtype()) + ", expected f32");
  if (t.rank() < 2 || t.rank() > 4)
    fail(what + " is " + to_string(t.shape()) + ", expected rank 2 to 4");
  if (t.rank() != rank) {
    fail(what + " has rank " + std::to_string(t.rank()) + ", q has rank " + std::to_string(rank));
  }
}

bool is_finite(const Tensor& t) {
  return kernels::all_finite(broadcast_view(t, t.data<float>()), t.size(0), t.size(1), t.size(2),
                             t.size(3));
}

// Where something is hidden and holds Inf or NaN, what nobody sees becomes 0: it must not reach the
// projections of either side, nor that of a predicted centre, and their gradients. Rows that some
// query sees stay as they are; so do those that no projection reads, since kernels skip what is
// hidden. Returns whether the queries changed.
bool hide_unseen(const LoweredMask& mask, const Sizes& n, const Sides& sides, Tensor& q,
                 Tensor& k) {
  if (!mask.hides()) return false;
  const bool in_q = (sides.queries || mask.center) && !is_finite(q);
  const bool in_k = sides.keys && !is_finite(k);
  if (!in_q && !in_k) return false;
  const Visible seen = visible(mask, n);
  const Tensor zero = Tensor::scalar(0.0f);
  if (in_k) k = where(seen.keys, k, zero);
  if (in_q) q = where(seen.queries, q, zero);
  return in_q;
}

// Queries and keys as the score's form reads them, and the kernels on them. What is lowered already
// stays so.
Tensor lower_and_run(AttendedState& s, Tensor q, const Keys& keys, const Tensor& v,
                     bool keep_weights) {
  const ScoreDef& def = def_of(s.attention.score);
  const Tensors& parameters = s.attention.score.parameters;
  const Sides sides =
      keys.lowered ? Sides{.queries = def.queries && !def.either} : lowered_sides(def, s.n);
  Tensor k = with_rank_4(keys.lowered ? keys.lowered : keys.given);
  s.context = empty_in_order_of(q, {s.n.B, s.n.H, s.n.Lq, s.n.Dv});
  // A centre predicted from a query that sees nothing must not be NaN either: its gradient is
  // 0·centre′.
  if (hide_unseen(s.mask, s.n, sides, q, k) && s.mask.center) {
    s.mask.center = lower_mask(s.attention, s.n, q).center;
  }
  if (sides.queries) q = def.queries(q, parameters);
  if (sides.keys) k = def.keys(k, parameters);
  s.problem.finite = keys.finite;
  attend_by_kernels(s, {q, k}, v, keep_weights);
  return s.context;
}

}  // namespace

Attended attend(const Tensor& q, const Tensor& k, const Tensor& v, const Attention& attention,
                const Want& want) {
  return attend_to(q, {.given = k}, v, attention, want);
}

Attended attend_to(const Tensor& q_in, const Keys& keys, const Tensor& v_in,
                   const Attention& attention, const Want& want) {
  check_tensor("q", q_in, q_in ? q_in.rank() : 0);
  check_tensor("k", keys.given, q_in.rank());
  check_tensor("v", v_in, q_in.rank());
  const Tensor q = with_rank_4(q_in), k = with_rank_4(keys.given), v = with_rank_4(v_in);
  const Sizes n = sizes_of(q, k, v);
  check_attention("attend", attention, n);

  auto state = std::make_shared<AttendedState>();
  state->n = n;
  state->rank = q_in.rank();
  state->attention = attention;
  const Plan asked = want.plan == Plan::automatic ? usual_plan() : want.plan;
  state->plan = choose_plan(request_for(attention, n), asked);
  state->mask = lower_mask(attention, n, q);
  const Tensor context = state->plan == Plan::reference
                             ? attend_by_reference(*state, q, k, v)
                             : lower_and_run(*state, q, keys, v, want.weights);
  for (const Tensor& t : state->on_tape) {
    if (t) state->saved.emplace_back(t);
  }
  if (state->mask.allowed) state->saved.emplace_back(state->mask.allowed);
  if (state->mask.conditions) {
    for (const Conditions::Asked& one : state->mask.conditions->terms)
      for (const auto& [name, t] : one.term.parameters) state->saved.emplace_back(t);
  }
  state->results.emplace_back(context);
  Attended out;
  out.context = state->shaped(record_output(state, "attend", context, &Upstream::context));
  out.state = std::move(state);
  return out;
}

Grads attend_backward(const AttendedState& s, const char* op, const Upstream& up) {
  s.check_unchanged(op);
  for (const Saved& result : s.results) result.get(op);
  return s.plan == Plan::reference ? backward_by_reference(s, up) : backward_by_kernels(s, up);
}

// Outputs are detached before they go on the tape: the state keeps some of them, and a node that
// keeps the state must not be kept by it.
Tensor record_output(const std::shared_ptr<const AttendedState>& s, const char* op,
                     const Tensor& output, Tensor Upstream::*of) {
  return record(op, s->on_tape, output.detach(), [s, op, of](const Tensor& d) {
    Upstream up;
    up.*of = d;
    return attend_backward(*s, op, up);
  });
}

}  // namespace fovea
