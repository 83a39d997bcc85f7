#include "attention/reference.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "attention/check.h"
#include "core/random.h"

namespace fovea {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

ScalarParameter<double> scalars(const Tensor& t) {
  const std::vector<float> x = t.to_vector();
  return {.shape = t.shape(), .data = {x.begin(), x.end()}};
}

ScalarParameters<double> scalars(const Tensors& parameters) {
  ScalarParameters<double> out;
  for (const auto& [name, t] : parameters)
    if (t.dtype() == DType::f32) out[name] = scalars(t);
  return out;
}

// The element at `index` of what broadcasts to the index's rank.
template <class T>
const T& at(const ScalarParameter<T>& x, std::initializer_list<int64_t> index) {
  const int64_t* i = index.begin() + (index.size() - x.shape.size());
  int64_t offset = 0;
  for (const int64_t size : x.shape) {
    offset = offset * size + (size == 1 ? 0 : *i);
    ++i;
  }
  return x.data[offset];
}

// Row r of x [..., L, D] seen as [rows, D].
template <class T>
std::span<const T> row_of(const ScalarParameter<T>& x, int64_t r) {
  const int64_t D = x.shape.back();
  return std::span<const T>(x.data).subspan(r * D, D);
}

// Which row of which head.
struct Place {
  int64_t b, h, i;
};

// The weighting's formula, and what holds for all whose weights sum to 1: a row that has no weights
// is NaN in all that it sees, its gradients too.
template <class T>
void weigh_row(const WeightingDef& def, const Row<T>& row) {
  def.reference(row);
  if (!def.normalised || has_weights(row.scores)) return;
  for (T& w : row.weights) w *= std::numeric_limits<double>::quiet_NaN();
}

// What the weighting makes of one row of n permitted keys.
template <class T>
struct Weighed {
  std::vector<T> weights;  // [n]
  T log_sum_exp = -kInfinity, entropy = 0, log_prob = 0;
  int64_t chosen = -1;  // an index among the n
};

class Reference {
 public:
  explicit Reference(const ReferenceInputs& in)
      : attention_(in.attention),
        n_(in.n),
        context_(mask_context(in.attention.mask, in.n)),
        score_(def_of(in.attention.score)),
        weighting_(def_of(in.attention.weighting)),
        scale_(scale_of(in.attention.score, in.n)) {
    if (context_.lengths) lengths_ = context_.lengths.to_ids();
  }

  const Sizes& n() const { return n_; }
  bool hard() const { return weighting_.hard; }
  int64_t row(const Place& p) const { return (p.b * n_.H + p.h) * n_.Lq + p.i; }
  int64_t key_row(const Place& p, int64_t j) const {
    return (p.b * n_.Hk + p.h / (n_.H / n_.Hk)) * n_.Lk + j;
  }

  // cap(scale · score(q_i, k_j))
  template <class T>
  T raw_score(const ReferenceValues<T>& x, const Place& p, int64_t j) const {
    const T s = scale_ * score_.reference(Pair<T>{.q = row_of(x.q, row(p)),
                                                  .k = row_of(x.k, key_row(p, j)),
                                                  .h = p.h,
                                                  .j = j,
                                                  .p = x.score});
    if (!attention_.score.softcap) return s;
    const double c = *attention_.score.softcap;
    return c * tanh(s / c);
  }

  // What is added to it.
  template <class T>
  T bias(const ReferenceValues<T>& x, const Place& p, int64_t j) const {
    T s = 0;
    if (const auto& bias = attention_.score.bias)
      s += bias->relative ? at(x.bias, {p.b, p.h, j - p.i + n_.Lq - 1})
                          : at(x.bias, {p.b, p.h, p.i, j});
    for (size_t t = 0; t < x.mask.size(); ++t) {
      const MaskTerm& term = attention_.mask.terms[t];
      if (term.def->bias && term.def->bias(term))
        s += at(x.mask[t].begin()->second, {p.b, p.h, p.i, j});
    }
    return s;
  }

