#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <ostream>
#include <string>
#include <vector>

#include "case.h"
#include "fovea/error.h"
#include "kernels/open.h"

namespace fovea::test {

void PrintTo(const Case& c, std::ostream* to) { *to << c.name; }

namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

constexpr const char* kPaths[] = {"long", "best", "general"};

// Bit for bit, NaN among them.
bool same(const Outputs& a, const Outputs& b) {
  const auto equal = [](const std::vector<double>& x, const std::vector<double>& y) {
    return x.size() == y.size() &&
           (x.empty() || std::memcmp(x.data(), y.data(), x.size() * sizeof(double)) == 0);
  };
  return equal(a.context, b.context) && equal(a.stat, b.stat) && equal(a.dq, b.dq) &&
         equal(a.dk, b.dk) && equal(a.dv, b.dv) && equal(a.du, b.du) && equal(a.dbias, b.dbias) &&
         equal(a.dsink, b.dsink);
}

struct Bounds {
  double forward, backward;
};

void expect_near(const Outputs& is, const Outputs& should, const Bounds& bounds,
                 const std::string& path) {
  const auto near = [&](const char* what, const std::vector<double>& x,
                        const std::vector<double>& y) {
    const bool forward = &x == &is.context || &x == &is.stat;
    EXPECT_LE(distance(x, y), forward ? bounds.forward : bounds.backward) << path << ": " << what;
  };
  near("context", is.context, should.context);
  near("stat", is.stat, should.stat);
  near("dq", is.dq, should.dq);
  near("dk", is.dk, should.dk);
  near("dv", is.dv, should.dv);
  near("du", is.du, should.du);
  near("dbias", is.dbias, should.dbias);
  near("dsink", is.dsink, should.dsink);
}

// The long path multiplies halves of 16 bits; where one weight is nearly 1, gradients of scores are
// differences of what is nearly equal. Halves of dot products on Hopper have 22 bits.
constexpr Bounds kLong{2e-5, 6e-5}, kShort{1e-5, 2e-5}, kDot{2e-6, 5e-6};

// What results may be off by, where those of the long path are `by_long`: other bits are another
// path's.
Bounds bounds_of(const Case& c, const Outputs& is, const Outputs& by_long) {
  if (same(is, by_long)) return kLong;
  return c.family == Family::dot ? kDot : kShort;
}

std::vector<Case> additive_cases() {
  std::vector<Case> all = {
      {.name = "one", .Lq = 1, .Lk = 1, .A = 1, .Dv = 1},
      {.name = "odd", .B = 2, .Lq = 130, .Lk = 77, .A = 37, .Dv = 19},
      {.name = "two_tiles", .B = 2, .H = 2, .Hk = 2, .Lq = 200, .Lk = 300, .A = 64, .Dv = 96},
      {.name = "wide", .Lq = 33, .Lk = 150, .A = 300, .Dv = 260},
      {.name = "short_few", .B = 3, .Lq = 9, .Lk = 70, .A = 128, .Dv = 128},
      {.name = "short_many", .B = 2, .H = 2, .Hk = 2, .Lq = 50, .Lk = 50, .A = 100, .Dv = 36},
      {.name = "short_chunks", .Lq = 110, .Lk = 131, .A = 70, .Dv = 70},
      {.name = "grouped", .B = 2, .H = 6, .Hk = 2, .Lq = 150, .Lk = 140, .A = 48, .Dv = 72},
      {.name = "grouped_short", .B = 2, .H = 4, .Hk = 1, .Lq = 20, .Lk = 30, .A = 48, .Dv = 40},
      {.name = "heads_inside",
       .B = 2,
       .H = 3,
       .Hk = 3,
       .Lq = 90,
       .Lk = 60,
       .A = 32,
       .Dv = 24,
       .heads_inside = true},
      {.name = "columns",
       .B = 2,
       .H = 2,
       .Hk = 2,
       .Lq = 45,
       .Lk = 66,
       .A = 20,
       .Dv = 12,
       .columns = true},
      {.name = "zero_weights", .Lq = 60, .Lk = 140, .A = 40, .Dv = 16, .zero_weights = true},
      {.name = "scaled",
       .Lq = 60,
       .Lk = 140,
       .A = 40,
       .Dv = 16,
       .scale = 0.3f,
       .temperature = 1.7f},
  };
  const Case base{.B = 2, .H = 2, .Hk = 2, .Lq = 260, .Lk = 330, .A = 40, .Dv = 24};
  const Case few{.B = 2, .H = 2, .Hk = 2, .Lq = 40, .Lk = 90, .A = 40, .Dv = 24};
  const auto with = [&](const std::string& name, auto change) {
    for (Case c : {base, few}) {
      change(c);
      c.name = name + (c.Lq == few.Lq ? "_few" : "");
      all.push_back(c);
    }
  };
  with("causal", [](Case& c) { c.ranges = Ranges::causal; });
  with("window", [](Case& c) { c.ranges = Ranges::window; });
  with("lengths", [](Case& c) { c.ranges = Ranges::lengths; });
  with("segments", [](Case& c) { c.ranges = Ranges::segments; });
  with("some_empty", [](Case& c) { c.ranges = Ranges::some_empty; });
  with("bytes", [](Case& c) { c.allowed = true; });
  with("bias", [](Case& c) { c.bias = Bias::full; });
  with("bias_of_heads", [](Case& c) { c.bias = Bias::shared_by_heads; });
  with("bias_by_distance", [](Case& c) { c.bias = Bias::by_distance; });
  with("bias_forbids", [](Case& c) { c.bias = Bias::forbidding; });
  with("dropout", [](Case& c) { c.dropout = 0.3f; });
  with("softcap", [](Case& c) { c.softcap = 3.0f; });
  with("softcap_bias", [](Case& c) {
    c.softcap = 3.0f;
    c.bias = Bias::full;
  });
  with("sink", [](Case& c) {
    c.sink = true;
    c.ranges = Ranges::some_empty;
  });
  with("d_stat", [](Case& c) { c.d_stat = true; });
  with("everything", [](Case& c) {
    c.Hk = 1;
    c.ranges = Ranges::causal;
    c.allowed = true;
    c.bias = Bias::shared_by_heads;
    c.dropout = 0.2f;
    c.softcap = 5.0f;
    c.sink = true;
    c.d_stat = true;
    c.scale = 0.7f;
    c.temperature = 1.3f;
    c.heads_inside = true;
  });
  for (const float far : {30.0f, 50.0f, 1e4f}) {
    with("far_" + std::to_string(static_cast<int>(far)), [&](Case& c) { c.far = far; });
  }
  with("some_far", [](Case& c) { c.far = 60.0f, c.some_far = true, c.zero_weights = true; });
  all.push_back(
      {.name = "far_one_query", .B = 3, .Lq = 1, .Lk = 90, .A = 40, .Dv = 24, .far = 60.0f});
  with("far_everything", [](Case& c) {
    c.far = 60.0f;
    c.some_far = true;
    c.Hk = 1;
    c.ranges = Ranges::causal;
    c.allowed = true;
    c.bias = Bias::full;
    c.dropout = 0.2f;
    c.softcap = 5.0f;
    c.scale = 0.7f;
    c.heads_inside = true;
  });
  with("far_columns", [](Case& c) { c.far = 60.0f, c.columns = true, c.A = 37; });
  for (const float deviation : {2.0f, 3.0f, 4.0f, 5.0f, 6.0f, 50.0f, 1e4f}) {
    with("deviation_" + std::to_string(static_cast<int>(deviation)), [&](Case& c) {
      c.deviation = deviation;
      c.A = 64;
    });
  }
  return all;
}

// The same by dot products, and the widths and lengths at which those have tiles.
std::vector<Case> cases() {
  std::vector<Case> all = additive_cases();
  const auto add = [&](Case c, const std::string& name) {
    c.name = name, c.family = Family::dot, c.zero_weights = false;
    c.scale /= std::sqrt(static_cast<float>(c.A));
    all.push_back(c);
  };
  for (const Case& c : additive_cases()) {
    if (c.deviation <= 4.0f && c.far == 0.0f) add(c, "dot_" + c.name);
  }
  for (const int64_t width : {64, 128}) {
    const Case c{.H = 4, .Hk = 2, .Lq = 300, .Lk = 400, .A = width, .Dv = width};
    const auto with = [&](const std::string& name, auto change) {
      Case other = c;
      change(other);
      add(other, "dot_" + std::to_string(width) + "_" + name);
    };
    with("plain", [](Case&) {});
    with("narrower", [](Case& x) { x.A -= 7, x.Dv = 33; });
    with("causal", [](Case& x) { x.ranges = Ranges::causal, x.Lq = x.Lk; });
    with("window", [](Case& x) { x.ranges = Ranges::window; });
    with("empty_and_sink", [](Case& x) { x.ranges = Ranges::some_empty, x.sink = true; });
    with("d_stat", [](Case& x) { x.d_stat = true; });
    with("inside", [](Case& x) { x.heads_inside = true; });
    with("columns", [](Case& x) { x.columns = true; });
    with("many_queries", [](Case& x) { x.Lq = 2000, x.Lk = 70, x.B = 2; });
    with("one_query", [](Case& x) { x.Lq = 1, x.Lk = 1000; });
    with("two_keys", [](Case& x) { x.Lk = 2; });
    with("dropout", [](Case& x) { x.dropout = 0.2f; });
  }
  return all;
}

class GpuAttention : public testing::TestWithParam<Case> {};

TEST_P(GpuAttention, IsTheFormulaTwice) {
  const Numbers n(GetParam());
  const Outputs should = by_formula(n);
  const Outputs by_long = by_gpu(n, "long");
  for (const std::string path : kPaths) {
    const Outputs once = by_gpu(n, path);
    const bool general = path == "general";
    expect_near(once, should, general ? kLong : bounds_of(GetParam(), once, by_long), path);
    EXPECT_TRUE(same(once, by_gpu(n, path))) << path << ": other bits the second time";
  }
}

class Oracle : public testing::TestWithParam<Case> {};

TEST_P(Oracle, IsWhatTheCpuComputes) {
  const Numbers n(GetParam());
  expect_near(by_cpu(n), by_formula(n), {1e-5, 1e-5}, "cpu");
}

std::string name_of(const testing::TestParamInfo<Case>& c) { return c.param.name; }
INSTANTIATE_TEST_SUITE_P(Cases, GpuAttention, testing::ValuesIn(cases()), name_of);
INSTANTIATE_TEST_SUITE_P(Cases, Oracle, testing::ValuesIn(cases()), name_of);

// More scores than are kept at a time: heads after one another, and rows.
TEST(GpuAttentionLarge, InChunks) {
  for (const Case& c : {Case{.B = 5, .H = 8, .Hk = 4, .Lq = 600, .Lk = 900, .A = 3, .Dv = 4},
                        Case{.Lq = 600, .Lk = 40000, .A = 3, .Dv = 4, .bias = Bias::by_distance},
                        Case{.family = Family::dot,
                        .H = 2,
                        .Hk = 1,
                        .Lq = 600,
                        .Lk = 40000,
                        .A = 3,
                        .Dv = 4,
                        .ranges = Ranges::window}}) {
    const Numbers n(c);
    const Outputs should = by_formula(n), by_long = by_gpu(n, "long"), best = by_gpu(n, "best");
    expect_near(by_long, should, kLong, "long");
    expect_near(best, should, bounds_of(c, best, by_long), "best");
  }
}

// What is hidden stays hidden, what is seen shows, as on the CPU.
struct NanCase {
  Family family;
  bool few;
};
class GpuNan : public testing::TestWithParam<NanCase> {};

void like_the_cpu(const Numbers& n) {
  const Outputs should = by_cpu(n);
  for (const std::string path : kPaths) expect_near(by_gpu(n, path), should, {1e-4, 1e-4}, path);
}

Case masked_case(const NanCase& which) {
  const bool few = which.few;
  return {.family = which.family,
          .B = 2,
          .H = 2,
          .Hk = 2,
          .Lq = few ? 40 : 200,
          .Lk = few ? 60 : 200,
          .A = 20,
          .Dv = 12,
          .ranges = Ranges::causal};
}

TEST_P(GpuNan, InKeys) {
  Numbers n(masked_case(GetParam()));
  n.k[n.k.size() / 4 + 5] = kNan;
  like_the_cpu(n);
}
TEST_P(GpuNan, InQueries) {
  Numbers n(masked_case(GetParam()));
  n.q[n.q.size() / 3] = kNan;
  like_the_cpu(n);
}
TEST_P(GpuNan, InValues) {
  Numbers n(masked_case(GetParam()));
  n.v[n.v.size() / 3] = kNan;
  n.v[n.v.size() / 5] = kNan;
  like_the_cpu(n);
}
TEST_P(GpuNan, InTheGradient) {
  Numbers n(masked_case(GetParam()));
  n.d_context[n.d_context.size() / 3] = kNan;
  like_the_cpu(n);
}
TEST_P(GpuNan, InBiasAndBytes) {
  Case c = masked_case(GetParam());
  c.bias = Bias::full;
  c.allowed = true;
  Numbers n(c);
  n.bias[n.bias.size() / 3] = kNan;
  n.bias[n.bias.size() / 7] = -3e38f;
  like_the_cpu(n);
}
TEST_P(GpuNan, InWeights) {
  if (GetParam().family != Family::additive) GTEST_SKIP() << "dot products have none";
  Numbers n(masked_case(GetParam()));
  n.u[3] = kNan;
  like_the_cpu(n);
}
TEST_P(GpuNan, InfiniteValues) {
  Numbers n(masked_case(GetParam()));
  n.v[n.v.size() / 2] = kInf;
  const Outputs should = by_cpu(n);
  for (const std::string path : kPaths) {
    EXPECT_LE(distance(by_gpu(n, path).context, should.context), 1e-4) << path;
  }
}
TEST_P(GpuNan, InfiniteInputsAreFar) {
  if (GetParam().family != Family::additive) GTEST_SKIP() << "of additive scores";
  Numbers n(masked_case(GetParam()));
  n.q[n.q.size() / 3] = kInf;
  n.k[n.k.size() / 4] = -kInf;
  n.k[n.k.size() / 5] = 1e6f;
  like_the_cpu(n);
}

TEST_P(GpuNan, OppositeInfinities) {
  if (GetParam().family != Family::additive) GTEST_SKIP() << "of additive scores";
  Numbers n(masked_case(GetParam()));
  const size_t A = n.what.A;  // feature 3 of some rows: ∞ − ∞ where they meet
  n.q[(n.q.size() / A / 3) * A + 3] = kInf;
  n.k[(n.k.size() / A / 4) * A + 3] = -kInf;
  n.k[(n.k.size() / A / 5) * A + 3] = -1e30f;
  like_the_cpu(n);
}

INSTANTIATE_TEST_SUITE_P(Paths, GpuNan,
                         testing::Values(NanCase{Family::additive, true},
                                         NanCase{Family::additive, false},
                                         NanCase{Family::dot, true}, NanCase{Family::dot, false}),
                         [](const auto& c) {
                           return std::string(c.param.family == Family::dot ? "dot_" : "") +
                                  (c.param.few ? "few" : "many");
                         });

TEST(GpuAttentionErrors, SayWhatCannotBe) {
  const cuda::Module& gpu = cuda::open_module();
  Numbers n({.Lq = 4, .Lk = 4, .A = 4, .Dv = 4});
  kernels::AttentionProblem p = n.problem;
  EXPECT_EQ(gpu.refuses(p), nullptr);
  p.weigh = kernels::Weigh::formula;
  try {
    gpu.attention_forward(p, {});
    FAIL();
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("formula"), std::string::npos) << e.what();
  }
}

}  // namespace
}  // namespace fovea::test
