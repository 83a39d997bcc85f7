#include "attention/cases.h"

#include <algorithm>
#include <cmath>

#include "attention/expect.h"
#include "fovea/ops.h"
#include "tests/host.h"

// Every shape that is benched runs, forward and backward, and agrees with the reference on rows
// picked from all over it: their contexts, and all gradients of a loss that looks at them alone.
namespace fovea::tests {
namespace {

struct Picked {
  int64_t b, h, i;
};

// The first, a middle and the last row, in different heads and batch entries. The reference goes
// through W_q and W_k for every pair: of the widest projections, one row will do.
std::vector<Picked> picked_rows(const cases::AttentionCase& c) {
  const Picked middle{c.B / 2, c.H / 2, c.Lq / 2};
  if (c.group == "projected" && c.A >= 1024) return {middle};
  return {{0, 0, 0}, middle, {c.B - 1, c.H - 1, c.Lq - 1}};
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

ReferenceInputs inputs_of(const Call& one) {
  return {.q = one.q,
          .k = one.k,
          .v = one.v,
          .attention = one.attention,
          .n = sizes_of(one.q, one.k, one.v),
          .weights = true};
}

// argmax_j (log p_j + g_j), by the noise of the row's own place.
int64_t drawn(const std::vector<double>& weights, const Picked& p, uint64_t seed) {
  const RandomKey key = random_key(seed, Purpose::gumbel, p.b, p.h, p.i);
  std::vector<double> noisy;
  for (size_t j = 0; j < weights.size(); ++j)
    noisy.push_back(std::log(weights[j]) - std::log(-std::log1p(-unit_open(bits32(key, j)))));
  return index_of_max(noisy);
}

using Doubles = std::map<std::string, std::vector<double>>;

// What a row gives, and its gradients: "context" [Dv], and d of q, k, v and the parameters.
// A draw's value gets the whole gradient of the context; log p(drawn) is that of the softmax, whose
// gradient by the weight of the drawn key is d/p.
Doubles expected_row(const Call& one, const Picked& p, bool hard, uint64_t seed,
                     const std::vector<double>& d_context, double d_log_prob) {
  const ReferenceInputs in = inputs_of(one);
  const ReferenceOutput soft = reference_forward(in);
  if (!hard) {
    Doubles found;
    if (!d_context.empty()) found = reference_backward(in, {.context = d_context});
    found["context"] = soft.context;
    return found;
  }
  const int64_t j = drawn(soft.weights, p, seed), Dv = in.n.Dv;
  std::vector<double> d_weights(soft.weights.size());
  d_weights[j] = d_log_prob / soft.weights[j];
  Doubles found = reference_backward(in, {.weights = d_weights});
  const std::vector<float> value = one.v.slice(2, j, j + 1).to_vector();
  found["context"] = {value.begin(), value.end()};
  std::copy(d_context.begin(), d_context.end(), found["v"].begin() + j * Dv);
  return found;
}

// Adds a row's gradients to those of the whole call.
void add_row(const Doubles& row, const cases::AttentionCase& c, const Picked& p, Doubles& all) {
  const int64_t hk = p.h / (c.H / c.Hk);
  for (const auto& [name, x] : row) {
    if (name == "context") continue;
    int64_t first = 0;
    if (name == "q") first = ((p.b * c.H + p.h) * c.Lq + p.i) * c.D;
    if (name == "k") first = (p.b * c.Hk + hk) * c.Lk * c.D;
    if (name == "v") first = (p.b * c.Hk + hk) * c.Lk * c.Dv;
    for (size_t e = 0; e < x.size(); ++e) all.at(name)[first + e] += x[e];
  }
}

// Normal numbers over and over, a prime of them: nothing meets itself at the strides of a case.
Tensor repeated_normals(const Shape& shape, uint64_t seed) {
  const std::vector<float> some = Tensor::randn({65'521}, seed).to_vector();
  Tensor t = Tensor::empty(shape, DType::f32, Device::cpu);
  float* to = t.mutable_data<float>();
  for (int64_t i = 0; i < t.numel(); i += 65'521)
    std::copy_n(some.begin(), std::min<int64_t>(65'521, t.numel() - i), to + i);
  return t.to(default_device());
}

// Sanitizers get a smaller one of the same kind.
cases::AttentionCase sized(cases::AttentionCase c) {
  if (!reduced()) return c;
  c.B = std::min<int64_t>(c.B, 3);
  c.Lq = std::min<int64_t>(c.Lq, 70);
  c.Lk = std::min<int64_t>(c.Lk, 150);
  if (c.mask == "causal") c.Lk = std::max(c.Lk, c.Lq);
  if (c.A > 0) c.A = c.D = c.Dv = std::min<int64_t>(c.A, 64);
  return c;
}

Call call_of(const cases::AttentionCase& c) {
  const Sizes n{
      .B = c.B, .H = c.H, .Hk = c.Hk, .Lq = c.Lq, .Lk = c.Lk, .Dq = c.D, .Dk = c.D, .Dv = c.Dv};
  const Score score =
      generate::score(score_named(std::string(c.score)), n, 5, {.A = c.A, .A2 = c.A});
  Call x{.q = repeated_normals({c.B, c.H, c.Lq, c.D}, 1),
         .k = repeated_normals({c.B, c.Hk, c.Lk, c.D}, 2),
         .v = repeated_normals({c.B, c.Hk, c.Lk, c.Dv}, 3),
         .attention = {score, mask(std::string(c.mask)), weighting(std::string(c.weighting))},
         .want = {.weights = c.weights}};
  if (c.A > 0) x.attention.score.scale = 1.0f / std::sqrt(static_cast<float>(c.A));
  return x;
}

class EveryCase : public testing::TestWithParam<cases::AttentionCase> {};

TEST_P(EveryCase, AgreesWithTheReference) {
  const cases::AttentionCase c = sized(GetParam());
  Call x = call_of(c);
  const bool hard = def_of(x.attention.weighting).hard,
             backward = c.backward != cases::Backward::none;
  Doubles expected;
  const Call plain = x;
  const Leaves leaves = make_leaves(x);
  for (const auto& [name, t] : leaves) expected[name].resize(t.numel());

  const int64_t held = memory_in_use();
  reset_memory_peak();
  const Attended a = attend(x.q, x.k, x.v, x.attention, x.want);
  Tensor d_context = Tensor::zeros(a.context.shape()), d_log_prob = Tensor::zeros({c.B, c.H, c.Lq});
  for (const Picked& p : picked_rows(c)) {
    const int64_t row = (p.b * c.H + p.h) * c.Lq + p.i;
    const std::vector<float> d = Tensor::randn({backward ? c.Dv : 0}, 20 + row).to_vector();
    const float d_log = c.backward == cases::Backward::log_prob ? 0.7f : 0.0f;
    test::edit<float>(d_context,
                      [&](float* at) { std::copy(d.begin(), d.end(), at + row * c.Dv); });
    test::edit<float>(d_log_prob, [&](float* at) { at[row] = d_log; });
    const Call one = row_alone(plain, p, c.mask == "causal");
    const Doubles wanted =
        expected_row(one, p, hard, x.attention.weighting.seed, {d.begin(), d.end()}, d_log);
    const Tensor context = a.context.detach().contiguous().reshape({-1, c.Dv}).select(0, row);
    expect_near(context.to_vector(), wanted.at("context"), {1e-5, 1e-5},
                "row " + std::to_string(row));
    add_row(wanted, c, p, expected);
    if (!c.weights) continue;
    const Tensor w = a.weights({{p.h}, {p.i}}).slice(0, p.b, p.b + 1);
    EXPECT_NEAR(sum(w).item(), 1.0f, 1e-5f);
  }
  if (!backward) return;
  Tensor loss = sum(a.context * d_context);  // in one pass: what led to both is there once
  if (c.backward == cases::Backward::log_prob) loss = loss + sum(a.log_prob() * d_log_prob);
  loss.backward();
  for (const auto& [name, t] : leaves) {
    expect_near(t.grad().to_vector(), expected.at(name), {1e-5, 1e-4}, "d" + name);
  }
  if (a.plan() == Plan::composed) {  // what it needs is printed by the benchmark
    EXPECT_LE(memory_peak() - held, int64_t{256} << 20);
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