  // Scores over the temperature are floats, and infinite beyond them; a bias makes −inf only of
  // itself, and forbids whatever the score is.
  double score(const ReferenceValues<double>& x, const Place& p, int64_t j) const {
    const double T = attention_.weighting.temperature, added = bias(x, p, j);
    if (added == -kInfinity) return added;
    const double raw = raw_score(x, p, j), s = raw + added;
    if (std::isinf(static_cast<float>(raw / T))) return static_cast<float>(raw / T);
    return static_cast<float>(s / T) == kInfinity ? kInfinity : s;
  }
  Var score(const ReferenceValues<Var>& x, const Place& p, int64_t j) const {
    return raw_score(x, p, j) + bias(x, p, j);
  }

  // The predicted centres, one for each mask term that has one.
  template <class T>
  std::vector<T> centers(const ReferenceValues<T>& x, const Place& p) const {
    const double length = static_cast<double>(lengths_.empty() ? n_.Lk : lengths_[p.b]);
    std::vector<T> centers;
    for (size_t t = 0; t < x.mask.size(); ++t) {
      const MaskDef& def = *attention_.mask.terms[t].def;
      if (def.center)
        centers.push_back(def.center_reference(
            CenterArgs<T>{.q = row_of(x.q, row(p)), .length = length, .p = x.mask[t]}));
    }
    return centers;
  }

  std::vector<int64_t> permitted(const Place& p, std::span<const double> centers) const {
    KeyRange range{0, n_.Lk};
    for (const MaskTerm& term : attention_.mask.terms) {
      if (!term.def->range || term.def->allows) continue;
      const KeyRange r = term.def->range(term, context_, p.b, p.i);
      range = {std::max(range.begin, r.begin), std::min(range.end, r.end)};
    }
    std::vector<int64_t> keys;
    for (int64_t j = range.begin; j < range.end; ++j)
      if (allows(p, centers, j)) keys.push_back(j);
    return keys;
  }

  template <class T>
  const T* sink(const ReferenceValues<T>& x, const Place& p) const {  // null: none
    return x.sink.present() ? &x.sink.data[p.h] : nullptr;
  }

  template <class T>
  Weighed<T> weigh(const Place& p, std::span<const int64_t> keys, std::span<const T> scores,
                   std::span<const T> centers, const T* sink) const {
    Weighed<T> out;
    std::vector<T> s;
    for (size_t j = 0; j < keys.size(); ++j)
      s.push_back(scores[j] / attention_.weighting.temperature +
                  exponent(centers, keys[j], /*renormalise=*/true));
    if (sink && !(*sink == -kInfinity)) s.push_back(*sink / attention_.weighting.temperature);
    if (s.empty()) return out;
    const std::span<const T> row(s);

    out.weights.resize(s.size());
    weigh_row(weighting_, Row<T>{.scores = row,
                                 .gumbel = gumbel(p, keys),
                                 .numbers = attention_.weighting.numbers,
                                 .weights = out.weights});
    const bool defined = !weighting_.normalised || has_weights(row);
    out.log_sum_exp = log_sum_exp(row);
    std::vector<T> probabilities = out.weights;
    if (weighting_.hard || !weighting_.normalised) softmax<T>(row, probabilities);
    for (const T& x : probabilities)
      if (!(x <= 0)) out.entropy -= x * log(x);
    if (weighting_.hard) out.log_prob = out.log_sum_exp;  // NaN, unless
    if (weighting_.hard && defined) {
      out.chosen = index_of_max(values_of<T>(out.weights));
      out.log_prob = s[out.chosen] - out.log_sum_exp;
    }
    out.weights.resize(keys.size());
    for (size_t j = 0; j < keys.size(); ++j)
      out.weights[j] *= exp(exponent(centers, keys[j], /*renormalise=*/false));
    if (defined) drop(p, keys, std::span<T>(out.weights));
    return out;
  }

