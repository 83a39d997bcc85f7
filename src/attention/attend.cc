#include "fovea/attention.h"

#include <algorithm>

#include "attention/check.h"
#include "attention/layout.h"
#include "attention/lower.h"
#include "attention/plan.h"
#include "attention/state.h"
#include "fovea/ops.h"
#include "tensor/impl.h"

// attend(), forward: check, choose a plan, lower mask, queries and keys, run it (by_kernels.cc:
// fused, linear and composed; by_reference.cc), or take what it computed before; and backward. What
// the result may be asked for afterwards is in attended.cc.
namespace fovea {

LoweredMask on_cpu(LoweredMask mask) {
  if (mask.allowed) mask.allowed = mask.allowed.detach().to(Device::cpu);
  if (mask.bias) mask.bias = mask.bias.detach().to(Device::cpu);
  return mask;
}

namespace {

bool is_finite(const Tensor& t) {
  return on(t).all_finite(broadcast_view<const float>(t, raw(t)), t.size(0), t.size(1), t.size(2),
                          t.size(3));
}

// Which of the inputs are made float32 before all else, where they are not. The fused kernels of
// the CPU read the rest in 16 bits: values, and queries and keys of dot products as they are. What
// devices do not take in bf16 came here as floats (attend_to()).
struct Widened {
  bool q = true, k = true, v = true;
};

Widened widened(const AttendedState& s) {
  if (s.computed != Device::cpu) return {.q = !s.in_bf16, .k = !s.in_bf16, .v = !s.in_bf16};
  if (s.plan != Plan::fused) return {};
  const ScoreDef& def = def_of(s.attention.score);
  if (def.form != Form::dot) return {.v = false};
  const Sides sides = lowered_sides(def, s.n);
  const auto center = [](const MaskTerm& term) { return term.def->center != nullptr; };
  const auto& terms = s.attention.mask.terms;
  return {sides.queries || std::any_of(terms.begin(), terms.end(), center), sides.keys, false};
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
  const Visible seen = visible(on_cpu(mask), n);
  const Tensor zero = Tensor::scalar(0.0f);
  if (in_k) k = where(seen.keys, k, zero);
  if (in_q) q = where(seen.queries, q, zero);
  return in_q;
}

// Queries and keys as the score's form reads them, for the kernels. What is lowered already stays
// so.
void lower(AttendedState& s, Tensor q, const Keys& keys, const Tensor& v) {
  const ScoreDef& def = def_of(s.attention.score);
  const Tensors& parameters = s.attention.score.parameters;
  const Sides sides =
      keys.lowered ? Sides{.queries = def.queries && !def.either} : lowered_sides(def, s.n);
  Tensor k = with_rank_4(keys.lowered ? keys.lowered : keys.given);
  // A centre predicted from a query that sees nothing must not be NaN either: its gradient is
  // 0·centre′.
  if (hide_unseen(s.mask, s.n, sides, q, k) && s.mask.center) {
    s.mask.center = lower_mask(s.attention, s.n, q).center;
  }
  if (sides.queries) q = def.queries(q, parameters);
  if (sides.keys) k = def.keys(k, parameters);
  s.problem.finite = keys.finite;
  take_inputs(s, {q, k}, v);
}

// Who computes the call: the device that has the inputs, or the CPU in its place.
enum class ComputedBy : uint8_t { device, device_in_bf16, host };
ComputedBy computed_by(const Tensor& q, const Keys& keys, const Tensor& v,
                       const Attention& attention, Plan asked) {
  const Device device = q.device();
  if (device == Device::cpu) return ComputedBy::device;
  const Sizes n = sizes_of(with_rank_4(q), with_rank_4(keys.given), with_rank_4(v));
  check_attention("attend", attention, n);
  const Plan plan = choose_plan(request_for(attention, n, device),
                                asked == Plan::automatic ? usual_plan() : asked);
  const bool narrow = computes_in(device, DType::bf16) && !keys.lowered && is_bf16(q) &&
                      is_bf16(keys.given) && is_bf16(v);
  if (narrow && device_can_in_bf16(device, plan, attention, n)) return ComputedBy::device_in_bf16;
  return device_can(device, plan, attention, n) ? ComputedBy::device : ComputedBy::host;
}

// A call that is ready to run, and its inputs in rank 4.
struct PreparedCall {
  std::shared_ptr<AttendedState> state;
  Tensor q, k, v;
};

PreparedCall prepared(const Tensor& q, const Keys& keys, const Tensor& v,
                      const Attention& attention, Plan asked, ComputedBy by = ComputedBy::device) {
  PreparedCall x{std::make_shared<AttendedState>(), with_rank_4(q), with_rank_4(keys.given),
                 with_rank_4(v)};
  AttendedState& s = *x.state;
  s.n = sizes_of(x.q, x.k, x.v);
  check_attention("attend", attention, s.n);
  s.rank = q.rank();
  s.attention = attention;
  s.device = s.computed = q.device();
  s.in_bf16 = by == ComputedBy::device_in_bf16;
  s.plan = choose_plan(request_for(attention, s.n, s.device),
                       asked == Plan::automatic ? usual_plan() : asked);
  const Widened wide = widened(s);
  if (wide.q) x.q = x.q.to(DType::f32);
  if (wide.k) x.k = x.k.to(DType::f32);
  if (wide.v) x.v = x.v.to(DType::f32);
  s.mask = lower_mask(attention, s.n, x.q);
  if (s.mask.allowed) s.saved.emplace_back(s.mask.allowed);
  if (s.plan != Plan::reference) lower(s, x.q, {x.k, keys.lowered, keys.finite}, x.v);
  return x;
}

// What has run, as its caller gets it.
Attended finished(std::shared_ptr<AttendedState> s, const Tensor& context) {
  for (const Tensor& t : s->on_tape) {
    if (t) s->saved.emplace_back(t);
  }
  if (s->mask.conditions) {
    for (const Conditions::Term& one : s->mask.conditions->terms)
      for (const auto& [name, t] : one.term.parameters) s->saved.emplace_back(t);
  }
  s->results.emplace_back(context);
  Attended out;
  out.context = s->shaped(record_output(s, "attend", context, &Upstream::context));
  out.state = std::move(s);
  return out;
}

Attended by_reference(PreparedCall x) {
  const Tensor context = attend_by_reference(*x.state, x.q, x.k, x.v);
  return finished(std::move(x.state), context);
}

// A result in the shape that its caller sees, as [B,H,Lq,..].
Tensor taken(const char* name, const Tensor& t, DType dtype, const AttendedState& s, Shape shape) {
  const Shape seen = s.shaped(shape);
  if (!t || t.dtype() != dtype || t.shape() != seen) {
    throw Error("attended", std::string(name) + " is " + (t ? to_string(t.shape()) : "undefined") +
                                (t ? std::string(" ") + name_of(t.dtype()) : "") + ", expected " +
                                to_string(seen) + " " + name_of(dtype));
  }
  return (dtype == DType::f32 ? t.detach().to(s.computed) : t.detach()).reshape(shape);
}

void take_computed(AttendedState& s, const Computed& c) {
  const Sizes& n = s.n;
  s.context = taken("context", c.context, DType::f32, s, {n.B, n.H, n.Lq, n.Dv});
  s.stat = taken("stat", c.stat, DType::f32, s, {n.B, n.H, n.Lq}).contiguous();
  if (!def_of(s.attention.weighting).hard) return;
  std::vector<int32_t> chosen;
  for (const int64_t key : taken("chosen", c.chosen, DType::i64, s, {n.B, n.H, n.Lq}).to_ids()) {
    if (key < -1 || key >= n.Lk) {
      throw Error("attended", "chosen has key " + std::to_string(key) +
                                  ", expected -1 to Lk-1=" + std::to_string(n.Lk - 1));
    }
    chosen.push_back(static_cast<int32_t>(key));
  }
  keep_chosen(s, chosen);
}

}  // namespace

Attended attend(const Tensor& q, const Tensor& k, const Tensor& v, const Attention& attention,
                const Want& want) {
  return attend_to(q, {.given = k}, v, attention, want);
}

Attended attend_to(const Tensor& q, const Keys& keys, const Tensor& v, const Attention& attention,
                   const Want& want) {
  check_inputs(q, keys.given, v);
  const DefaultDevice here(q.device());
  const ComputedBy by = computed_by(q, keys, v, attention, want.plan);
  if (by != ComputedBy::device_in_bf16 && is_bf16(q) && computes_in(q.device(), DType::bf16)) {
    const auto wide = [](const Tensor& t) { return t.to(DType::f32); };
    Attended out =
        attend_to(wide(q), {wide(keys.given), keys.lowered, keys.finite}, wide(v), attention, want);
    out.context = out.context.to(DType::bf16);
    return out;
  }
  if (by == ComputedBy::host) return attend_through_host({q, keys.given, v, attention}, want);
  PreparedCall x = prepared(q, keys, v, attention, want.plan, by);
  AttendedState& s = *x.state;
  if (s.plan == Plan::reference) return by_reference(std::move(x));
  if (s.in_bf16) {
    s.in_floats = [=, given = keys.given] {
      const auto wide = [](const Tensor& t) { return t.to(DType::f32); };
      return attend_to(wide(q), {.given = wide(given)}, wide(v), attention, want);
    };
  }
  s.context =
      empty_in_order_of(x.q, {s.n.B, s.n.H, s.n.Lq, s.n.Dv}, s.in_bf16 ? DType::bf16 : DType::f32);
  attend_by_kernels(s, want.weights);
  return finished(std::move(x.state), s.context);
}

Attended attended(const Tensor& q, const Tensor& k, const Tensor& v, const Attention& attention,
                  const Computed& computed, const Want& want) {
  check_inputs(q, k, v);
  const bool narrow = q.device() != Device::cpu && is_bf16(q);
  if (narrow || computed_by(q, {.given = k}, v, attention, want.plan) == ComputedBy::host) {
    const auto here = [](const Tensor& t) { return t ? t.to(Device::cpu) : t; };
    const Computed brought{here(computed.context), here(computed.stat), computed.chosen};
    return through_host({q, k, v, attention}, [&](const HostCall& x) {
      return attended(x.q, x.k, x.v, x.attention, brought, want);
    });
  }
  const DefaultDevice here(q.device());
  PreparedCall x = prepared(q, {.given = k}, v, attention, want.plan);
  AttendedState& s = *x.state;
  if (s.plan == Plan::reference) return by_reference(std::move(x));
  take_computed(s, computed);
  return finished(std::move(x.state), s.context);
}

Grads attend_backward(const AttendedState& s, const char* op, const Upstream& up) {
  const DefaultDevice here(s.computed);
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
