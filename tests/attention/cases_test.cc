#include "attention/cases.h"

#include "attention/expect.h"
#include "fovea/ops.h"

// Every shape that is benched runs, and agrees with the reference on rows picked from all over it.
namespace fovea::tests {
namespace {

struct Picked {
  int64_t b, h, i;
};

// The first, a middle and the last row, in different heads and batch entries.
std::vector<Picked> picked_rows(const cases::AttentionCase& c) {
  return {{0, 0, 0}, {c.B / 2, c.H / 2, c.Lq / 2}, {c.B - 1, c.H - 1, c.Lq - 1}};
}

// One row by itself; under a causal mask it sees the keys up to its own.
Call row_alone(const Call& x, const Picked& p, bool causal) {
  const Sizes n = sizes_of(x.q, x.k, x.v);
  const int64_t hk = p.h / (n.H / n.Hk), seen = causal ? p.i + n.Lk - n.Lq + 1 : n.Lk;
  const auto part = [](const Tensor& t, int64_t b, int64_t h, int64_t i0, int64_t i1) {
    return t.slice(0, b, b + 1).slice(1, h, h + 1).slice(2, i0, i1);
  };
  return {.q = part(x.q, p.b, p.h, p.i, p.i + 1),
          .k = part(x.k, p.b, hk, 0, seen),
          .v = part(x.v, p.b, hk, 0, seen),
          .attention = {.score = x.attention.score}};
}

// argmax_j (log p_j + g_j), by the noise of the row's own place.
int64_t drawn(const Call& one, const Picked& p, uint64_t seed) {
  const ReferenceOutput soft = reference_forward({.q = one.q,
                                                  .k = one.k,
                                                  .v = one.v,
                                                  .attention = one.attention,
                                                  .n = sizes_of(one.q, one.k, one.v),
                                                  .weights = true});
  const RandomKey key = random_key(seed, Purpose::gumbel, p.b, p.h, p.i);
  std::vector<double> noisy;
  for (size_t j = 0; j < soft.weights.size(); ++j)
    noisy.push_back(std::log(soft.weights[j]) - std::log(-std::log1p(-unit_open(bits32(key, j)))));
  return index_of_max(noisy);
}

std::vector<double> expected_row(const Call& x, const Picked& p, bool causal) {
  const Call one = row_alone(x, p, causal);
  if (!def_of(x.attention.weighting).hard) return reference_results(one, false).at("context");
  const int64_t j = drawn(one, p, x.attention.weighting.seed);
  const std::vector<float> value = one.v.slice(2, j, j + 1).to_vector();
  return {value.begin(), value.end()};
}

// Normal numbers over and over, a prime of them: nothing meets itself at the strides of a case.
Tensor repeated_normals(const Shape& shape, uint64_t seed) {
  const std::vector<float> some = Tensor::randn({65'521}, seed).to_vector();
  Tensor t = Tensor::empty(shape);
  float* to = t.mutable_data<float>();
  for (int64_t i = 0; i < t.numel(); i += 65'521)
    std::copy_n(some.begin(), std::min<int64_t>(65'521, t.numel() - i), to + i);
  return t;
}

class EveryCase : public testing::TestWithParam<cases::AttentionCase> {};

TEST_P(EveryCase, AgreesWithTheReference) {
  const cases::AttentionCase& c = GetParam();
  if (reduced() && c.B * c.H * c.Lq * c.Lk * (c.D + c.Dv) > int64_t{1} << 29)
    GTEST_SKIP() << "too slow under a sanitizer";
  const Sizes n{
      .B = c.B, .H = c.H, .Hk = c.Hk, .Lq = c.Lq, .Lk = c.Lk, .Dq = c.D, .Dk = c.D, .Dv = c.Dv};
  const Score score = generate::score(score_named(std::string(c.score)), n, 5, {.A = c.A});
  Call x{.q = repeated_normals({c.B, c.H, c.Lq, c.D}, 1),
         .k = repeated_normals({c.B, c.Hk, c.Lk, c.D}, 2),
         .v = repeated_normals({c.B, c.Hk, c.Lk, c.Dv}, 3),
         .attention = {score, mask(std::string(c.mask)), weighting(std::string(c.weighting))}};
  if (c.A > 0) x.attention.score.scale = 1.0f / std::sqrt(static_cast<float>(c.A));
  const Attended a = attend(x.q, x.k, x.v, x.attention, {.weights = c.weights});
  const float* context = a.context.data<float>();
  for (const Picked& p : picked_rows(c)) {
    const int64_t row = (p.b * c.H + p.h) * c.Lq + p.i;
    const std::vector<float> found(context + row * c.Dv, context + (row + 1) * c.Dv);
    expect_near(found, expected_row(x, p, c.mask == "causal"), {1e-5, 1e-5},
                "row " + std::to_string(row));
    if (!c.weights) continue;
    const Tensor w = a.weights({{p.h}, {p.i}}).slice(0, p.b, p.b + 1);
    EXPECT_NEAR(sum(w).item(), 1.0f, 1e-5f);
  }
}

INSTANTIATE_TEST_SUITE_P(Benched, EveryCase,
                         testing::ValuesIn(cases::all().begin(), cases::all().end()),
                         [](const auto& x) {
                           std::string name(x.param.name);
                           std::replace_if(
                               name.begin(), name.end(), [](char c) { return !std::isalnum(c); },
                               '_');
                           return name;
                         });

}  // namespace
}  // namespace fovea::tests
