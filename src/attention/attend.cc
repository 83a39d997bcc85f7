#include "fovea/attention.h"

#include <algorithm>

#include "attention/check.h"
#include "attention/lower.h"
#include "attention/plan.h"
#include "attention/state.h"
#include "fovea/ops.h"

// attend(): check, choose a plan, run it (by_kernels.cc: fused, linear and composed;
// by_reference.cc). What the result may be asked for afterwards is in attended.cc.
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

void check_sizes(const Tensor& q, const Tensor& k, const Tensor& v) {
  const auto differ = [](const char* a, const char* b, const char* letter, int64_t x, int64_t y) {
    if (x == y) return;
    fail(std::string(a) + " has " + letter + "=" + std::to_string(x) + ", " + b + " has " + letter +
         "=" + std::to_string(y));
  };
  differ("k", "q", "B", k.size(0), q.size(0));
  differ("v", "k", "B", v.size(0), k.size(0));
  differ("v", "k", "Hk", v.size(1), k.size(1));
  differ("v", "k", "Lk", v.size(2), k.size(2));
  const int64_t H = q.size(1), Hk = k.size(1);
  if (H != Hk && (Hk == 0 || H % Hk != 0)) {
    fail("k has Hk=" + std::to_string(Hk) + ", which does not divide q's H=" + std::to_string(H));
  }
  if (k.size(2) >= int64_t{1} << 31)
    fail("k has Lk=" + std::to_string(k.size(2)) + ", expected below 2^31");
}

bool is_finite(const Tensor& t) {
  return kernels::all_finite(broadcast_view(t, t.data<float>()), t.size(0), t.size(1), t.size(2),
                             t.size(3));
}

// Ranges alone may hide keys from some queries and yet leave each key seen and each query seeing.
bool all_seen(const LoweredMask& m, const Sizes& n) {
  if (m.allowed || m.bias || m.begin.empty()) return false;
  const int64_t rows = static_cast<int64_t>(m.begin.size());
  for (int64_t first = 0; first < rows; first += n.Lq) {
    std::vector<int32_t> change(n.Lk + 1);
    for (int64_t at = first; at < first + n.Lq; ++at) {
      if (m.begin[at] >= m.end[at]) return false;
      ++change[m.begin[at]];
      --change[m.end[at]];
    }
    int32_t seen = 0;
    for (int64_t j = 0; j < n.Lk; ++j) {
      if ((seen += change[j]) == 0) return false;
    }
  }
  return true;
}

// Where something is hidden and holds Inf or NaN, what nobody sees becomes 0: it must not reach
// projections and their gradients. Rows that some query sees stay as they are.
// Returns whether anything changed.
bool hide_unseen(const LoweredMask& mask, const Sizes& n, Tensor& q, Tensor& k, Tensor& v) {
  if (!mask.hides() || all_seen(mask, n)) return false;
  if (is_finite(q) && is_finite(k) && is_finite(v)) return false;
  const Visible seen = visible(mask, n);
  const Tensor zero = Tensor::scalar(0.0f);
  k = where(seen.keys, k, zero);
  v = where(seen.keys, v, zero);
  q = where(seen.queries, q, zero);
  return true;
}

// Whether every query sees the keys from 0 to an end that never falls.
bool is_prefix(const LoweredMask& m, int64_t Lq) {
  for (size_t at = 0; at < m.begin.size(); ++at) {
    const bool follows = at % Lq != 0;
    if (m.begin[at] != 0 || (follows && m.end[at] < m.end[at - 1])) return false;
  }
  return true;
}

PlanRequest request_for(const Attention& a, const Sizes& n, const LoweredMask& mask,
                        const Lowered& score) {
  PlanRequest r{.n = n};
  r.dot = std::holds_alternative<DotForm>(score);
  r.factored = !std::holds_alternative<PairsForm>(score);
  r.weighting = def_of(a.weighting).kind;
  r.hard = def_of(a.weighting).hard;
  r.prefix_mask = !mask.allowed && is_prefix(mask, n.Lq);
  r.bias = mask.bias.defined();
  r.dropout = a.weighting.dropout > 0.0f;
  for (const MaskTerm& term : a.mask.terms) r.predicted_windows += term.def->center != nullptr;
  return r;
}

}  // namespace

Attended attend(const Tensor& q_in, const Tensor& k_in, const Tensor& v_in,
                const Attention& attention, const Want& want) {
  check_tensor("q", q_in, q_in ? q_in.rank() : 0);
  check_tensor("k", k_in, q_in.rank());
  check_tensor("v", v_in, q_in.rank());
  Tensor q = with_rank_4(q_in), k = with_rank_4(k_in), v = with_rank_4(v_in);
  check_sizes(q, k, v);
  const Sizes n = sizes_of(q, k, v);
  check_attention("attend", attention, n);

  auto state = std::make_shared<AttendedState>();
  state->n = n;
  state->rank = q_in.rank();
  state->attention = attention;
  state->mask = lower_mask(attention, n, q);
  // A centre predicted from a query that sees nothing must not be NaN either: its gradient is
  // 0·centre′.
  if (hide_unseen(state->mask, n, q, k, v) && state->mask.center) {
    state->mask.center = lower_mask(attention, n, q).center;
  }
  const Lowered score = def_of(attention.score).lower(q, k, attention.score.parameters);
  state->plan = choose_plan(request_for(attention, n, state->mask, score), want.plan);

  const Tensor context = state->plan == Plan::reference
                             ? attend_by_reference(*state, q, k, v)
                             : attend_by_kernels(*state, score, q, k, v, want.weights);
  for (const Tensor& t : state->on_tape) {
    if (t) state->saved.emplace_back(t);
  }
  if (state->mask.allowed) state->saved.emplace_back(state->mask.allowed);
  state->results.emplace_back(context);
  Attended out;
  out.context = state->shaped(record_output(state, "attend", context, &Upstream::context));
  out.state = std::move(state);
  return out;
}

}  // namespace fovea
