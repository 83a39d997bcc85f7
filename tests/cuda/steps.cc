// A decoder's step, one query a row, against float64.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "there.h"

namespace fovea::test {
namespace {

using std::vector;

struct StepCase {
  int64_t B, Lk, width, Dv;
  bool additive;
};
std::string name_of(const testing::TestParamInfo<StepCase>& info) {
  const StepCase& c = info.param;
  return std::to_string(c.B) + "x" + std::to_string(c.Lk) + "_" + std::to_string(c.width) + "_" +
         std::to_string(c.Dv) + (c.additive ? "_additive" : "_dot");
}

// Row b sees a few keys less than row b − 1; the last one sees none.
vector<int32_t> ends_of(const StepCase& c) {
  vector<int32_t> ends;
  for (int64_t b = 0; b < c.B; ++b) {
    ends.push_back(static_cast<int32_t>(b + 1 == c.B ? 0 : std::max<int64_t>(1, c.Lk - 3 * b)));
  }
  return ends;
}

class Steps : public testing::TestWithParam<StepCase> {};

TEST_P(Steps, LikeFloat64) {
  const cuda::Module& module = cuda::open_module();
  const kernels::Kernels& gpu = *module.kernels;
  const StepCase& c = GetParam();
  const float factor = 0.7f;
  const There keys = There::random(c.B * c.Lk * c.width, 1);
  const There values = There::random(c.B * c.Lk * c.Dv, 2),
              q = There::random(c.B * c.width, 3, 0.1f);
  const There u = There::random(c.width, 4, 0.2f), up = There::random(c.B * c.Dv, 5);
  const There p = There::unwritten(c.B * c.Lk), context = There::unwritten(c.B * c.Dv);
  const There dp = There::unwritten(c.B * c.Lk), g = There::unwritten(c.B * c.Lk);
  const There dq = There::unwritten(c.B * c.width);
  const vector<int32_t> ends = ends_of(c);
  void* const there = module.allocate(ends.size() * sizeof(int32_t));
  module.upload(there, ends.data(), ends.size() * sizeof(int32_t));
  kernels::StepMemory m;
  m.B = c.B, m.Lk = c.Lk;
  m.ends = static_cast<const int32_t*>(there);
  m.keys = {keys.data(), c.Lk * c.width, c.width, c.width};
  m.values = {values.data(), c.Lk * c.Dv, c.Dv, c.Dv};
  m.u = c.additive ? u.data() : nullptr;
  gpu.step_forward(m, q.data(), factor, p.data(), context.data());
  gpu.step_d_weights(m, up.data(), dp.data());
  gpu.step_d_query(m, {q.data(), p.data(), dp.data(), factor, g.data(), dq.data()});
  module.give_back(there);

  vector<double> weights(c.B * c.Lk), sums(c.B * c.Dv), d_query(c.B * c.width);
  for (int64_t b = 0; b < c.B; ++b) {
    const int64_t end = ends[b];
    const auto key = [&](int64_t j, int64_t d) {
      return double{keys.here()[(b * c.Lk + j) * c.width + d]};
    };
    const auto value = [&](int64_t j, int64_t d) {
      return double{values.here()[(b * c.Lk + j) * c.Dv + d]};
    };
    const auto query = [&](int64_t d) { return double{q.here()[b * c.width + d]}; };
    double total = 0.0;
    vector<double> e(end), d_weight(end);
    for (int64_t j = 0; j < end; ++j) {
      double score = 0.0;
      for (int64_t d = 0; d < c.width; ++d) {
        score += c.additive ? u.here()[d] * std::tanh(query(d) + key(j, d)) : query(d) * key(j, d);
      }
      total += e[j] = std::exp(factor * score);
      for (int64_t d = 0; d < c.Dv; ++d) d_weight[j] += up.here()[b * c.Dv + d] * value(j, d);
    }
    double mean = 0.0;
    for (int64_t j = 0; j < end; ++j) {
      weights[b * c.Lk + j] = e[j] / total;
      mean += weights[b * c.Lk + j] * d_weight[j];
      for (int64_t d = 0; d < c.Dv; ++d) sums[b * c.Dv + d] += e[j] / total * value(j, d);
    }
    for (int64_t j = 0; j < end; ++j) {
      const double d_score = factor * weights[b * c.Lk + j] * (d_weight[j] - mean);
      for (int64_t d = 0; d < c.width; ++d) {
        const double t = std::tanh(query(d) + key(j, d));
        d_query[b * c.width + d] +=
            d_score * (c.additive ? u.here()[d] * (1.0 - t * t) : key(j, d));
      }
    }
  }
  EXPECT_LE(distance(p.now(), weights), 2e-5);
  EXPECT_LE(distance(context.now(), sums), 2e-5);
  EXPECT_LE(distance(dq.now(), d_query), 5e-5);
}

INSTANTIATE_TEST_SUITE_P(
    Sizes, Steps,
    testing::Values(StepCase{64, 30, 512, 1024, true}, StepCase{3, 5, 40, 36, true},
                    StepCase{4, 77, 100, 300, true}, StepCase{3, 30, 64, 2500, true},
                    StepCase{5, 30, 128, 512, false}, StepCase{2, 300, 33, 20, false}),
    name_of);

}  // namespace
}  // namespace fovea::test
