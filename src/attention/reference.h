#pragma once

#include <map>
#include <string>
#include <vector>

#include "attention/def.h"
#include "kernels/attention/problem.h"

// Attention as the formulas say it, one row after the other: the oracle of every test, and the plan
// of last resort. For a query i of head h in batch entry b:
//
//   keys     those that every mask term allows and whose score is not −inf
//   s_j      (cap(scale · score(q_i, k_j)) + bias_ij) / temperature
//            cap(x) = c · tanh(x/c) where the score has a softcap c, or x
//            renormalising predicted windows: − (j−p)²/(2σ²), σ = W/2
//   w        weighting(s), or of s and the sink over the temperature, whose weight is dropped
//            original predicted windows: · exp(−(j−p)²/(2σ²))
//            dropout: 0 or w_j/(1−rate)
//   context  Σ_j w_j v_j
//
// No key: context 0, weights 0, no gradient, log-sum-exp −inf (or the sink), entropy 0, nothing
// chosen (−1), log-probability 0.
namespace fovea {

// Every number the result depends on, in row-major order of its own shape.
template <class T>
struct ReferenceValues {
  ScalarParameter<T> q, k, v;  // [B,H,Lq,Dq], [B,Hk,Lk,Dk], [B,Hk,Lk,Dv]
  ScalarParameter<T> bias;     // the score's
  ScalarParameter<T> sink;     // the weighting's [H]
  ScalarParameters<T> score;
  std::vector<ScalarParameters<T>> mask;  // a map a term; f32 parameters only
};

struct ReferenceInputs {
  Tensor q, k, v;  // [B,H,Lq,Dq], [B,Hk,Lk,Dk], [B,Hk,Lk,Dv]
  Attention attention;
  Sizes n{};
  bool weights = false;  // write the [B,H,Lq,Lk] weights as well
};

struct ReferenceOutput {
  std::vector<double> context;      // [B,H,Lq,Dv]
  std::vector<double> weights;      // [B,H,Lq,Lk], as they multiply the values
  std::vector<double> log_sum_exp;  // [B,H,Lq], of s whatever the weighting
  // [B,H,Lq]. Of the weighting's own probabilities where it is soft and normalised, before windows
  // and dropout; of softmax(s) otherwise.
  std::vector<double> entropy;
  std::vector<int64_t> chosen;   // [B,H,Lq]; hard weightings
  std::vector<double> log_prob;  // [B,H,Lq]; hard weightings: log softmax(s) at the chosen
};

// Gradients of the loss with respect to the outputs; empty where there is none.
struct ReferenceUpstream {
  std::vector<double> context, weights, log_sum_exp, entropy, log_prob;
};

// "q", "k", "v", "bias", "sink", and the parameters by name; where a mask term's parameter has a
// name already taken, "name@term".
using ReferenceGradients = std::map<std::string, std::vector<double>>;

ReferenceOutput reference_forward(const ReferenceInputs&);
ReferenceGradients reference_backward(const ReferenceInputs&, const ReferenceUpstream&);

// The same in two steps: the inputs in double precision, where a test can nudge them. The tensors
// of ReferenceInputs are then read for integer and bool parameters alone.
ReferenceValues<double> reference_values(const ReferenceInputs&);
ReferenceOutput reference_forward(const ReferenceInputs&, const ReferenceValues<double>&);
ReferenceGradients reference_backward(const ReferenceInputs&, const ReferenceValues<double>&,
                                      const ReferenceUpstream&);

// f(name, parameter) for all of them, by the names of ReferenceGradients.
template <class Values, class F>
void each_value(Values& x, F f) {
  std::map<std::string, int> seen{{"q", 1}, {"k", 1}, {"v", 1}, {"bias", 1}, {"sink", 1}};
  f("q", x.q);
  f("k", x.k);
  f("v", x.v);
  if (x.bias.present()) f("bias", x.bias);
  if (x.sink.present()) f("sink", x.sink);
  for (auto& [name, parameter] : x.score) f(++seen[name] > 1 ? "score." + name : name, parameter);
  for (size_t t = 0; t < x.mask.size(); ++t)
    for (auto& [name, parameter] : x.mask[t])
      f(++seen[name] > 1 ? name + "@" + std::to_string(t) : name, parameter);
}

// A soft weighting without a kernel of its own, for the kernels that work row by row. Reads the
// weighting as long as it is used.
kernels::RowFormula row_formula(const Weighting&);

}  // namespace fovea