  // Σ_j w_j v_jd over the permitted keys, for one d; a weight of 0 leaves its value unread.
  template <class T>
  T context(const ReferenceValues<T>& x, const Place& p, std::span<const int64_t> keys,
            const std::vector<T>& weights, int64_t d) const {
    std::vector<T> column;
    for (size_t j = 0; j < keys.size(); ++j) {
      const T& v = x.v.data[key_row(p, keys[j]) * n_.Dv + d];
      column.push_back(weights[j] == 0 && !std::isfinite(value_of(v)) ? T(0) : v);
    }
    return dot(weights, column);
  }

 private:
  bool allows(const Place& p, std::span<const double> centers, int64_t j) const {
    size_t c = 0;
    for (const MaskTerm& term : attention_.mask.terms) {
      if (term.def->allows && !term.def->allows(term, context_, p.b, p.h, p.i, j)) return false;
      if (term.def->center && std::abs(j - centers[c++]) > term.numbers[0]) return false;
    }
    return true;
  }

  // −(j−p)²/(2σ²), σ = W/2, summed over the predicted windows of one kind.
  template <class T>
  T exponent(std::span<const T> centers, int64_t j, bool renormalise) const {
    T sum = 0;
    size_t c = 0;
    for (const MaskTerm& term : attention_.mask.terms) {
      if (!term.def->center) continue;
      const T off = static_cast<double>(j) - centers[c++];
      const double sigma = term.numbers[0] / 2;
      if (term.renormalise == renormalise) sum -= off * off / (2 * sigma * sigma);
    }
    return sum;
  }

  std::vector<double> gumbel(const Place& p, std::span<const int64_t> keys) const {
    std::vector<double> noise;
    if (!weighting_.hard) return noise;
    const RandomKey key = random_key(attention_.weighting.seed, Purpose::gumbel, p.b, p.h, p.i);
    for (const int64_t j : keys)
      noise.push_back(-std::log(-std::log1p(-unit_open(bits32(key, j)))));
    return noise;
  }

  template <class T>
  void drop(const Place& p, std::span<const int64_t> keys, std::span<T> weights) const {
    const double rate = attention_.weighting.dropout;
    if (rate == 0) return;
    const auto least = static_cast<uint32_t>(std::floor(rate * 0x1p32));
    const RandomKey key =
        random_key(attention_.weighting.seed, Purpose::weight_dropout, p.b, p.h, p.i);
    for (size_t j = 0; j < keys.size(); ++j)
      weights[j] = bits32(key, keys[j]) >= least ? weights[j] / (1 - rate) : T(0);
  }

