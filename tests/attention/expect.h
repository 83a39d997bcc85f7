#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "attention/check.h"
#include "attention/generate.h"
#include "attention/reference.h"
#include "fovea/attention.h"
#include "fovea/runtime.h"
#include "tests/on_device.h"
#include "tests/reduced.h"

// Everything a call of attend() can be asked for, by name, so that two calls (or a call and the
// reference) are compared in one line.
namespace fovea::tests {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

using test::reduced;

// f(isa) with each instruction set in use.
template <class F>
void on_every_isa(const F& f, test::Numbers numbers = test::Numbers::wide) {
  for (const std::string& isa : test::tested_isas(numbers)) {
    const testing::ScopedTrace trace(__FILE__, __LINE__, isa);
    use_isa(isa);
    f(isa);
    if (testing::Test::HasFatalFailure()) break;
  }
  use_isa("");
}

struct Call {
  Tensor q, k, v;
  Attention attention;
  Want want;
  Tensor d_context, d_weights;  // random where undefined
};

inline Call call(const Sizes& n, Attention attention = {}, uint64_t seed = 3) {
  const generate::Qkv x = generate::qkv(n, seed);
  return {.q = x.q, .k = x.k, .v = x.v, .attention = std::move(attention)};
}

inline const ScoreDef& score_named(const std::string& name) {
  for (const ScoreDef* def : score_table())
    if (def->name == name) return *def;
  throw Error("score_named", name);
}

inline Score score_for(const std::string& name, const Sizes& n, uint64_t seed = 17) {
  return generate::score(score_named(name), n, seed);
}

// A dot and an additive score, with and without projections of their own.
inline std::vector<std::string> families() {
  return {"scaled_dot", "multiplicative", "additive_keras", "additive"};
}

using Results = std::map<std::string, std::vector<float>>;
using Leaves = std::vector<std::pair<std::string, Tensor>>;

// The call with every f32 tensor a leaf of its own, sharing memory and strides.
inline Leaves make_leaves(Call& c) {
  Leaves leaves;
  const auto leaf = [&leaves](const std::string& name, Tensor& t) {
    if (!t || t.dtype() != DType::f32) return;
    t = t.detach();
    leaves.emplace_back(name, t.set_requires_grad());
  };
  leaf("q", c.q);
  leaf("k", c.k);
  leaf("v", c.v);
  if (c.attention.score.bias) leaf("bias", c.attention.score.bias->table);
  for (auto& [name, t] : c.attention.score.parameters) leaf(name, t);
  for (auto& [name, t] : c.attention.weighting.parameters) leaf(name, t);
  for (MaskTerm& term : c.attention.mask.terms)
    for (auto& [name, t] : term.parameters) leaf(name, t);
  return leaves;
}

enum class Ask : uint8_t { context, everything };

inline void add_gradients(const Tensor& output, const Tensor& d, const std::string& of,
                          const Leaves& leaves, Results& r) {
  std::vector<Tensor> inputs;
  for (const auto& [name, t] : leaves) inputs.push_back(t);
  const std::vector<Tensor> grads = gradients(output, d, inputs);
  for (size_t i = 0; i < grads.size(); ++i)
    r["d" + leaves[i].first + " of " + of] = grads[i].to_vector();
}

inline Attended attend_as_called(const Call& c) {
  return attend(c.q, c.k, c.v, c.attention, c.want);
}

// "context", "weights", …, and "dq of context", "dw_k of weights", … for random upstream gradients.
inline Results results(Call c, Ask ask = Ask::everything,
                       Attended (*run)(const Call&) = attend_as_called) {
  const Leaves leaves = make_leaves(c);
  const Attended a = run(c);
  Results r;
  const auto output = [&](const std::string& name, const Tensor& t, const Tensor& d) {
    r[name] = t.to_vector();
    add_gradients(t, d ? d : Tensor::randn(t.shape(), 11), name, leaves, r);
  };
  output("context", a.context, c.d_context);
  if (ask == Ask::context) return r;
  output("weights", a.weights(), c.d_weights);
  output("log_sum_exp", a.log_sum_exp(), {});
  output("entropy", a.entropy(), {});
  if (!def_of(c.attention.weighting).hard) return r;
  const std::vector<int64_t> chosen = a.chosen().to_ids();
  r["chosen"].assign(chosen.begin(), chosen.end());
  output("log_prob", a.log_prob(), {});
  return r;
}

// The context, and its gradients when asked for, in double precision.
inline std::map<std::string, std::vector<double>> reference_results(const Call& c,
                                                                    bool gradients = true) {
  const ReferenceInputs in{
      .q = c.q, .k = c.k, .v = c.v, .attention = c.attention, .n = sizes_of(c.q, c.k, c.v)};
  std::map<std::string, std::vector<double>> r;
  r["context"] = reference_forward(in).context;
  if (!gradients) return r;
  const Sizes& n = in.n;
  const Tensor d = c.d_context ? c.d_context : Tensor::randn({n.B, n.H, n.Lq, n.Dv}, 11);
  const std::vector<float> up = d.to_vector();
  for (const auto& [name, g] : reference_backward(in, {.context = {up.begin(), up.end()}}))
    r["d" + name + " of context"] = g;
  return r;
}

struct Tolerance {
  double absolute = 1e-5, relative = 1.3e-6;
};

template <class T>
void expect_near(const std::vector<float>& found, const std::vector<T>& expected, Tolerance t,
                 const std::string& what) {
  ASSERT_EQ(found.size(), expected.size()) << what;
  for (size_t i = 0; i < found.size(); ++i) {
    const double e = expected[i];
    if (found[i] == e || (std::isnan(e) && std::isnan(found[i]))) continue;
    ASSERT_LE(std::abs(found[i] - e), test::slack() * (t.absolute + t.relative * std::abs(e)))
        << what << "[" << i << "] is " << found[i] << ", expected " << e;
    ASSERT_FALSE(std::isnan(found[i])) << what << "[" << i << "]";
  }
}

// `found` may hold more than is expected.
template <class Expected>
void expect_near(const Results& found, const Expected& expected, Tolerance t = {},
                 const std::string& what = "") {
  for (const auto& [name, x] : expected) {
    ASSERT_TRUE(found.contains(name)) << what << " " << name;
    expect_near(found.at(name), x, t, what + " " + name);
    if (testing::Test::HasFatalFailure()) return;
  }
}

// Values to `forward`, gradients to `backward`.
template <class Expected>
void expect_near(const Results& found, const Expected& expected, Tolerance forward,
                 Tolerance backward, const std::string& what) {
  for (const auto& [name, x] : expected) {
    ASSERT_TRUE(found.contains(name)) << what << " " << name;
    expect_near(found.at(name), x, name.find(" of ") != name.npos ? backward : forward,
                what + " " + name);
    if (testing::Test::HasFatalFailure()) return;
  }
}

inline void expect_same_bits(const Results& found, const Results& expected,
                             const std::string& what = "") {
  ASSERT_EQ(found.size(), expected.size()) << what;
  for (const auto& [name, x] : expected) {
    const std::vector<float>& y = found.at(name);
    ASSERT_EQ(x.size(), y.size()) << what << " " << name;
    if (x.empty()) continue;
    ASSERT_EQ(std::memcmp(x.data(), y.data(), x.size() * sizeof(float)), 0) << what << " " << name;
  }
}

inline bool all_finite(const std::vector<float>& x) {
  return std::all_of(x.begin(), x.end(), [](float y) { return std::isfinite(y); });
}

// Rows of the last dimension: x[row].
inline std::vector<float> row_of(const std::vector<float>& x, int64_t row, int64_t width) {
  return {x.begin() + row * width, x.begin() + (row + 1) * width};
}

}  // namespace fovea::tests
