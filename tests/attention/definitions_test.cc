#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "attention/check.h"
#include "attention/generate.h"
#include "attention/lower.h"
#include "attention/reference.h"
#include "fovea/ops.h"

// What each mechanism's file says, held against itself and its formula.
namespace fovea {
namespace {

constexpr Sizes kSizes{.B = 2, .H = 4, .Hk = 2, .Lq = 3, .Lk = 5, .Dq = 6, .Dk = 6, .Dv = 1};
// [B,Hk,Lk,D] → [B,H,Lk,D], each key head repeated for its group.
Tensor repeat_heads(const Tensor& k, const Sizes& n) {
  const int64_t group = n.H / n.Hk, L = k.size(2), D = k.size(3);
  return k.unsqueeze(2).expand({n.B, n.Hk, group, L, D}).reshape({n.B, n.H, L, D});
}

// All scores [B,H,Lq,Lk] of lowered queries and keys, by plain tensor operations.
Tensor evaluate(const ScoreDef& def, const Tensor& q, const Tensor& k_in, const Tensors& parameters,
                const Sizes& n) {
  const Tensor k = repeat_heads(k_in, n);
  if (def.form == Form::dot) return matmul(q, k.transpose(2, 3));
  if (def.form == Form::additive) {
    return sum(tanh(q.unsqueeze(3) + k.unsqueeze(2)) * def.u(parameters),
               {-1});  // of [B,H,Lq,Lk,A]
  }
  const int64_t P = n.B * n.H * n.Lq * n.Lk;
  const auto rows = [&](const Tensor& t) {
    return t.expand({n.B, n.H, n.Lq, n.Lk, t.size(4)}).reshape({P, t.size(4)});
  };
  return def.pairs(rows(q.unsqueeze(3)), rows(k.unsqueeze(2)), parameters)
      .reshape({n.B, n.H, n.Lq, n.Lk});
}

class Scores : public testing::TestWithParam<const ScoreDef*> {};
INSTANTIATE_TEST_SUITE_P(Definitions, Scores,
                         testing::ValuesIn(score_table().begin(), score_table().end()),
                         generate::kByName);

TEST_P(Scores, SayWhatTheirFormReads) {
  const ScoreDef& def = *GetParam();
  EXPECT_EQ(def.u != nullptr, def.form == Form::additive);
  EXPECT_EQ(def.pairs != nullptr, def.form == Form::pairs);
  EXPECT_TRUE(!def.either || (def.queries && def.keys && def.form == Form::dot));
}

// Which sides are lowered is a choice where either is enough.
std::vector<Sides> every_lowering(const ScoreDef& def) {
  if (def.either) return {{.queries = true}, {.keys = true}};
  return {{def.queries != nullptr, def.keys != nullptr}};
}

TEST_P(Scores, LowerToTheirFormulaForwardAndBackward) {
  for (const Sides& sides : every_lowering(*GetParam())) {
    Sizes n = kSizes;
    if (!GetParam()->equal_widths) n.Dk = 4;
    generate::Qkv x = generate::qkv(n, 1);
    Score score = generate::score(*GetParam(), n, 2);
    x.q.set_requires_grad();
    x.k.set_requires_grad();
    for (auto& [name, t] : score.parameters) t.set_requires_grad();

    // With weighting none the weights are the scores.
    ReferenceInputs in{
        .q = x.q, .k = x.k, .v = x.v, .attention = {.score = score}, .n = n, .weights = true};
    in.attention.weighting = weightings::none();
    in.attention.score.scale = 1.0f;
    const ReferenceOutput expected = reference_forward(in);

    const Tensor q = sides.queries ? GetParam()->queries(x.q, score.parameters) : x.q;
    const Tensor k = sides.keys ? GetParam()->keys(x.k, score.parameters) : x.k;
    const Tensor got = evaluate(*GetParam(), q, k, score.parameters, n);
    const std::vector<float> scores = got.to_vector();
    ASSERT_EQ(scores.size(), expected.weights.size());
    for (size_t e = 0; e < scores.size(); ++e) EXPECT_NEAR(scores[e], expected.weights[e], 1e-5);

    const Tensor d = generate::normal(got.shape(), 9);
    got.backward(d);
    const std::vector<float> upstream = d.to_vector();
    const ReferenceGradients gradients =
        reference_backward(in, {.weights = {upstream.begin(), upstream.end()}});
    Tensors inputs = score.parameters;
    inputs["q"] = x.q;
    inputs["k"] = x.k;
    for (const auto& [name, t] : inputs) {
      const std::vector<double>& want = gradients.at(name);
      const std::vector<float> grad =
          t.grad() ? t.grad().to_vector() : std::vector<float>(want.size(), 0.0f);
      ASSERT_EQ(grad.size(), want.size()) << name;
      for (size_t e = 0; e < want.size(); ++e)
        EXPECT_NEAR(grad[e], want[e], 1e-5 + 1e-3 * std::abs(want[e])) << name << "[" << e << "]";
    }
  }
}

TEST_P(Scores, RefuseParametersThatDoNotFit) {
  const Score good = generate::score(*GetParam(), kSizes, 2);
  check_attention("attend", {.score = good}, kSizes);
  for (const ParameterDef& def : GetParam()->parameters) {
    Score bad = good;
    bad.parameters[bare_name(def)] = Tensor::zeros({3, 1, 2});
    EXPECT_THROW(check_attention("attend", {.score = bad}, kSizes), Error) << def.name;
    bad.parameters[bare_name(def)] =
        Tensor::zeros(good.parameters.at(bare_name(def)).shape(), DType::i64);
    EXPECT_THROW(check_attention("attend", {.score = bad}, kSizes), Error) << def.name;
    bad.parameters.erase(bare_name(def));
    if (is_optional(def))
      check_attention("attend", {.score = bad}, kSizes);
    else
      EXPECT_THROW(check_attention("attend", {.score = bad}, kSizes), Error) << def.name;
  }
  Score extra = good;
  extra.parameters["nonsense"] = Tensor::zeros({1});
  EXPECT_THROW(check_attention("attend", {.score = extra}, kSizes), Error);
  Sizes wider = kSizes;
  wider.Dk = 7;
  if (GetParam()->equal_widths) {
    EXPECT_THROW(check_attention("attend", {.score = good}, wider), Error);
  }
}

class Masks : public testing::TestWithParam<const MaskDef*> {};
INSTANTIATE_TEST_SUITE_P(Definitions, Masks,
                         testing::ValuesIn(mask_table().begin(), mask_table().end()),
                         generate::kByName);

TEST_P(Masks, SayWhichKeysInOneWay) {
  const MaskDef& def = *GetParam();
  const bool both = def.is_range != nullptr;  // a range at times, a condition key by key otherwise
  EXPECT_EQ((def.range != nullptr) + (def.allows != nullptr) + (def.center != nullptr), 1 + both);
  EXPECT_TRUE(!both || (def.range && def.allows));
  EXPECT_TRUE(def.range || !def.prefix);
  EXPECT_EQ(def.center != nullptr, def.center_reference.on_double != nullptr);
  EXPECT_TRUE(def.allows || (!def.allowed && !def.equal));
}

TEST_P(Masks, StayWithinTheKeys) {
  if (!GetParam()->range) return;
  for (const int64_t Lq : {1, 4, 9})
    for (const int64_t Lk : {0, 1, 5})
      for (const int64_t width : {int64_t{0}, int64_t{2}, std::numeric_limits<int64_t>::max()}) {
        Sizes n = kSizes;
        n.Lq = Lq;
        n.Lk = Lk;
        Mask mask = generate::mask(*GetParam(), n, 3, {.width = width});
        std::vector<double>& numbers = mask.terms[0].numbers;
        if (Lk == 5 && !numbers.empty() && GetParam()->numbers.back().endless)
          numbers.back() = std::numeric_limits<double>::infinity();
        for (const bool causal : {false, true}) {
          const Mask both = causal ? mask & masks::causal() : mask;
          const MaskContext context = mask_context(both, n);
          for (int64_t i = 0; i < Lq; ++i) {
            const KeyRange r = GetParam()->range(both.terms[0], context, 1, i);
            EXPECT_GE(r.begin, 0);
            EXPECT_LE(r.begin, std::max(r.end, r.begin));
            EXPECT_LE(r.end, Lk);
          }
        }
      }
}

TEST_P(Masks, ThatBeginAtTheFirstKeySayThatTheyDo) {
  if (!GetParam()->prefix) return;
  const Mask mask = generate::mask(*GetParam(), kSizes, 3);
  const MaskContext context = mask_context(mask, kSizes);
  for (int64_t b = 0; b < kSizes.B; ++b) {
    int64_t before = 0;
    for (int64_t i = 0; i < kSizes.Lq; ++i) {
      const KeyRange r = GetParam()->range(mask.terms[0], context, b, i);
      EXPECT_EQ(r.begin, 0);
      EXPECT_GE(r.end, before);
      before = r.end;
    }
  }
}

TEST(Segments, OfSortedKeysAreRanges) {
  const Sizes n{.B = 2, .H = 1, .Hk = 1, .Lq = 4, .Lk = 6, .Dq = 1, .Dk = 1, .Dv = 1};
  const auto ids = [](std::vector<int64_t> v, int64_t L) { return Tensor::from_ids(v, {2, L}); };
  const Tensor q = ids({2, 0, 9, 1, 5, 3, 3, 4}, 4);
  const Tensor sorted = ids({0, 0, 1, 2, 2, 2, 3, 3, 3, 5, 5, 7}, 6);
  const Tensor mixed = ids({0, 0, 1, 2, 2, 2, 3, 5, 3, 5, 5, 7}, 6);
  const LoweredMask ranges = lower_mask({.mask = masks::segments(q, sorted)}, n, {});
  EXPECT_FALSE(ranges.conditions);
  EXPECT_EQ(ranges.begin, (std::vector<int32_t>{3, 0, 6, 2, 3, 0, 0, 3}));
  EXPECT_EQ(ranges.end, (std::vector<int32_t>{6, 2, 6, 3, 5, 3, 3, 3}));
  const LoweredMask conditions = lower_mask({.mask = masks::segments(q, mixed)}, n, {});
  EXPECT_TRUE(conditions.conditions);
  EXPECT_TRUE(conditions.begin.empty());
  // Read backwards they fall.
  EXPECT_TRUE(
      lower_mask({.mask = masks::segments(q, sorted.slice(1, 5, -7, -1))}, n, {}).conditions);
}

TEST_P(Masks, AllowTheSameKeysAsAMatrix) {
  if (!GetParam()->allowed) return;
  const Mask mask = generate::mask(*GetParam(), kSizes, 3);
  const MaskContext context = mask_context(mask, kSizes);
  const Shape full{kSizes.B, kSizes.H, kSizes.Lq, kSizes.Lk};
  const Tensor allowed = GetParam()->allowed(mask.terms[0]).expand(full).contiguous();
  const uint8_t* a = allowed.data<uint8_t>();
  for (int64_t b = 0; b < full[0]; ++b)
    for (int64_t h = 0; h < full[1]; ++h)
      for (int64_t i = 0; i < full[2]; ++i)
        for (int64_t j = 0; j < full[3]; ++j)
          EXPECT_EQ(*a++ != 0, GetParam()->allows(mask.terms[0], context, b, h, i, j));
}

TEST_P(Masks, ForbidTheSameKeysARowAtATime) {
  if (!GetParam()->allows) return;
  const Mask mask = generate::mask(*GetParam(), kSizes, 3);
  const MaskContext context = mask_context(mask, kSizes);
  const Conditions::Term term{mask.terms[0], context};
  std::vector<Tensor> read;
  const kernels::Condition condition = condition_on(Device::cpu, term, read);
  int64_t forbidden = 0;
  for (int64_t b = 0; b < kSizes.B; ++b)
    for (int64_t h = 0; h < kSizes.H; ++h)
      for (int64_t i = 0; i < kSizes.Lq; ++i)
        for (const int64_t from : {0, 2}) {
          std::vector<float> s(kSizes.Lk - from, 1.0f);
          kernels::forbid(condition, {b, h, i, from, kSizes.Lk}, s.data());
          for (int64_t j = from; j < kSizes.Lk; ++j) {
            const bool allowed = GetParam()->allows(mask.terms[0], context, b, h, i, j);
            EXPECT_EQ(s[j - from], allowed ? 1.0f : -std::numeric_limits<float>::infinity());
            forbidden += !allowed;
          }
        }
  EXPECT_GT(forbidden, 0);
}

TEST_P(Masks, PredictTheirCentreAsTheFormula) {
  if (!GetParam()->center) return;
  const generate::Qkv x = generate::qkv(kSizes, 1);
  const MaskTerm term = generate::term(*GetParam(), kSizes, 3);
  for (const bool with_lengths : {false, true}) {
    MaskContext context{.n = kSizes};
    if (with_lengths) context.lengths = Tensor::from_ids(std::vector<int64_t>{2, 5}, {2});
    const std::vector<float> p = GetParam()->center(x.q, term, context).to_vector();
    ScalarParameters<double> parameters;
    for (const auto& [name, t] : term.parameters) {
      const std::vector<float> data = t.to_vector();
      parameters[name] = {.shape = t.shape(), .data = {data.begin(), data.end()}};
    }
    const std::vector<float> q32 = x.q.to_vector();
    const std::vector<double> q(q32.begin(), q32.end());
    for (size_t r = 0; r < p.size(); ++r) {
      const double length = with_lengths && r < p.size() / 2 ? 2 : 5;
      const CenterArgs<double> args{
          .q = std::span(q).subspan(r * 6, 6), .length = length, .p = parameters};
      EXPECT_NEAR(p[r], GetParam()->center_reference(args), 1e-5);
    }
  }
}

// Keys seen by each query, one string a row: "x" seen, "." not.
std::vector<std::string> picture(const Mask& mask, Sizes n) {
  n.B = n.H = n.Hk = n.Dq = n.Dk = n.Dv = 1;
  const generate::Qkv x = generate::qkv(n, 1);
  const ReferenceOutput out = reference_forward(
      {.q = x.q, .k = x.k, .v = x.v, .attention = {.mask = mask}, .n = n, .weights = true});
  std::vector<std::string> rows(n.Lq);
  for (int64_t e = 0; e < n.Lq * n.Lk; ++e) rows[e / n.Lk] += out.weights[e] > 0 ? 'x' : '.';
  return rows;
}

TEST(MaskPictures, AreWhatTheFormulasSay) {
  using Lines = std::vector<std::string>;
  const Sizes wide{.Lq = 3, .Lk = 5}, tall{.Lq = 4, .Lk = 2};
  EXPECT_EQ(picture(masks::everything(), wide), (Lines{"xxxxx", "xxxxx", "xxxxx"}));
  EXPECT_EQ(picture(masks::causal(), wide), (Lines{"xxx..", "xxxx.", "xxxxx"}));
  EXPECT_EQ(picture(masks::causal(), tall), (Lines{"..", "..", "x.", "xx"}));
  EXPECT_EQ(picture(masks::window(1), wide), (Lines{"xx...", "xxx..", ".xxx."}));
  EXPECT_EQ(picture(masks::window(0), tall), (Lines{"x.", ".x", "..", ".."}));
  EXPECT_EQ(picture(masks::causal() & masks::window(1), wide), (Lines{".xx..", "..xx.", "...xx"}));
  EXPECT_EQ(picture(mask("window:1+causal"), wide), (Lines{".xx..", "..xx.", "...xx"}));
  EXPECT_EQ(picture(masks::window(1, 2), wide), (Lines{"xxx..", "xxxx.", ".xxxx"}));
  EXPECT_EQ(picture(mask("window:0,1"), tall), (Lines{"xx", ".x", "..", ".."}));
  EXPECT_EQ(picture(masks::window(masks::kUnbounded, 0), wide), (Lines{"x....", "xx...", "xxx.."}));
  EXPECT_EQ(picture(mask("window:inf,0+causal"), wide), (Lines{"xxx..", "xxxx.", "xxxxx"}));
  EXPECT_EQ(picture(mask("window:0,inf"), wide), (Lines{"xxxxx", ".xxxx", "..xxx"}));
  EXPECT_EQ(picture(mask("causal+window:1,5"), wide), (Lines{".xx..", "..xx.", "...xx"}));
  EXPECT_EQ(picture(mask("window:3,1+window:0,2"), wide), (Lines{"xx...", ".xx..", "..xx."}));
  const Tensor lengths = Tensor::from_ids(std::vector<int64_t>{2}, {1});
  EXPECT_EQ(picture(masks::lengths(lengths), wide), (Lines{"xx...", "xx...", "xx..."}));
  const Tensor q_segments = Tensor::from_ids(std::vector<int64_t>{0, 1, 1}, {1, 3});
  const Tensor k_segments = Tensor::from_ids(std::vector<int64_t>{0, 0, 1, 2, 1}, {1, 5});
  EXPECT_EQ(picture(masks::segments(q_segments, k_segments), wide),
            (Lines{"xx...", "..x.x", "..x.x"}));
  const Tensor keys = Tensor::from_bools(std::vector<uint8_t>{1, 0, 0, 1, 0}, {5});
  EXPECT_EQ(picture(masks::matrix(keys), wide), (Lines{"x..x.", "x..x.", "x..x."}));
  const Tensor rows = Tensor::from_bools(std::vector<uint8_t>{1, 0, 1}, {1, 3, 1});
  EXPECT_EQ(picture(masks::matrix(rows), wide), (Lines{"xxxxx", ".....", "xxxxx"}));
}

TEST(Names, AreForgivingAndHelpful) {
  EXPECT_EQ(score("scaled-dot").def->name, "scaled_dot");
  EXPECT_EQ(mask("local-p:3", {{"w_p", Tensor::zeros({1, 2})}, {"u_p", Tensor::zeros({1})}})
                .terms[0]
                .numbers,
            std::vector<double>{3});
  EXPECT_EQ(mask("window:3").terms[0].numbers, (std::vector<double>{3, 3}));
  EXPECT_EQ(mask("window:3,0").terms[0].numbers, (std::vector<double>{3, 0}));
  EXPECT_TRUE(mask("local_p:3:renormalise").terms[0].renormalise);
  EXPECT_TRUE(mask("").terms.empty());
  EXPECT_EQ(weighting("entmax15").def->kind, WeightingKind::entmax15);
  const auto message = [](auto f) -> std::string {
    try {
      f();
    } catch (const Error& e) {
      return e.what();
    }
    return "";
  };
  EXPECT_NE(message([] { score("aditive"); }).find("\"additive\""), std::string::npos);
  EXPECT_NE(message([] { mask("casual"); }).find("\"causal\""), std::string::npos);
  EXPECT_NE(message([] { weighting("spersemax"); }).find("\"sparsemax\""), std::string::npos);
  for (const char* bad :
       {"window", "window:", "window:-1", "window:3x", "window:99999999999999999999", "causal:3",
        "causal+", "local_p:3:original", "window:inf", "window:3,", "window:,3", "window:1,2,3",
        "window:-1,0", "window:3,-1", "window:3, 4", "local_p:3,4"})
    EXPECT_THROW(mask(bad), Error) << bad;
  EXPECT_THROW(score("dot", {{"w", Tensor::zeros({1})}}), Error);
  EXPECT_THROW(mask("causal", {{"lengths", Tensor::zeros({1}, DType::i64)}}), Error);
  EXPECT_EQ(list_scores().size(), score_table().size());
  EXPECT_EQ(list_masks().size(), mask_table().size());
  EXPECT_EQ(list_weightings().size(), weighting_table().size());
}

TEST(Names, SayWhatNumbersAreMissingOrDoNotFit) {
  const auto message = [](const char* spec) -> std::string {
    try {
      mask(spec);
    } catch (const Error& e) {
      return e.what();
    }
    return "";
  };
  EXPECT_EQ(message("window"), "[mask] \"window\" needs a number, its width, as in \"window:64\"");
  EXPECT_EQ(message("window:2.5"),
            "[mask] \"window:2.5\" has width \"2.5\", expected a whole number of at least 0");
  EXPECT_EQ(message("window:1,x"),
            "[mask] \"window:1,x\" has right \"x\", expected a whole number of at least 0, or inf");
  EXPECT_EQ(message("window:1,2,3"), "[mask] \"window:1,2,3\" has 3 numbers, expected at most 2");
  EXPECT_EQ(message("local_p:0"),
            "[mask] \"local_p:0\" has width \"0\", expected a whole number of at least 1");
  for (const WeightingDef* def : weighting_table()) {  // names alone choose a weighting
    EXPECT_EQ(weighting(def->name).numbers.size(), def->numbers.size()) << def->name;
  }
}

TEST(Names, TheListSaysWhichWeightingsChooseAKey) {
  std::set<std::string> hard;
  for (const Listed& weighting : list_weightings()) {
    if (weighting.hard) hard.insert(weighting.name);
  }
  EXPECT_EQ(hard, (std::set<std::string>{"argmax", "gumbel", "sample"}));
}

TEST(Checks, RefuseWhatCannotWork) {
  const auto refuse = [](Attention a) {
    EXPECT_THROW(check_attention("attend", a, kSizes), Error);
  };
  refuse({.mask = masks::window(-1)});
  refuse({.mask = masks::window(-1, 3)});
  refuse({.mask = masks::window(3, -1)});
  Mask two_sided = masks::local_p(2, Tensor::zeros({2, 6}), Tensor::zeros({2}));
  two_sided.terms[0].numbers.push_back(1);
  refuse({.mask = two_sided});
  refuse({.mask = masks::local_p(0, Tensor::zeros({2, 6}), Tensor::zeros({2}))});
  refuse({.mask = masks::lengths(Tensor::zeros({3}, DType::i64))});
  refuse({.mask = masks::matrix(Tensor::zeros({2, 4, 3, 4}))});
  refuse({.mask = masks::matrix(Tensor::zeros({1, 2, 4, 3, 5}))});
  refuse({.mask = {{MaskTerm{}}}});
  refuse({.score = scores::location(Tensor::zeros({4, 6}))});
  refuse({.score = {.bias = Bias{}}});
  refuse({.score = {.bias = Bias{.table = Tensor::zeros({3, 6})}}});
  refuse({.score = {.bias = Bias{.table = Tensor::zeros({8}), .relative = true}}});
  refuse({.score = {.bias = Bias{.table = Tensor::scalar(0), .relative = true}}});
  refuse({.weighting = {.temperature = 0}});
  refuse({.weighting = {.temperature = NAN}});
  refuse({.weighting = {.dropout = 1}});
  check_attention("attend",
                  {.score = {.bias = Bias{.table = Tensor::zeros({4, 7}), .relative = true}}},
                  kSizes);
  check_attention("attend", {.score = scores::cosine(Tensor::scalar(2))}, kSizes);
  check_attention("attend", {.score = scores::cosine(Tensor::zeros({4}))}, kSizes);
}

TEST(Biases, AlibiFallsWithTheDistanceFromWhereACausalQueryStands) {
  const Bias bias = biases::alibi(Tensor::from({0.5f, 2.0f}, {2}), 2, 3);
  // r = j − i + 1; a causal query stands at j = i + 1, r = 2.
  EXPECT_EQ(bias.table.shape(), (Shape{2, 4}));
  EXPECT_EQ(bias.table.to_vector(), (std::vector<float>{-1, -0.5f, 0, -0.5f, -4, -2, 0, -2}));
  EXPECT_TRUE(bias.relative);
}

TEST(Cosine, IsZeroForAZeroVector) {
  const Sizes n{.B = 1, .H = 1, .Hk = 1, .Lq = 1, .Lk = 2, .Dq = 2, .Dk = 2, .Dv = 1};
  ReferenceInputs in{.q = Tensor::zeros({1, 1, 1, 2}),
                     .k = generate::normal({1, 1, 2, 2}, 1),
                     .v = generate::normal({1, 1, 2, 1}, 2),
                     .n = n,
                     .weights = true};
  in.attention = {.score = scores::cosine(), .weighting = weightings::none()};
  EXPECT_EQ(reference_forward(in).weights, (std::vector<double>{0, 0}));
  for (const auto& [name, d] : reference_backward(in, {.weights = {1, 1}}))
    for (const double g : d) EXPECT_TRUE(std::isfinite(g)) << name;
}

}  // namespace
}  // namespace fovea
