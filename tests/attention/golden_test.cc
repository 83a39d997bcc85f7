#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "attention/generate.h"
#include "attention/reference.h"
#include "where.h"

// The reference against what others computed: see golden/make.py.
namespace fovea {
namespace {

using nlohmann::json;

const json& golden() {
  static const json all = [] {
    std::ifstream file(test::source_dir() + "/tests/attention/golden/golden.json");
    return json::parse(file);
  }();
  return all;
}

std::vector<double> numbers(const json& x) { return x.get<std::vector<double>>(); }

Tensor tensor(const json& x, const Shape& shape) {
  return Tensor::from(x.get<std::vector<float>>(), shape);
}

void expect_near(const std::vector<double>& got, const std::vector<double>& expected,
                 const char* what) {
  ASSERT_EQ(got.size(), expected.size()) << what;
  for (size_t i = 0; i < got.size(); ++i)
    EXPECT_NEAR(got[i], expected[i], 1e-12) << what << "[" << i << "]";
}

ReferenceInputs inputs(const json& c) {
  const auto n = c["sizes"].get<std::vector<int64_t>>();
  ReferenceInputs in{.q = tensor(c["q"], {n[0], n[1], n[3], n[5]}),
                     .k = tensor(c["k"], {n[0], n[2], n[4], n[5]}),
                     .v = tensor(c["v"], {n[0], n[2], n[4], n[6]})};
  in.n = sizes_of(in.q, in.k, in.v);
  if (c.contains("mask_spec")) in.attention.mask = mask(c["mask_spec"].get<std::string>());
  if (c.contains("allowed"))
    in.attention.mask =
        masks::matrix(Tensor::from_bools(c["allowed"].get<std::vector<uint8_t>>(), {n[3], n[4]}));
  if (c.contains("scale")) in.attention.score.scale = c["scale"].get<float>();
  if (c.contains("bias"))
    in.attention.score.bias = Bias{.table = tensor(c["bias"], c["bias_shape"].get<Shape>())};
  return in;
}

TEST(Golden, AgreesWithPyTorchsAttention) {
  for (const json& c : golden()["attention"]) {
    SCOPED_TRACE(c["name"].get<std::string>());
    ReferenceInputs in = inputs(c);
    // 1/√D is a float here and a double there.
    if (!in.attention.score.scale) {
      in.attention.score = {.def = scores::dot().def, .bias = in.attention.score.bias};
      in.attention.score.scale = 1.0f;
    }
    ReferenceValues<double> x = reference_values(in);
    const double root = c.contains("scale") ? 1.0 : std::sqrt(static_cast<double>(in.n.Dq));
    for (double& q : x.q.data) q /= root;
    expect_near(reference_forward(in, x).context, numbers(c["context"]), "context");
    ReferenceGradients d = reference_backward(in, x, {.context = numbers(c["d_context"])});
    for (double& dq : d["q"]) dq /= root;
    expect_near(d["q"], numbers(c["dq"]), "dq");
    expect_near(d["k"], numbers(c["dk"]), "dk");
    expect_near(d["v"], numbers(c["dv"]), "dv");
    if (c.contains("d_bias")) expect_near(d["bias"], numbers(c["d_bias"]), "d_bias");
  }
}

TEST(Golden, AgreesWithSparseWeightingsByBisection) {
  for (const json& c : golden()["rows"]) {
    const int64_t Lk = static_cast<int64_t>(c["scores"].size());
    SCOPED_TRACE(c["weighting"].get<std::string>() + " of " + std::to_string(Lk));
    const Sizes n{.B = 1, .H = 1, .Hk = 1, .Lq = 1, .Lk = Lk, .Dq = 0, .Dk = 0, .Dv = 1};
    const generate::Qkv x = generate::qkv(n, 1);
    ReferenceInputs in{.q = x.q, .k = x.k, .v = x.v, .n = n, .weights = true};
    in.attention.weighting = weighting(c["weighting"].get<std::string>());
    in.attention.score.bias = Bias{.table = tensor(c["scores"], {Lk})};
    expect_near(reference_forward(in).weights, numbers(c["weights"]), "weights");
    expect_near(reference_backward(in, {.weights = numbers(c["d_weights"])})["bias"],
                numbers(c["d_scores"]), "d_scores");
  }
}

// Bucket numbers as the table's own entries.
TEST(Golden, AgreesWithT5sBuckets) {
  for (const json& c : golden()["t5"]) {
    const int64_t buckets = c["buckets"], lowest = c["lowest"];
    const auto expected = c["bucket"].get<std::vector<float>>();
    const int64_t L = -lowest + 1;
    const Tensor table = Tensor::arange(buckets).to(DType::f32).reshape({buckets, 1});
    const Bias bias = biases::t5(table, L, L, c["bidirectional"], c["max_distance"]);
    EXPECT_TRUE(bias.relative);
    EXPECT_EQ(bias.table.shape(), (Shape{1, 2 * L - 1}));
    EXPECT_EQ(bias.table.to_vector(), expected);
  }
}

}  // namespace
}  // namespace fovea
