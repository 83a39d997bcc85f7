// attend() of bf16 where a device computes with it.
#include "tests/bf16.h"

#include "fovea/attention.h"

namespace fovea {
namespace {

using test::expect_bf16;
using Many = std::vector<Tensor>;

struct Rows {
  int64_t B, H, Hk, Lq, Lk, D, Dv;
};

void expect_attended(const Rows& n, const Attention& a = {}) {
  SCOPED_TRACE(to_string({n.B, n.H, n.Hk, n.Lq, n.Lk, n.D, n.Dv}));
  expect_bf16({"attend",
               {{n.B, n.H, n.Lq, n.D}, {n.B, n.Hk, n.Lk, n.D}, {n.B, n.Hk, n.Lk, n.Dv}},
               {},
               [&](const Many& x, const Many&) { return attend(x[0], x[1], x[2], a).context; },
               1e-2});
}

constexpr Rows kRows[] = {{2, 3, 3, 100, 100, 64, 64},  {1, 4, 2, 300, 300, 64, 64},
                          {1, 2, 1, 257, 257, 128, 96}, {2, 2, 2, 1024, 1024, 64, 64},
                          {1, 2, 2, 130, 130, 40, 24},  {1, 1, 1, 33, 33, 13, 7}};

TEST(Bf16Attention, IsWhatFloatsGive) {
  if (!test::computes_bf16()) GTEST_SKIP();
  for (const Rows& n : kRows) {
    expect_attended(n);
    expect_attended(n, {.mask = masks::causal()});
    expect_attended(n, {.mask = masks::window(20, 3)});
  }
  const Tensor lengths = Tensor::from_ids(std::vector<int64_t>{70, 0}, {2});
  expect_attended(kRows[0], {.mask = masks::lengths(lengths)});
}

TEST(Bf16Attention, GoesByFloatsWhereThereIsNoKernel) {
  if (!test::computes_bf16()) GTEST_SKIP();
  Attention dropped{.mask = masks::causal()};
  dropped.weighting.dropout = 0.2f;
  dropped.weighting.seed = 3;
  expect_attended(kRows[0], dropped);
  expect_attended({1, 2, 2, 20, 20, 160, 16});
  expect_attended(kRows[4], {.weighting = weighting("sparsemax")});
}

TEST(Bf16Attention, WhatIsHiddenIsNotRead) {
  if (!test::computes_bf16()) GTEST_SKIP();
  const DefaultDevice host(Device::cpu);
  Tensor k = Tensor::randn({1, 1, 200, 64}, 2);
  for (int64_t i = 0; i < 64; ++i) k.mutable_data<float>()[150 * 64 + i] = NAN;
  const auto there = [](const Tensor& t) { return t.to(Device::cuda).to(DType::bf16); };
  const Tensor q = there(Tensor::randn({1, 1, 200, 64}, 1)), v = there(k);
  const std::vector<float> context =
      attend(q, v, v, {.mask = masks::causal()}).context.to(DType::f32).to_vector();
  for (int64_t i = 0; i < 200; ++i) {
    EXPECT_EQ(std::isnan(context[static_cast<size_t>(i * 64)]), i >= 150) << i;
  }
}

}  // namespace
}  // namespace fovea
