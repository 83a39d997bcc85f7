#include <algorithm>

#include "attention/check.h"
#include "attention/state.h"

// The plan `reference`: the scalar formulas in double precision, on the tape.
namespace fovea {
namespace {

void add_f32(const Tensors& from, std::vector<Tensor>& to) {
  for (const auto& [name, t] : from) {
    if (t.dtype() == DType::f32) to.push_back(t);
  }
}

std::vector<double> doubles(const Tensor& t) {
  if (!t) return {};
  const std::vector<float> x = t.to_vector();
  return {x.begin(), x.end()};
}

}  // namespace

Tensor from_doubles(const std::vector<double>& x, const Shape& shape) {
  return Tensor::from(std::vector<float>(x.begin(), x.end()), shape);
}

Tensor attend_by_reference(AttendedState& s, const Tensor& q, const Tensor& k, const Tensor& v) {
  s.reference = {.q = q, .k = k, .v = v, .attention = s.attention, .n = s.n, .weights = true};
  // In the order of each_value().
  s.on_tape = {q, k, v};
  if (s.attention.score.bias) s.on_tape.push_back(s.attention.score.bias->table);
  if (const Tensor sink = sink_of(s.attention.weighting)) s.on_tape.push_back(sink);
  add_f32(s.attention.score.parameters, s.on_tape);
  for (const MaskTerm& term : s.attention.mask.terms) add_f32(term.parameters, s.on_tape);

  const ReferenceValues<double> values = reference_values(s.reference);
  each_value(values, [&](const std::string& name, const auto&) { s.names.push_back(name); });
  s.result = reference_forward(s.reference, values);
  s.chosen.assign(s.result.chosen.begin(), s.result.chosen.end());
  return from_doubles(s.result.context, {s.n.B, s.n.H, s.n.Lq, s.n.Dv});
}

Grads backward_by_reference(const AttendedState& s, const Upstream& up) {
  const ReferenceGradients d =
      reference_backward(s.reference, {.context = doubles(up.context),
                                       .weights = doubles(up.weights),
                                       .log_sum_exp = doubles(up.log_sum_exp),
                                       .entropy = doubles(up.entropy),
                                       .log_prob = doubles(up.log_prob)});
  Grads grads;
  for (size_t i = 0; i < s.on_tape.size(); ++i) {
    grads.push_back(from_doubles(d.at(s.names[i]), s.on_tape[i].shape()));
  }
  return grads;
}

}  // namespace fovea