  const Attention& attention_;
  const Sizes& n_;
  MaskContext context_;
  const ScoreDef& score_;
  const WeightingDef& weighting_;
  double scale_;
  std::vector<int64_t> lengths_;  // [B], where the mask has them
};

// One row's permitted keys and what leads to their weights.
struct ScoredRow {
  std::vector<double> centers;
  std::vector<int64_t> keys;
  std::vector<double> scores;  // before the temperature
};

ScoredRow score_row(const Reference& r, const ReferenceValues<double>& x, const Place& p) {
  ScoredRow row{.centers = r.centers(x, p)};
  for (const int64_t j : r.permitted(p, row.centers)) {
    const double s = r.score(x, p, j);
    if (s == -kInfinity) continue;
    row.keys.push_back(j);
    row.scores.push_back(s);
  }
  return row;
}

template <class F>
void each_row(const Sizes& n, F f) {
  for (int64_t b = 0; b < n.B; ++b)
    for (int64_t h = 0; h < n.H; ++h)
      for (int64_t i = 0; i < n.Lq; ++i) f(Place{b, h, i});
}

ReferenceValues<Var> leaves(const ReferenceValues<double>& x, VarScope& scope) {
  ReferenceValues<Var> out;
  const auto leaf = [&](const ScalarParameter<double>& from, ScalarParameter<Var>& to) {
    to.shape = from.shape;
    to.data.reserve(from.data.size());
    for (const double value : from.data) to.data.push_back(scope.leaf(value));
  };
  leaf(x.q, out.q);
  leaf(x.k, out.k);
  leaf(x.v, out.v);
  leaf(x.bias, out.bias);
  leaf(x.sink, out.sink);
  for (const auto& [name, parameter] : x.score) leaf(parameter, out.score[name]);
  out.mask.resize(x.mask.size());
  for (size_t t = 0; t < x.mask.size(); ++t)
    for (const auto& [name, parameter] : x.mask[t]) leaf(parameter, out.mask[t][name]);
  return out;
}

// What one row contributes to the loss: every output times its upstream gradient.
Var row_loss(const Reference& r, const ReferenceValues<Var>& x, const Place& p,
             std::span<const int64_t> keys, const Weighed<Var>& row, const ReferenceUpstream& up) {
  const Sizes& n = r.n();
  const int64_t at = r.row(p);
  Var loss = 0;
  if (!up.context.empty())
    for (int64_t d = 0; d < n.Dv; ++d)
      loss += up.context[at * n.Dv + d] * r.context(x, p, keys, row.weights, d);
  if (!up.weights.empty())
    for (size_t j = 0; j < keys.size(); ++j)
      loss += up.weights[at * n.Lk + keys[j]] * row.weights[j];
  if (!up.log_sum_exp.empty()) loss += up.log_sum_exp[at] * row.log_sum_exp;
  if (!up.entropy.empty()) loss += up.entropy[at] * row.entropy;
  if (!up.log_prob.empty() && r.hard()) loss += up.log_prob[at] * row.log_prob;
  return loss;
}

// The chain rule in two stages, so that the tape holds a row's weights or one score, never a row of
// scores: from the loss to scores and centres, then from each of those to the inputs.
void row_backward(const Reference& r, const ReferenceValues<double>& values,
                  const ReferenceValues<Var>& x, const Place& p, const ReferenceUpstream& up) {
  const ScoredRow row = score_row(r, values, p);
  if (row.keys.empty() && !r.sink(x, p)) return;

  VarScope scope;
  std::vector<Var> scores, centers;
  for (const double s : row.scores) scores.push_back(scope.leaf(s));
  for (const double c : row.centers) centers.push_back(scope.leaf(c));
  const Weighed<Var> weighed = r.weigh<Var>(p, row.keys, scores, centers, r.sink(x, p));
  scope.reverse(row_loss(r, x, p, row.keys, weighed, up), 1);

  for (size_t j = 0; j < row.keys.size(); ++j) {
    const double d_score = scope.adjoint(scores[j]);
    if (d_score == 0) continue;
    VarScope pair;
    pair.reverse(r.score(x, p, row.keys[j]), d_score);
  }
  for (size_t c = 0; c < centers.size(); ++c) {
    const double d_center = scope.adjoint(centers[c]);
    if (d_center == 0) continue;
    VarScope predicted;
    predicted.reverse(r.centers(x, p)[c], d_center);
  }
}

void formula_forward(const void* self, int64_t n, const float* s, float* w) {
  const auto& weighting = *static_cast<const Weighting*>(self);
  const WeightingDef& def = def_of(weighting);
  if (def.rows.forward) return def.rows.forward(weighting.numbers, n, s, w);
  const std::vector<double> scores(s, s + n), noise(n, 0.0);
  std::vector<double> weights(n);
  weigh_row(
      def,
      Row<double>{
          .scores = scores, .gumbel = noise, .numbers = weighting.numbers, .weights = weights});
  std::copy(weights.begin(), weights.end(), w);
}

void formula_backward(const void* self, int64_t n, const float* s, const float* w, const float* dw,
                      float* ds) {
  const auto& weighting = *static_cast<const Weighting*>(self);
  const WeightingDef& def = def_of(weighting);
  if (def.rows.backward) return def.rows.backward(weighting.numbers, n, s, w, dw, ds);
  VarScope scope;
  const std::vector<double> noise(n, 0.0);
  std::vector<Var> scores, weights(n);
  for (int64_t j = 0; j < n; ++j) scores.push_back(scope.leaf(s[j]));
  weigh_row(
      def,
      Row<Var>{
          .scores = scores, .gumbel = noise, .numbers = weighting.numbers, .weights = weights});
  Var loss = 0;
  for (int64_t j = 0; j < n; ++j) loss += dw[j] * weights[j];
  scope.reverse(loss, 1);
  for (int64_t j = 0; j < n; ++j) ds[j] = static_cast<float>(scope.adjoint(scores[j]));
}

}  // namespace

