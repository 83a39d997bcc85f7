#include <algorithm>
#include <cmath>
#include <limits>

#include "attention/check.h"
#include "attention/layout.h"
#include "attention/state.h"
#include "fovea/ops.h"
#include "tensor/bytes.h"
#include "tensor/impl.h"

// The plans that run kernels: a problem is filled in once, and serves the forward pass, the
// backward pass and every look inside.
namespace fovea {
namespace {

using kernels::AttentionProblem;
using kernels::View;

constexpr float kInf = std::numeric_limits<float>::infinity();

View<const float> view(const Tensor& t) { return broadcast_view<const float>(t, raw(t)); }

// Where the kernels read a tensor: as floats, or in 16 bits.
void take(const Tensor& t, View<const float>& floats, kernels::HalfView& halves) {
  if (t.dtype() == DType::f32) {
    floats = view(t);
    return;
  }
  const auto* data = reinterpret_cast<const uint16_t*>(bytes_of(t));
  halves = {broadcast_view(t, data), number_of(t.dtype())};
}

View<float> out_view(const Tensor& t) { return broadcast_view(t, raw(t)); }

// The same of what is written: as floats, or in 16 bits.
void give(const Tensor& t, View<float>& floats, View<uint16_t>& halves) {
  if (t.dtype() == DType::f32) {
    floats = out_view(t);
  } else {
    halves = broadcast_view(t, reinterpret_cast<uint16_t*>(bytes_of(t)));
  }
}
// And of what was, and is read again.
void take_again(const Tensor& t, View<const float>& floats, View<const uint16_t>& halves) {
  kernels::HalfView typed;
  take(t, floats, typed);
  halves = typed;
}

void take_score(AttendedState& s, const LoweredRows& rows) {
  AttentionProblem& p = s.problem;
  const ScoreDef& def = def_of(s.attention.score);
  p.scale = scale_of(s.attention.score, s.n);
  p.softcap = s.attention.score.softcap.value_or(0.0f);
  s.inputs.q = rows.q;
  s.inputs.k = rows.k;
  if (s.plan == Plan::composed) {
    p.family = kernels::Family::given;
    s.pair = pair_score(s.attention.score);
    s.inputs.q = rows.q.contiguous();
    s.inputs.k = rows.k.contiguous();
    return;
  }
  p.D = rows.q.size(3);
  take(rows.q, p.q, p.q16);
  take(rows.k, p.k, p.k16);
  if (def.form == Form::additive) {
    p.family = kernels::Family::additive;
    s.inputs.u = def.u(s.attention.score.parameters).contiguous();
    expect_together("attend", {&rows.q, &s.inputs.u});
    p.u = raw(s.inputs.u);
  }
}

struct RangeRows {
  const int32_t *begin, *end;
};

// The mask's ranges, where the device reads them.
RangeRows ranges_where_read(AttendedState& s) {
  const LoweredMask& m = s.mask;
  if (s.computed == Device::cpu) return {m.begin.data(), m.end.data()};
  const size_t n = m.begin.size(), bytes = n * sizeof(int32_t);
  std::vector<int32_t> both = m.begin;
  both.insert(both.end(), m.end.begin(), m.end.end());
  s.ranges = kernels::allocate_on(s.computed, 2 * bytes);
  kernels::on(s.computed).upload(s.ranges.get(), both.data(), 2 * bytes);
  const auto* begin = static_cast<const int32_t*>(s.ranges.get());
  return {begin, begin + n};
}

// Its conditions likewise.
const kernels::Condition* conditions_where_read(AttendedState& s) {
  const Conditions& all = *s.mask.conditions;
  if (s.computed == Device::cpu) return all.list.data();
  std::vector<kernels::Condition> list;
  for (const Conditions::Term& one : all.terms) {
    list.push_back(condition_on(s.computed, one, s.of_conditions));
  }
  const size_t bytes = list.size() * sizeof(kernels::Condition);
  s.conditions = kernels::allocate_on(s.computed, bytes);
  kernels::on(s.computed).upload(s.conditions.get(), list.data(), bytes);
  return static_cast<const kernels::Condition*>(s.conditions.get());
}

void take_mask(AttendedState& s) {
  AttentionProblem& p = s.problem;
  const LoweredMask& m = s.mask;
  if (s.plan == Plan::composed) s.mask_here = on_cpu(m);
  if (!m.begin.empty()) {
    const RangeRows at = ranges_where_read(s);
    p.begin = {at.begin, m.stride_b, m.stride_h, 1, 0};
    p.end = {at.end, m.stride_b, m.stride_h, 1, 0};
  }
  if (m.allowed) {
    s.mask.allowed = m.allowed.to(s.computed);
    p.allowed = broadcast_view<const uint8_t>(m.allowed, raw_bools(m.allowed));
  }
  if (m.conditions) {
    p.conditions = conditions_where_read(s);
    p.n_conditions = static_cast<int64_t>(m.conditions->list.size());
  }
  if (m.bias) {
    expect_together("attend", {&s.inputs.q, &m.bias});
    s.inputs.bias = m.bias;
    p.bias = bias_view<const float>(m, m.bias, raw(m.bias), s.n);
  }
  if (m.center) {
    s.inputs.center = m.center;
    p.center = {raw(m.center), s.n.H * s.n.Lq, s.n.Lq, 1, 0};
    p.sigma = m.sigma;
    p.renormalise = m.renormalise;
  }
}

void take_weighting(AttendedState& s) {
  AttentionProblem& p = s.problem;
  const Weighting& w = s.attention.weighting;
  const WeightingDef& def = def_of(w);
  p.weigh = def.kind;
  p.temperature = w.temperature;
  p.dropout = w.dropout;
  p.seed = w.seed;
  if (def.kind == WeightingKind::formula) p.formula = row_formula(w);
  if (const Tensor sink = sink_of(w)) {
    s.inputs.sink = sink.contiguous();
    expect_together("attend", {&s.inputs.q, &s.inputs.sink});
    p.sink = raw(s.inputs.sink);
  }
}

// Where the kernels find chosen keys; null: none are.
int32_t* chosen_of(const AttendedState& s) {
  if (s.chosen_there) return static_cast<int32_t*>(s.chosen_there.get());
  return const_cast<int32_t*>(s.chosen.data());
}

bool empty(const Sizes& n) { return n.B == 0 || n.H == 0 || n.Lq == 0 || n.Lk == 0; }

// The same call with softmax probabilities and no values: what log-sum-exp, entropy and
// log-probabilities are defined on, whatever the weighting.
AttentionProblem probabilities(const AttentionProblem& p) {
  AttentionProblem soft = p;
  soft.weigh = kernels::Weigh::softmax;
  soft.dropout = 0.0f;
  soft.Dv = 0;
  soft.v = {};
  soft.v16 = {};
  if (!p.renormalise) soft.center = {};
  return soft;
}

// ---- parts -------------------------------------------------------------------------------------

template <class T>
View<T> from(View<T> v, int64_t b, int64_t h, int64_t i) {
  if (v) v.data = v.row(b, h, i);
  return v;
}

template <class T>
T* from(T* rows, int64_t row) {
  return rows ? rows + row : nullptr;
}

int64_t first_row(const PairsPart& x, const Sizes& n) { return (x.b * n.H + x.h) * n.Lq + x.i; }

// The part's rows of a problem, with its scores.
AttentionProblem part_of(AttentionProblem p, const PairsPart& x, const Tensor& scores) {
  const int64_t group = p.group(), hk = x.h / group;
  p.B = x.B, p.H = x.H, p.Hk = std::max<int64_t>(1, x.H / group), p.Lq = x.Lq;
  p.v = from(p.v, x.b, hk, 0);
  p.given = view(scores);
  p.begin = from(p.begin, x.b, x.h, x.i);
  p.end = from(p.end, x.b, x.h, x.i);
  p.allowed = from(p.allowed, x.b, x.h, x.i);
  p.bias = from(p.bias, x.b, x.h, x.i);
  p.center = from(p.center, x.b, x.h, x.i);
  p.sink = from(p.sink, x.h);
  p.first = {p.first.b + x.b, p.first.h + x.h, p.first.i + x.i, p.first.j};
  return p;
}

kernels::AttentionResult part_of(kernels::AttentionResult r, const PairsPart& x, const Sizes& n) {
  r.context = from(r.context, x.b, x.h, x.i);
  r.weights = from(r.weights, x.b, x.h, x.i);
  r.stat = from(r.stat, first_row(x, n));
  r.chosen = from(r.chosen, first_row(x, n));
  r.best = from(r.best, first_row(x, n));
  return r;
}

kernels::AttentionGradients part_of(kernels::AttentionGradients g, const PairsPart& x,
                                    const Sizes& n) {
  const int64_t row = first_row(x, n);
  g.context = from(g.context, x.b, x.h, x.i);
  g.d_context = from(g.d_context, x.b, x.h, x.i);
  g.d_weights = from(g.d_weights, x.b, x.h, x.i);
  g.d_stat = from(g.d_stat, row);
  g.d_log_prob = from(g.d_log_prob, row);
  g.d_entropy = from(g.d_entropy, row);
  g.entropy = from(g.entropy, row);
  g.stat = from(g.stat, row);
  g.chosen = from(g.chosen, row);
  g.dcenter = from(g.dcenter, row);
  g.dsink = from(g.dsink, row);
  if (g.dbias) {
    float* const low = g.dbias.data + g.dbias_low;
    g.dbias = from(g.dbias, x.b, x.h, x.i);
    g.dbias_low = low - g.dbias.data;
  }
  return g;
}

// f(part, problem): a call whose score the kernels compute is one part; one that they are given is
// many, each with its scores.
template <class Function>
void each_part(const AttendedState& s, const AttentionProblem& p, const Function& f) {
  if (s.plan != Plan::composed) return f(whole(s.n), p);
  for (const PairsPart& x : parts_of(s.mask, s.n)) f(x, part_of(p, x, scores_of(s, x).matrix));
}

// ---- gradients ---------------------------------------------------------------------------------

// A gradient tensor for an input that wants one: the kernels write it, or add to zeros.
Tensor wanted(const Tensor& input) {
  if (!input || !input.requires_grad()) return {};
  const bool same = computes_in(input.device(), input.dtype());
  return empty_in_order_of(input, input.shape(), same ? input.dtype() : DType::f32);
}
Tensor wanted_zeros(const Tensor& input) {
  return input && input.requires_grad() ? Tensor::zeros(input.shape()) : Tensor();
}

struct Wanted {
  Tensor q, k, v, u, bias, center;
  Tensor sink;  // [B,H,Lq]: row by row
};

kernels::AttentionGradients targets(const AttendedState& s, const Wanted& d) {
  kernels::AttentionGradients g;
  if (d.q && s.plan != Plan::composed) give(d.q, g.dq, g.dq16);
  if (d.k && s.plan != Plan::composed) give(d.k, g.dk, g.dk16);
  if (d.v) give(d.v, g.dv, g.dv16);
  if (d.u) g.du = raw(d.u);
  if (d.center) g.dcenter = raw(d.center);
  if (d.sink) g.dsink = raw(d.sink);
  if (d.bias) {
    g.dbias = bias_view(s.mask, d.bias, raw(d.bias), s.n);
    g.dbias_low = raw(d.bias) - g.dbias.data;
    g.dbias_span = d.bias.numel();
  }
  return g;
}

// The composed plan: of each part the kernels give the gradient of its scores and its share of dv,
// and a tape of its own the rest. A draw and a maximum have no gradient by their scores.
void backward_by_parts(const AttendedState& s, const AttentionProblem& p,
                       const kernels::AttentionGradients& g, PairGradients& sums) {
  const bool smooth = p.weigh != kernels::Weigh::argmax && p.weigh != kernels::Weigh::sample;
  for (const PairsPart& x : parts_of(s.mask, s.n)) {
    PartScores scores = smooth ? scores_of(s, x, sums) : scores_of(s, x);
    const AttentionProblem part = part_of(p, x, scores.matrix);
    kernels::AttentionGradients of_part = part_of(g, x, s.n);
    Tensor d_scores, dv;
    if (smooth && sums.of_scores()) {
      d_scores = Tensor::zeros(scores.matrix.shape());
      of_part.dgiven = out_view(d_scores);
    }
    if (g.dv) {
      dv = Tensor::empty({part.B, part.Hk, part.Lk, part.Dv});
      of_part.dv = out_view(dv);
    }
    kernels::on(s.computed).attention_backward(part, of_part);
    if (d_scores) add_gradients(s, d_scores, scores, sums);
    if (!dv) continue;
    const int64_t hk = x.h / s.problem.group();
    sums.v.slice(0, x.b, x.b + part.B).slice(1, hk, hk + part.Hk).add_(dv);
  }
}

}  // namespace

std::vector<int32_t> chosen_keys(const AttendedState& s) {
  if (!s.chosen_there) return s.chosen;
  std::vector<int32_t> keys(s.n.B * s.n.H * s.n.Lq);
  kernels::on(s.computed)
      .download(keys.data(), s.chosen_there.get(), keys.size() * sizeof(int32_t));
  return keys;
}

void keep_chosen(AttendedState& s, const std::vector<int32_t>& keys) {
  s.chosen = keys;
  if (s.computed == Device::cpu || keys.empty()) return;
  const size_t bytes = keys.size() * sizeof(int32_t);
  s.chosen_there = kernels::allocate_on(s.computed, bytes);
  kernels::on(s.computed).upload(s.chosen_there.get(), keys.data(), bytes);
}

void take_inputs(AttendedState& s, const LoweredRows& rows, const Tensor& v) {
  const Sizes& n = s.n;
  AttentionProblem& p = s.problem;
  p.B = n.B, p.H = n.H, p.Hk = n.Hk, p.Lq = n.Lq, p.Lk = n.Lk, p.Dv = n.Dv;
  s.inputs.v = v;
  take(v, p.v, p.v16);
  take_score(s, rows);
  take_mask(s);
  take_weighting(s);
  const KernelInputs& in = s.inputs;
  s.on_tape = {in.q, in.k, in.v, in.u, in.bias, in.center, in.sink};
  for (const auto& [name, t] : s.pair.parameters) s.on_tape.push_back(t);
}

void attend_by_kernels(AttendedState& s, bool keep_weights) {
  const Sizes& n = s.n;
  const AttentionProblem& p = s.problem;
  const KernelInputs& in = s.inputs;
  const bool hard = def_of(s.attention.weighting).hard;
  if (hard) s.chosen.assign(n.B * n.H * n.Lq, -1);
  if (hard && s.computed != Device::cpu) keep_chosen(s, s.chosen);
  if (empty(n)) {
    s.context.fill_(0.0f);
    s.stat = Tensor::full({n.B, n.H, n.Lq}, -kInf);
    if (in.sink) {
      const NoGrad quiet;
      s.stat.copy_(
          (in.sink.detach() * (1.0f / p.temperature)).unsqueeze(1).expand({n.B, n.H, n.Lq}));
    }
    return;
  }
  s.stat = Tensor::empty({n.B, n.H, n.Lq});
  kernels::AttentionResult out{.stat = raw(s.stat)};
  give(s.context, out.context, out.context16);
  if (hard) out.chosen = chosen_of(s);
  if (hard && !p.whole_rows) {
    s.best.resize(s.chosen.size());
    out.best = s.best.data();
  }
  if (s.plan == Plan::linear) return kernels::linear_forward(p, out);
  if (keep_weights && s.computed == Device::cpu) {
    s.weights = Tensor::empty({n.B, n.H, n.Lq, n.Lk});
    out.weights = out_view(s.weights);
  }
  if (s.plan == Plan::fused && s.computed == Device::cpu && kernels::keeps_weights(p) &&
      needs_grad(s.on_tape)) {
    s.kept = Tensor::empty({n.B, n.H, n.Lq, kernels::kept_width(n.Lk)});
    out.kept = raw(s.kept);
  }
  each_part(s, p, [&](const PairsPart& x, const AttentionProblem& part) {
    kernels::on(s.computed).attention_forward(part, part_of(out, x, n));
  });
  // Kept in passing, the weights of a row that has none may be NaN where nothing is seen.
  const float* stat = raw(s.stat);
  const auto nan = [](float x) { return std::isnan(x); };
  if (s.weights && std::any_of(stat, stat + s.stat.numel(), nan)) s.weights = {};
}

namespace {

// Computes what is wanted: `g` says where it goes.
void run_backward(const AttendedState& s, const Upstream& up, kernels::AttentionGradients g,
                  PairGradients& pairs) {
  const auto run = [&](const AttentionProblem& p) {
    if (s.plan == Plan::composed) {
      backward_by_parts(s, p, g, pairs);
    } else if (s.plan == Plan::linear && up.context && !up.weights) {
      kernels::linear_backward(p, g);
    } else {
      kernels::on(s.computed).attention_backward(p, g);
    }
  };
  g.stat = raw(s.stat);
  g.chosen = chosen_of(s);
  if (up.context || up.weights) {
    take_again(s.context, g.context, g.context16);
    if (up.context) take_again(up.context, g.d_context, g.d_context16);
    if (up.weights) g.d_weights = view(up.weights);
    if (s.kept && !up.weights) g.kept = raw(s.kept);
    return run(s.problem);
  }
  // Functions of the probabilities alone.
  g.dv = {};
  g.dv16 = {};
  if (!s.problem.renormalise) g.dcenter = nullptr;
  const Tensor stat = log_sum_exp_by_kernels(s);
  Tensor d_stat, d_entropy, d_log_prob, entropy;
  g.stat = raw(stat);
  if (up.log_sum_exp) g.d_stat = raw(d_stat = up.log_sum_exp.contiguous());
  if (up.log_prob) g.d_log_prob = raw(d_log_prob = up.log_prob.contiguous());
  if (up.entropy) {
    g.d_entropy = raw(d_entropy = up.entropy.contiguous());
    g.entropy = raw(entropy = entropy_by_kernels(s, stat));
  }
  run(probabilities(s.problem));
}

}  // namespace

Grads backward_by_kernels(const AttendedState& s, const Upstream& up) {
  const KernelInputs& in = s.inputs;
  const Sizes& n = s.n;
  const bool none = empty(n), parts = s.plan == Plan::composed;
  auto* written =
      none || parts ? &wanted_zeros : &wanted;  // zeros: nothing is written, or added to
  Wanted d{written(in.q),
           written(in.k),
           up.context ? written(in.v) : wanted_zeros(in.v),
           written(in.u),
           wanted_zeros(in.bias),
           wanted_zeros(in.center),
           {}};
  if (in.sink && in.sink.requires_grad()) {  // of rows without keys it is the log-sum-exp
    d.sink = none && up.log_sum_exp ? up.log_sum_exp : Tensor::zeros({n.B, n.H, n.Lq});
  }
  PairGradients pairs{d.q, d.k, d.v, {}};  // the composed plan's
  Tensors of_parameters;
  for (const auto& [name, t] : s.pair.parameters) {
    of_parameters[name] = wanted_zeros(t);
    if (of_parameters[name]) pairs.parameters[name] = of_parameters[name];
  }
  if (!none) run_backward(s, up, targets(s, d), pairs);
  Grads grads{d.q, d.k, d.v, d.u, d.bias, d.center, {}};
  if (d.sink) grads.back() = sum(d.sink, {0, 2}) * (1.0f / s.problem.temperature);
  for (const auto& [name, t] : of_parameters) grads.push_back(t);
  return grads;
}

// ---- looks inside ------------------------------------------------------------------------------

namespace {

// Weights of chosen heads and rows where the scores are given: a head and rows that follow one
// another at a time.
void weights_by_parts(const AttendedState& s, const kernels::AttentionResult& done,
                      const Select& select, const View<float>& to) {
  const Sizes& n = s.n;
  const int64_t heads = select.heads.empty() ? n.H : static_cast<int64_t>(select.heads.size());
  const int64_t rows = select.rows.empty() ? n.Lq : static_cast<int64_t>(select.rows.size());
  const auto row_at = [&](int64_t r) { return select.rows.empty() ? r : select.rows[r]; };
  const int64_t most = std::max<int64_t>(1, kPartPairs / n.Lk);
  for (int64_t b = 0; b < n.B; ++b) {
    for (int64_t h = 0; h < heads; ++h) {
      for (int64_t r = 0; r < rows;) {
        int64_t m = 1;
        while (m < most && r + m < rows && row_at(r + m) == row_at(r) + m) ++m;
        const PairsPart x{b, select.heads.empty() ? h : select.heads[h], row_at(r), 1, 1, m};
        kernels::on(s.computed)
            .attention_weights(part_of(s.problem, x, scores_of(s, x).matrix), part_of(done, x, n),
                               {.n_heads = 1, .n_rows = m}, from(to, b, h, r));
        r += m;
      }
    }
  }
}

}  // namespace

Tensor weights_by_kernels(const AttendedState& s, const Select& select) {
  const Sizes& n = s.n;
  kernels::WeightsSelection pick;
  pick.heads = select.heads.empty() ? nullptr : select.heads.data();
  pick.rows = select.rows.empty() ? nullptr : select.rows.data();
  pick.n_heads = pick.heads ? static_cast<int64_t>(select.heads.size()) : n.H;
  pick.n_rows = pick.rows ? static_cast<int64_t>(select.rows.size()) : n.Lq;
  Tensor out = Tensor::zeros({n.B, pick.n_heads, pick.n_rows, n.Lk});
  if (out.numel() == 0) return out;
  const kernels::AttentionResult done{.stat = raw(s.stat), .chosen = chosen_of(s)};
  if (s.plan == Plan::composed) {
    weights_by_parts(s, done, select, out_view(out));
  } else {
    kernels::on(s.computed).attention_weights(s.problem, done, pick, out_view(out));
  }
  return out;
}

Tensor log_sum_exp_by_kernels(const AttendedState& s) {
  const kernels::Weigh weigh = s.problem.weigh;
  if (weigh == kernels::Weigh::softmax || weigh == kernels::Weigh::sample || empty(s.n))
    return s.stat;
  Tensor out = Tensor::empty({s.n.B, s.n.H, s.n.Lq});
  each_part(s, probabilities(s.problem), [&](const PairsPart& x, const AttentionProblem& p) {
    kernels::on(s.computed).attention_forward(p, {.stat = raw(out) + first_row(x, s.n)});
  });
  return out;
}

Tensor entropy_by_kernels(const AttendedState& s, const Tensor& log_sum_exp) {
  Tensor out = Tensor::zeros({s.n.B, s.n.H, s.n.Lq});
  if (empty(s.n)) return out;
  each_part(s, probabilities(s.problem), [&](const PairsPart& x, const AttentionProblem& p) {
    const int64_t row = first_row(x, s.n);
    kernels::on(s.computed).attention_entropy(p, raw(log_sum_exp) + row, raw(out) + row);
  });
  return out;
}

// log p of the chosen keys: log_weights of one key a row.
Tensor log_prob_by_kernels(const AttendedState& s, const Tensor& log_sum_exp) {
  Tensor out = Tensor::zeros({s.n.B, s.n.H, s.n.Lq});
  if (empty(s.n)) return out;
  each_part(s, probabilities(s.problem), [&](const PairsPart& x, const AttentionProblem& p) {
    const int64_t row = first_row(x, s.n);
    kernels::on(s.computed)
        .attention_log_prob(p, raw(log_sum_exp) + row, chosen_of(s) + row, raw(out) + row);
  });
  return out;
}

}  // namespace fovea
