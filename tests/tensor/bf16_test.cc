// Tensors of bf16 where a device computes with them.
#include "tests/bf16.h"

#include "errors.h"
#include "tensor/linear.h"

namespace fovea {
namespace {

using test::Bf16Case;
using test::error_of;
using test::expect_bf16;
using test::has;
using Many = std::vector<Tensor>;

const Shape kShapes[] = {{3, 5, 7}, {2, 9, 64}, {40, 768}};

TEST(Bf16, IsRefusedWhereNothingComputesIt) {
  if (test::computes_bf16()) GTEST_SKIP();
  const Tensor x = Tensor::randn({4, 8}, 1).to(DType::bf16), w = Tensor::randn({8, 8}, 2);
  for (const std::string& message :
       {error_of([&] { x + x; }), error_of([&] { gelu(x); }), error_of([&] { linear(x, w); }),
        error_of([&] { layer_norm(x, {}, {}); })}) {
    EXPECT_TRUE(has(message, "is bf16, expected f32")) << message;
  }
}

TEST(Bf16, BecomesFloatsAndBack) {
  if (!test::computes_bf16()) GTEST_SKIP();
  const DefaultDevice host(Device::cpu);
  for (const int64_t n : {1, 7, 8, 1001, 4096}) {
    const Tensor x = Tensor::randn({n}, 3), rounded = x.to(DType::bf16).to(DType::f32);
    const Tensor there = x.to(Device::cuda).to(DType::bf16);
    EXPECT_EQ(there.dtype(), DType::bf16);
    EXPECT_EQ(there.to(DType::f32).to_vector(), rounded.to_vector());
    EXPECT_EQ(there.to(Device::cpu).to(DType::f32).to_vector(), rounded.to_vector());
  }
}

TEST(Bf16, ElementByElement) {
  if (!test::computes_bf16()) GTEST_SKIP();
  for (const Shape& s : kShapes) {
    expect_bf16({"add", {s, s}, {}, [](const Many& x, const Many&) { return x[0] + x[1]; }});
    expect_bf16({"mul", {s, s}, {}, [](const Many& x, const Many&) { return x[0] * x[1]; }});
    expect_bf16({"gelu", {s}, {}, [](const Many& x, const Many&) { return gelu(x[0]); }});
    expect_bf16({"gelu_tanh", {s}, {}, [](const Many& x, const Many&) { return gelu_tanh(x[0]); }});
    expect_bf16({"silu", {s}, {}, [](const Many& x, const Many&) { return silu(x[0]); }});
    expect_bf16({"affine", {s}, {}, [](const Many& x, const Many&) { return x[0] * 1.5f + 2.0f; }});
  }
}

TEST(Bf16, TypesThatDifferDoNotMeet) {
  if (!test::computes_bf16()) GTEST_SKIP();
  const Tensor x = Tensor::randn({8}, 1);
  EXPECT_TRUE(has(error_of([&] { x + x.to(DType::bf16); }), "b is bf16, expected f32"));
}

TEST(Bf16, Views) {
  if (!test::computes_bf16()) GTEST_SKIP();
  expect_bf16({"split", {{2, 5, 48}}, {}, [](const Many& x, const Many&) {
                 const Many parts = split(x[0], {16, 8, 24}, 2);
                 return concatenate({parts[2], parts[0] + parts[0], parts[1]}, 2);
               }});
  expect_bf16({"heads", {{2, 5, 48}}, {}, [](const Many& x, const Many&) {
                 const Tensor heads = x[0].reshape({2, 5, 3, 16}).transpose(1, 2);
                 return heads.slice(2, 1, 4).contiguous();
               }});
  expect_bf16({"odd", {{4, 9}}, {}, [](const Many& x, const Many&) {
                 return x[0].slice(1, 1, 8).transpose(0, 1) + x[0].slice(1, 0, 7).transpose(0, 1);
               }});
}

TEST(Bf16, Norms) {
  if (!test::computes_bf16()) GTEST_SKIP();
  for (const Shape& s : {Shape{6, 13}, Shape{3, 5, 64}, Shape{300, 768}, Shape{9, 2056}}) {
    const Shape own{s.back()};
    expect_bf16({"layer", {s}, {own, own}, [](const Many& x, const Many& w) {
                   return layer_norm(x[0], w[0], w[1]);
                 }});
    expect_bf16(
        {"rms", {s}, {own}, [](const Many& x, const Many& w) { return rms_norm(x[0], w[0]); }});
  }
}

TEST(Bf16, Linear) {
  if (!test::computes_bf16()) GTEST_SKIP();
  struct Sizes {
    int64_t rows, in, out;
  };
  for (const auto& [rows, in, out] :
       {Sizes{1, 8, 8}, Sizes{7, 65, 37}, Sizes{130, 64, 256}, Sizes{257, 768, 501}}) {
    expect_bf16(
        {"with bias", {{2, rows, in}}, {{out, in}, {out}}, [](const Many& x, const Many& w) {
           return linear(x[0], w[0], w[1]);
         }});
    expect_bf16({"without", {{rows, in}}, {{out, in}}, [](const Many& x, const Many& w) {
                   return linear(x[0], w[0], {});
                 }});
  }
}

// Logits of some 10 that are off by 2⁻⁹ give probabilities that are off by 2 %.
constexpr double kLogitsBound = 2e-2;

// Some of 21 targets are ignored.
Tensor some_targets(int64_t classes) {
  std::vector<int64_t> ids;
  for (int64_t i = 0; i < 21; ++i) ids.push_back(i == 4 ? -100 : i * 31 % classes);
  return Tensor::from_ids(ids, {3, 7});
}

TEST(Bf16, CrossEntropy) {
  if (!test::computes_bf16()) GTEST_SKIP();
  for (const int64_t classes : {5, 64, 501, 5000}) {
    for (const float smoothing : {0.0f, 0.1f}) {
      const CrossEntropy how{.label_smoothing = smoothing};
      expect_bf16({"of logits",
                   {{3, 7, 24}},
                   {{classes, 24}},
                   [&](const Many& x, const Many& w) {
                     return cross_entropy(linear(x[0], w[0], {}), some_targets(classes), how);
                   },
                   kLogitsBound});
      expect_bf16({"with the layer before",
                   {{3, 7, 24}},
                   {{classes, 24}, {classes}},
                   [&](const Many& x, const Many& w) {
                     return linear_cross_entropy(x[0], {w[0], w[1]}, some_targets(classes), how);
                   },
                   kLogitsBound});
    }
  }
}

TEST(Bf16, DropoutDropsTheSame) {
  if (!test::computes_bf16()) GTEST_SKIP();
  expect_bf16({"dropout", {{31, 33}}, {}, [](const Many& x, const Many&) {
                 return dropout(x[0], 0.3f, 9);
               }});
}

}  // namespace
}  // namespace fovea
