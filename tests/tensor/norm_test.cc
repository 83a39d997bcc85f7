#include <cmath>

#include "on_device.h"
#include "tests/tensor/check.h"

namespace fovea {
namespace {

void standardise(double* x, int64_t n, bool centre, double epsilon) {
  double mean = 0.0, var = 0.0;
  for (int64_t i = 0; i < n && centre; ++i) mean += x[i] / double(n);
  for (int64_t i = 0; i < n; ++i) var += (x[i] - mean) * (x[i] - mean) / double(n);
  for (int64_t i = 0; i < n; ++i) x[i] = (x[i] - mean) / std::sqrt(var + epsilon);
}

double times(double a, double b) { return a * b; }
double plus(double a, double b) { return a + b; }

TEST(Norm, Layer) {
  for (const int64_t n : {1, 5, 16, 33}) {
    check({"layer_norm",
           {{2, 3, n}, {n}, {n}},
           [](const Operands& x) { return layer_norm(x[0], x[1], x[2], 1e-2f); },
           [](const Arrays& x) {
             const Array unit =
                 rows(x[0], [](double* r, int64_t m) { standardise(r, m, true, 1e-2f); });
             return zip(zip(unit, x[1], times), x[2], plus);
           }});
    check({"rms_norm",
           {{4, n}, {n}},
           [](const Operands& x) { return rms_norm(x[0], x[1], 1e-2f); },
           [](const Arrays& x) {
             return zip(rows(x[0], [](double* r, int64_t m) { standardise(r, m, false, 1e-2f); }),
                        x[1], times);
           }});
  }
  check({"layer_norm, bare",
         {{3, 6}},
         [](const Operands& x) { return layer_norm(x[0]); },
         [](const Arrays& x) {
           return rows(x[0], [](double* r, int64_t m) { standardise(r, m, true, 1e-5f); });
         }});
}

// Channels as rows.
Array by_channel(const Array& x, const std::function<void(double*, int64_t, int64_t)>& f) {
  Array y = x;
  const int64_t N = x.shape[0], C = x.shape[1], P = x.size() / (N * C);
  for (int64_t c = 0; c < C; ++c) {
    std::vector<double> row;
    for (int64_t i = 0; i < N * P; ++i) row.push_back(x.v[(i / P * C + c) * P + i % P]);
    f(row.data(), N * P, c);
    for (int64_t i = 0; i < N * P; ++i) y.v[(i / P * C + c) * P + i % P] = row[i];
  }
  return y;
}

TEST(Norm, BatchTraining) {
  check({"batch_norm",
         {{3, 2, 4}, {2}, {2}},
         [](const Operands& x) {
           BatchNorm state;
           state.epsilon = 1e-2f;
           return batch_norm(x[0], x[1], x[2], state, Mode::train);
         },
         [](const Arrays& x) {
           return by_channel(x[0], [&](double* r, int64_t n, int64_t c) {
             standardise(r, n, true, 1e-2f);
             for (int64_t i = 0; i < n; ++i) r[i] = r[i] * x[1].v[c] + x[2].v[c];
           });
         }});
}

TEST(Norm, BatchEvaluation) {
  check({"batch_norm",
         {{3, 2, 4}, {2}, {2}},
         [](const Operands& x) {
           BatchNorm state;
           state.running_mean = Tensor::from({0.5f, -1}, {2});
           state.running_var = Tensor::from({2, 0.25f}, {2});
           return batch_norm(x[0], x[1], x[2], state, Mode::eval);
         },
         [](const Arrays& x) {
           return by_channel(x[0], [&](double* r, int64_t n, int64_t c) {
             const double mean = c == 0 ? 0.5 : -1, sd = std::sqrt((c == 0 ? 2 : 0.25) + 1e-5);
             for (int64_t i = 0; i < n; ++i) r[i] = (r[i] - mean) / sd * x[1].v[c] + x[2].v[c];
           });
         }});
}

TEST(Norm, BatchStatisticsFollow) {
  BatchNorm state;
  state.running_mean = Tensor::zeros({1});
  state.running_var = Tensor::full({1}, 1.0f);
  batch_norm(Tensor::from({1, 2, 3, 6}, {4, 1}), {}, {}, state, Mode::train);
  EXPECT_NEAR(state.running_mean.item(), 0.3f, 1e-6);                 // 0.1·3
  EXPECT_NEAR(state.running_var.item(), 0.9f + 0.1f * 14 / 3, 1e-5);  // unbiased: 14/3
}

TEST(Norm, Empty) {
  EXPECT_EQ(layer_norm(Tensor::zeros({0, 4})).shape(), (Shape{0, 4}));
  BatchNorm state;
  EXPECT_EQ(batch_norm(Tensor::zeros({0, 4}), {}, {}, state, Mode::train).shape(), (Shape{0, 4}));
}

TEST(Norm, Errors) {
  EXPECT_EQ(error_of([] {
              layer_norm(Tensor::zeros({2, 3}), Tensor::zeros({2}));
            }),
            "[layer_norm] weight is [2], expected [3]");
  BatchNorm state;
  EXPECT_EQ(error_of([&] {
              batch_norm(Tensor::zeros({2, 3}), {}, {}, state, Mode::eval);
            }),
            "[batch_norm] evaluation needs running statistics");
}

TEST(Dropout, KeepsItsShareAndItsScale) {
  const Tensor x = Tensor::full({1 << 16}, 1.0f);
  std::vector<float> first;
  for (const std::string& name : test::tested_isas()) {
    use_isa(name);
    const auto y = dropout(x, 0.3f, 5).to_vector();
    int64_t kept = 0;
    for (const float v : y) {
      ASSERT_TRUE(v == 0.0f || v == 1.0f / (1.0f - 0.3f));
      kept += v != 0.0f;
    }
    EXPECT_NEAR(double(kept) / double(y.size()), 0.7, 0.01);
    if (first.empty()) first = y;
    EXPECT_EQ(first, y) << name;  // the draw is the same everywhere
  }
  use_isa("");
  EXPECT_NE(dropout(x, 0.3f, 6).to_vector(), first);
}

TEST(Dropout, TheGradientDrawsTheSame) {
  Tensor x = Tensor::full({1000}, 1.0f).set_requires_grad();
  const Tensor y = dropout(x, 0.5f, 1);
  y.backward(Tensor::full({1000}, 1.0f));
  EXPECT_EQ(y.to_vector(), x.grad().to_vector());
  EXPECT_EQ(dropout(x, 0.0f, 1).to_vector(), x.to_vector());
  EXPECT_EQ(sum(dropout(x, 1.0f, 1)).item(), 0.0f);
  EXPECT_EQ(error_of([&] { dropout(x, 1.5f, 1); }),
            "[dropout] probability must be in 0 … 1, found 1.500000");
}

}  // namespace
}  // namespace fovea
