#include <algorithm>
#include <cmath>
#include <limits>

#include "on_device.h"
#include "tests/tensor/check.h"

namespace fovea {
namespace {

// Σ or max over dims, kept with size 1.
Array reduced(const Array& x, const std::vector<int>& dims, bool maximum) {
  Shape shape = x.shape;
  for (const int d : dims) shape[d] = 1;
  Array y(shape, maximum ? -std::numeric_limits<double>::infinity() : 0.0);
  for (int64_t i = 0; i < x.size(); ++i) {
    auto at = x.index(i);
    for (const int d : dims) at[d] = 0;
    y(at) = maximum ? std::max(y(at), x.v[i]) : y(at) + x.v[i];
  }
  return y;
}

Array dropped(Array y, const std::vector<int>& dims) {
  Shape shape;
  for (int d = 0; d < static_cast<int>(y.shape.size()); ++d) {
    if (std::find(dims.begin(), dims.end(), d) == dims.end()) shape.push_back(y.shape[d]);
  }
  y.shape = shape;
  return y;
}

TEST(Reduce, OverAnyDimensions) {
  const Shape shape{3, 4, 9};
  for (const std::vector<int>& dims :
       std::vector<std::vector<int>>{{0}, {1}, {2}, {0, 2}, {0, 1}, {1, 2}, {0, 1, 2}}) {
    const double count = static_cast<double>(reduced(Array(shape, 1.0), dims, false).v[0]);
    check({"sum",
           {shape},
           [&](const Operands& x) { return sum(x[0], dims); },
           [&](const Arrays& x) { return dropped(reduced(x[0], dims, false), dims); }});
    check({"mean",
           {shape},
           [&](const Operands& x) { return mean(x[0], dims, Keep::yes); },
           [&](const Arrays& x) {
             return each(reduced(x[0], dims, false), [&](double e) { return e / count; });
           }});
    check({"max",
           {shape},
           [&](const Operands& x) { return max(x[0], dims, Keep::yes); },
           [&](const Arrays& x) { return reduced(x[0], dims, true); }});
    check({"max",
           {shape},
           [&](const Operands& x) { return max(x[0], dims); },
           [&](const Arrays& x) { return dropped(reduced(x[0], dims, true), dims); }});
  }
  EXPECT_EQ(sum(Tensor::full(shape, 1.0f), {-1}).shape(), (Shape{3, 4}));
}

TEST(Reduce, LongSumsStayExact) {
  for (const std::string& name : test::tested_isas()) {
    use_isa(name);
    const Tensor x = Tensor::full({3000, 700}, 0.1f);
    EXPECT_NEAR(sum(x).item() / 210000.0, 1.0, 1e-6) << name;
    for (const float s : sum(x, {0}).to_vector()) ASSERT_NEAR(s, 300.0, 1e-3) << name;
    for (const float s : sum(x.transpose(0, 1), {0}).to_vector()) ASSERT_NEAR(s, 70.0, 1e-4);
  }
  use_isa("");
}

TEST(Reduce, StrideZero) {
  const Tensor row = Tensor::from({1, 2, 3}, {3});
  const Tensor x = row.expand({5, 3});
  EXPECT_EQ(sum(x, {0}).to_vector(), (std::vector<float>{5, 10, 15}));
  EXPECT_EQ(sum(x, {1}).to_vector(), std::vector<float>(5, 6.0f));
}

TEST(Reduce, Argmax) {
  const Tensor x = Tensor::from({1, 5, 5, 7, 2, 9}, {2, 3});
  EXPECT_EQ(argmax(x, 1).to_ids(), (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(argmax(x, 0).to_ids(), (std::vector<int64_t>{1, 0, 1}));
  EXPECT_EQ(argmax(x, -1, Keep::yes).shape(), (Shape{2, 1}));
  EXPECT_EQ(argmax(awkward(x), 1).to_ids(), (std::vector<int64_t>{1, 2}));
}

TEST(Reduce, TiesShareTheMaximum) {
  Tensor x = Tensor::from({2, 2, 1, 0}, {4}).set_requires_grad();
  max(x).backward();
  EXPECT_EQ(x.grad().to_vector(), (std::vector<float>{0.5f, 0.5f, 0, 0}));
}

TEST(Reduce, NaNPropagatesThroughMax) {
  for (const std::string& name : test::tested_isas()) {
    use_isa(name);
    for (int64_t n : {1, 3, 40}) {
      for (int64_t at = 0; at < n; ++at) {
        std::vector<float> v(n, 1.0f);
        v[at] = std::nanf("");
        ASSERT_TRUE(std::isnan(max(Tensor::from(v, {n})).item())) << name << n << at;
        ASSERT_TRUE(std::isnan(max(Tensor::from(v, {n, 1}).expand({n, 9}), {0}).to_vector()[8]));
      }
    }
  }
  use_isa("");
}

TEST(Reduce, Empty) {
  EXPECT_EQ(sum(Tensor::zeros({0, 3})).item(), 0.0f);
  EXPECT_EQ(sum(Tensor::zeros({0, 3}), {0}).to_vector(), std::vector<float>(3, 0.0f));
  EXPECT_EQ(sum(Tensor::zeros({0, 3}), {1}).shape(), (Shape{0}));
  EXPECT_EQ(error_of([] {
              max(Tensor::zeros({0, 3}), {0});
            }),
            "[max] no elements to compare in [0, 3]");
  EXPECT_EQ(max(Tensor::zeros({0, 3}), {1}).shape(), (Shape{0}));
  EXPECT_EQ(error_of([] { sum(Tensor::zeros({2}), {1}); }),
            "[sum] dimension 1 of a tensor of rank 1");
}

}  // namespace
}  // namespace fovea