ReferenceValues<double> reference_values(const ReferenceInputs& in) {
  check_attention("attend", in.attention, in.n);
  ReferenceValues<double> x{.q = scalars(in.q), .k = scalars(in.k), .v = scalars(in.v)};
  if (const auto& bias = in.attention.score.bias) x.bias = scalars(bias->table);
  if (const Tensor sink = sink_of(in.attention.weighting)) x.sink = scalars(sink);
  x.score = scalars(in.attention.score.parameters);
  for (const MaskTerm& term : in.attention.mask.terms) x.mask.push_back(scalars(term.parameters));
  return x;
}

ReferenceOutput reference_forward(const ReferenceInputs& in, const ReferenceValues<double>& x) {
  const Reference r(in);
  const Sizes& n = in.n;
  ReferenceOutput out;
  out.context.assign(n.B * n.H * n.Lq * n.Dv, 0.0);
  if (in.weights) out.weights.assign(n.B * n.H * n.Lq * n.Lk, 0.0);
  each_row(n, [&](const Place& p) {
    const ScoredRow row = score_row(r, x, p);
    const Weighed<double> w = r.weigh<double>(p, row.keys, row.scores, row.centers, r.sink(x, p));
    for (int64_t d = 0; d < n.Dv; ++d)
      out.context[r.row(p) * n.Dv + d] = r.context(x, p, row.keys, w.weights, d);
    if (in.weights)
      for (size_t j = 0; j < row.keys.size(); ++j)
        out.weights[r.row(p) * n.Lk + row.keys[j]] = w.weights[j];
    out.log_sum_exp.push_back(w.log_sum_exp);
    out.entropy.push_back(w.entropy);
    if (!r.hard()) return;
    out.chosen.push_back(w.chosen < 0 ? -1 : row.keys[w.chosen]);
    out.log_prob.push_back(w.log_prob);
  });
  return out;
}

ReferenceGradients reference_backward(const ReferenceInputs& in, const ReferenceValues<double>& x,
                                      const ReferenceUpstream& up) {
  VarScope scope;
  const ReferenceValues<Var> inputs = leaves(x, scope);
  const Reference r(in);
  each_row(in.n, [&](const Place& p) { row_backward(r, x, inputs, p, up); });
  ReferenceGradients gradients;
  each_value(inputs, [&](const std::string& name, const ScalarParameter<Var>& parameter) {
    std::vector<double>& gradient = gradients[name];
    for (const Var& leaf : parameter.data) gradient.push_back(scope.adjoint(leaf));
  });
  return gradients;
}

ReferenceOutput reference_forward(const ReferenceInputs& in) {
  return reference_forward(in, reference_values(in));
}

ReferenceGradients reference_backward(const ReferenceInputs& in, const ReferenceUpstream& up) {
  return reference_backward(in, reference_values(in), up);
}

kernels::RowFormula row_formula(const Weighting& w) {
  return {.normalised = def_of(w).normalised,
          .forward = formula_forward,
          .backward = formula_backward,
          .self = &w};
}

}  // namespace fovea
