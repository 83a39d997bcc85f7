#include <cmath>
#include <limits>

#include "attention/check.h"
#include "attention/state.h"
#include "fovea/ops.h"
#include "tensor/impl.h"

// The plans that run kernels: a problem is filled in once, and serves the forward pass, the
// backward pass and every look inside.
namespace fovea {
namespace {

using kernels::AttentionProblem;
using kernels::View;

constexpr float kInf = std::numeric_limits<float>::infinity();

View<const float> view(const Tensor& t) { return broadcast_view(t, t.data<float>()); }
View<float> out_view(const Tensor& t) { return broadcast_view(t, raw(t)); }

void take_score(AttendedState& s, const Lowered& lowered, const Tensor& q, const Tensor& k) {
  AttentionProblem& p = s.problem;
  const float scale = scale_of(s.attention.score, s.n);
  p.scale = scale;
  if (s.plan == Plan::composed) {
    p.family = kernels::Family::given;
    s.inputs.given = composed_scores(lowered, s.mask, s.n, q, k).contiguous();
  } else if (const auto* dot = std::get_if<DotForm>(&lowered)) {
    s.inputs.q = dot->q;
    s.inputs.k = dot->k;
    p.scale = scale * dot->scale;
    p.D = dot->q.size(3);
  } else if (const auto* additive = std::get_if<AdditiveForm>(&lowered)) {
    p.family = kernels::Family::additive;
    s.inputs.q = additive->a;
    s.inputs.k = additive->kappa;
    s.inputs.u = additive->u.contiguous();
    p.D = additive->a.size(3);
  }
}

void take_mask(AttendedState& s) {
  AttentionProblem& p = s.problem;
  const LoweredMask& m = s.mask;
  if (!m.begin.empty()) {
    p.begin = {m.begin.data(), m.stride_b, m.stride_h, 1, 0};
    p.end = {m.end.data(), m.stride_b, m.stride_h, 1, 0};
  }
  if (m.allowed) p.allowed = broadcast_view(m.allowed, m.allowed.data<uint8_t>());
  if (m.bias) {
    s.inputs.bias = m.bias;
    p.bias = bias_view(m, m.bias, m.bias.data<float>(), s.n);
  }
  if (m.center) {
    s.inputs.center = m.center;
    p.center = {m.center.data<float>(), s.n.H * s.n.Lq, s.n.Lq, 1, 0};
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
  if (def.kind == WeightingKind::formula) p.formula = row_formula(def);
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
  if (!p.renormalise) soft.center = {};
  return soft;
}

// A gradient tensor for an input that wants one: the kernels write it, or add to zeros.
Tensor wanted(const Tensor& input) {
  return input && input.requires_grad() ? Tensor::empty(input.shape()) : Tensor();
}
Tensor wanted_zeros(const Tensor& input) {
  return input && input.requires_grad() ? Tensor::zeros(input.shape()) : Tensor();
}

struct Wanted {
  Tensor q, k, v, u, given, bias, center;
};

kernels::AttentionGradients targets(const AttendedState& s, const Wanted& d) {
  kernels::AttentionGradients g;
  if (d.q) g.dq = out_view(d.q);
  if (d.k) g.dk = out_view(d.k);
  if (d.v) g.dv = out_view(d.v);
  if (d.u) g.du = raw(d.u);
  if (d.given) g.dgiven = out_view(d.given);
  if (d.center) g.dcenter = raw(d.center);
  if (d.bias) {
    g.dbias = bias_view(s.mask, d.bias, raw(d.bias), s.n);
    g.dbias_low = raw(d.bias) - g.dbias.data;
    g.dbias_span = d.bias.numel();
  }
  return g;
}

}  // namespace

Tensor attend_by_kernels(AttendedState& s, const Lowered& lowered, const Tensor& q, const Tensor& k,
                         const Tensor& v, bool keep_weights) {
  const Sizes& n = s.n;
  AttentionProblem& p = s.problem;
  p.B = n.B, p.H = n.H, p.Hk = n.Hk, p.Lq = n.Lq, p.Lk = n.Lk, p.Dv = n.Dv;
  s.inputs.v = v;
  take_score(s, lowered, q, k);
  take_mask(s);
  take_weighting(s);
  const KernelInputs& in = s.inputs;
  if (in.q) p.q = view(in.q), p.k = view(in.k);
  if (in.given) p.given = view(in.given);
  if (in.u) p.u = in.u.data<float>();
  p.v = view(v);
  s.on_tape = {in.q, in.k, in.v, in.u, in.given, in.bias, in.center};

  if (empty(n)) {
    s.context = Tensor::zeros({n.B, n.H, n.Lq, n.Dv});
    s.stat = Tensor::full({n.B, n.H, n.Lq}, -kInf);
    if (def_of(s.attention.weighting).hard) s.chosen.assign(n.B * n.H * n.Lq, -1);
    return s.context;
  }
  s.context = Tensor::empty({n.B, n.H, n.Lq, n.Dv});
  s.stat = Tensor::empty({n.B, n.H, n.Lq});
  kernels::AttentionResult out{.context = out_view(s.context), .stat = raw(s.stat)};
  if (def_of(s.attention.weighting).hard) {
    s.chosen.resize(n.B * n.H * n.Lq);
    out.chosen = s.chosen.data();
  }
  if (s.plan == Plan::linear) {
    kernels::linear_forward(p, out);
    return s.context;
  }
  if (keep_weights) {
    s.weights = Tensor::empty({n.B, n.H, n.Lq, n.Lk});
    out.weights = {raw(s.weights), n.H * n.Lq * n.Lk, n.Lq * n.Lk, n.Lk, 1};
  }
  kernels::attention_forward(p, out);
  return s.context;
}

Grads backward_by_kernels(const AttendedState& s, const Upstream& up) {
  const KernelInputs& in = s.inputs;
  const bool none = empty(s.n);  // then there is nothing to write
  auto* written = none ? &wanted_zeros : &wanted;
  const Wanted d{written(in.q),
                 written(in.k),
                 up.context ? written(in.v) : wanted_zeros(in.v),
                 written(in.u),
                 wanted_zeros(in.given),
                 wanted_zeros(in.bias),
                 wanted_zeros(in.center)};
  const Grads grads{d.q, d.k, d.v, d.u, d.given, d.bias, d.center};
  if (none) return grads;
  kernels::AttentionGradients g = targets(s, d);
  Tensor d_stat, d_entropy, d_log_prob, entropy, stat = s.stat;
  g.stat = raw(s.stat);
  g.chosen = s.chosen.data();
  if (up.context || up.weights) {
    g.context = view(s.context);
    if (up.context) g.d_context = view(up.context);
    if (up.weights) g.d_weights = view(up.weights);
    if (s.plan == Plan::linear && !up.weights) {
      kernels::linear_backward(s.problem, g);
    } else {
      kernels::attention_backward(s.problem, g);
    }
    return grads;
  }
  // Functions of the probabilities alone.
  const AttentionProblem soft = probabilities(s.problem);
  g.dv = {};
  if (!s.problem.renormalise) g.dcenter = nullptr;
  stat = log_sum_exp_by_kernels(s);
  g.stat = raw(stat);
  if (up.log_sum_exp) g.d_stat = raw(d_stat = up.log_sum_exp.contiguous());
  if (up.log_prob) g.d_log_prob = raw(d_log_prob = up.log_prob.contiguous());
  if (up.entropy) {
    g.d_entropy = raw(d_entropy = up.entropy.contiguous());
    g.entropy = raw(entropy = entropy_by_kernels(s, stat));
  }
  kernels::attention_backward(soft, g);
  return grads;
}

Tensor weights_by_kernels(const AttendedState& s, const Select& select) {
  const Sizes& n = s.n;
  kernels::WeightsSelection pick;
  pick.heads = select.heads.empty() ? nullptr : select.heads.data();
  pick.rows = select.rows.empty() ? nullptr : select.rows.data();
  pick.n_heads = pick.heads ? static_cast<int64_t>(select.heads.size()) : n.H;
  pick.n_rows = pick.rows ? static_cast<int64_t>(select.rows.size()) : n.Lq;
  Tensor out = Tensor::zeros({n.B, pick.n_heads, pick.n_rows, n.Lk});
  if (out.numel() == 0) return out;
  kernels::AttentionResult done{.stat = raw(s.stat),
                                .chosen = const_cast<int32_t*>(s.chosen.data())};
  const int64_t rows = pick.n_rows * n.Lk;
  kernels::attention_weights(s.problem, done, pick, {raw(out), pick.n_heads * rows, rows, n.Lk, 1});
  return out;
}

Tensor log_sum_exp_by_kernels(const AttendedState& s) {
  const kernels::Weigh weigh = s.problem.weigh;
  if (weigh == kernels::Weigh::softmax || weigh == kernels::Weigh::sample || empty(s.n))
    return s.stat;
  Tensor out = Tensor::empty({s.n.B, s.n.H, s.n.Lq});
  kernels::attention_forward(probabilities(s.problem), {.stat = raw(out)});
  return out;
}

Tensor entropy_by_kernels(const AttendedState& s, const Tensor& log_sum_exp) {
  Tensor out = Tensor::zeros({s.n.B, s.n.H, s.n.Lq});
  if (!empty(s.n)) kernels::attention_entropy(probabilities(s.problem), raw(log_sum_exp), raw(out));
  return out;
}

// log p of the chosen keys: log_weights of one key a row.
Tensor log_prob_by_kernels(const AttendedState& s, const Tensor& log_sum_exp) {
  Tensor out = Tensor::zeros({s.n.B, s.n.H, s.n.Lq});
  if (!empty(s.n)) {
    kernels::attention_log_prob(probabilities(s.problem), raw(log_sum_exp), s.chosen.data(),
                                raw(out));
  }
  return out;
}

}  // namespace fovea
