#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "attention/expect.h"
#include "fovea/ops.h"
#include "tensor/impl.h"

// Queries, keys and values in 16 bits: the result is that of the same numbers in 32.
namespace fovea::tests {
namespace {

// Rounded weights cost up to 2⁻⁹ of each, of values up to 4, in the context and in Σ p·dp =
// context·d_context, which the gradients of the scores have in common; all else is float32. The
// matrix unit has weights, their gradients and d_context rounded on the way back too.
constexpr float kHalfRounded = 8e-3f, kHalfExact = 2e-5f, kHalfRoundedBack = 3e-2f;

struct HalfTypes {
  DType q, k, v;
};
// Where a device computes in bf16 the result is bf16 (bf16_test.cc).
class Halves : public testing::Test {
  void SetUp() override {
    if (computes_in(default_device(), DType::bf16)) GTEST_SKIP();
  }

 protected:
  template <class F>
  void on_every_isa(const F& f) {
    tests::on_every_isa(f, test::Numbers::narrow);
  }
};

constexpr HalfTypes kBf16{DType::bf16, DType::bf16, DType::bf16};
constexpr HalfTypes kF16{DType::f16, DType::f16, DType::f16};
constexpr HalfTypes kBf16Cache{DType::f32, DType::bf16, DType::bf16};
constexpr HalfTypes kHalfTypes[] = {
    kBf16, kF16, kBf16Cache, {DType::bf16, DType::f32, DType::bf16}};

struct HalfResults {
  std::vector<float> context, dq, dk, dv;
};

float farthest(const std::vector<float>& a, const std::vector<float>& b) {
  EXPECT_EQ(a.size(), b.size());
  float most = 0.0f;
  for (size_t i = 0; i < a.size(); ++i) {
    const float off = std::fabs(a[i] - b[i]);
    most = std::isnan(off) ? kInf : std::max(most, off);
  }
  return most;
}

// HalfLeaves of float32 that hold what 16 bits can.
struct HalfLeaves {
  Tensor q, k, v;
  HalfLeaves(const Call& c, const HalfTypes& t)
      : q(rounded(c.q, t.q)), k(rounded(c.k, t.k)), v(rounded(c.v, t.v)) {}
  static Tensor rounded(const Tensor& x, DType type) {
    return x.detach().to(type).to(DType::f32).clone().set_requires_grad();
  }
};

HalfResults run_halves(const Call& c, const HalfTypes& rounded, const HalfTypes& given) {
  HalfLeaves x(c, rounded);
  const Attended a = attend(x.q.to(given.q), x.k.to(given.k), x.v.to(given.v), c.attention, c.want);
  EXPECT_EQ(a.context.dtype(), DType::f32);
  a.context.backward(Tensor::randn(a.context.shape(), 11));
  const auto gradient = [](const Tensor& t) {  // none where the score does not look
    return t.grad() ? t.grad().to_vector() : std::vector<float>();
  };
  return {a.context.to_vector(), gradient(x.q), gradient(x.k), gradient(x.v)};
}

bool given_all_bf16(const HalfTypes& t) {
  return t.q == DType::bf16 && t.k == DType::bf16 && t.v == DType::bf16;
}

void expect_as_floats(const Call& c, const HalfTypes& types, float exact = kHalfExact) {
  const HalfTypes wide{DType::f32, DType::f32, DType::f32};
  const HalfResults half = run_halves(c, types, types), full = run_halves(c, types, wide);
  const bool rounds = types.q == DType::bf16;
  EXPECT_LE(farthest(half.context, full.context), rounds ? kHalfRounded : exact);
  const bool all_rounded = isa() == "amx" && given_all_bf16(types);
  const float score = all_rounded ? kHalfRoundedBack : rounds ? 3 * kHalfRounded : 20 * kHalfExact;
  EXPECT_LE(farthest(half.dq, full.dq), score);
  EXPECT_LE(farthest(half.dk, full.dk), score);
  EXPECT_LE(farthest(half.dv, full.dv), all_rounded ? kHalfRoundedBack : 20 * kHalfExact);
}

// Odd widths and lengths, shared heads, several blocks of queries and of keys; weights that are
// kept for the backward pass, of more keys than a block of the matrix unit has.
const std::vector<Sizes> kHalfSizes = {{2, 4, 2, 7, 9, 5, 5, 3},
                                       {1, 2, 2, 70, 67, 16, 16, 24},
                                       {1, 4, 1, 130, 600, 33, 33, 64},
                                       {2, 2, 2, 40, 40, 64, 64, 64},
                                       {1, 2, 1, 40, 300, 32, 32, 320}};

TEST_F(Halves, GiveWhatTheirFloatsGive) {
  on_every_isa([](const std::string&) {
    for (const Sizes& n : kHalfSizes) {
      for (const HalfTypes& types : kHalfTypes) {
        expect_as_floats(call(n), types);
        if (n.Lq <= n.Lk) expect_as_floats(call(n, {.mask = masks::causal()}), types);
        expect_as_floats(call(n, {.mask = masks::window(5, 3)}), types);
      }
    }
  });
}

TEST_F(Halves, OfFewKeysGiveWhatTheirFloatsGive) {
  on_every_isa([](const std::string&) {
    for (const int64_t width : {4, 7, 8, 16}) {
      for (int64_t Lk = 1; Lk <= 20; ++Lk) {
        SCOPED_TRACE(std::to_string(Lk) + " keys of " + std::to_string(width));
        for (const HalfTypes& types : kHalfTypes) {
          expect_as_floats(call({1, 1, 1, 3, Lk, width, width, 8}), types);
        }
        if (HasFailure()) return;
      }
    }
  });
}

TEST_F(Halves, OneQueryReadsThemWhereTheyLie) {
  struct Shape {
    int64_t H, D, Dv;
  };
  constexpr Shape kShapes[] = {{1, 64, 64},  {4, 64, 64},  {5, 64, 64}, {6, 64, 64},
                               {5, 128, 32}, {1, 32, 128}, {6, 16, 48}, {4, 40, 8}};
  const Tensor lengths = Tensor::from_ids(std::vector<int64_t>{513, 1}, {2});
  on_every_isa([&](const std::string&) {
    for (const auto& [H, D, Dv] : kShapes) {
      for (const HalfTypes& types : kHalfTypes) {
        expect_as_floats(call({2, H, 1, 1, 1100, D, D, Dv}), types);
        expect_as_floats(call({2, H, 1, 1, 1100, D, D, Dv}, {.mask = masks::lengths(lengths)}),
                         types);
      }
    }
  });
}

TEST_F(Halves, WorkWithEveryScoreMaskAndWeighting) {
  const Sizes n{1, 2, 2, 20, 37, 8, 8, 8};
  for (const ScoreDef* score : score_table()) {
    expect_as_floats(call(n, {.score = generate::score(*score, n, 5)}), kBf16);
  }
  for (const Listed& weighting : list_weightings()) {
    if (weighting.hard) continue;  // a rounded score may choose another key
    for (const HalfTypes& types : {kF16, kBf16Cache}) {
      Attention a{.mask = masks::window(6, 3)};
      a.weighting = fovea::weighting(weighting.name);
      expect_as_floats(call(n, a), types, 1e-4f);
    }
  }
  Attention hard{.weighting = weightings::argmax()};
  expect_as_floats(call(n, hard), kBf16Cache);
  Attention predicted{.mask = masks::local_p(5, Tensor::randn({4, 8}, 1), Tensor::randn({4}, 2))};
  expect_as_floats(call(n, predicted), kBf16);
}

// What is asked for besides reaches the gradients of 16 bits too; relative to the largest of each.
TEST_F(Halves, HaveTheGradientsOfWhateverIsAsked) {
  const Sizes n{1, 4, 2, 83, 150, 40, 40, 24};
  std::vector<Call> calls;
  for (const char* weighting : {"softmax", "sigmoid", "none", "entmax15"}) {
    Call c = call(n, {.mask = masks::window(90, 40)});
    c.attention.weighting = fovea::weighting(weighting);
    calls.push_back(std::move(c));
  }
  calls.push_back(call(n));
  calls.back().attention.weighting.dropout = 0.2f;
  calls.push_back(call(n, {.weighting = weightings::softmax(2.0f, Tensor::randn({4}, 8))}));
  calls.push_back(call({1, 2, 2, 83, 150, 40, 40, 24}));
  calls.back().attention.score.bias = Bias{Tensor::randn({1, 2, 83, 150}, 9)};
  calls.push_back(call({1, 2, 1, 64, 64, 32, 32, 32}));
  calls.back().attention.score.softcap = 2.0f;
  on_every_isa([&](const std::string&) {
    for (const Call& c : calls) {
      const HalfTypes wide{DType::f32, DType::f32, DType::f32};
      const HalfResults half = run_halves(c, kBf16, kBf16), full = run_halves(c, kBf16, wide);
      const auto expect_near = [](const std::vector<float>& a, const std::vector<float>& b) {
        float largest = 0.0f;
        for (const float x : b) largest = std::max(largest, std::fabs(x));
        EXPECT_LE(farthest(a, b), 1e-2f * largest);
      };
      expect_near(half.context, full.context);
      expect_near(half.dq, full.dq);
      expect_near(half.dk, full.dk);
      expect_near(half.dv, full.dv);
    }
  });
}

TEST_F(Halves, AreReadThroughAnyStrides) {
  const auto heads = [](const Tensor& x) { return x.transpose(1, 2); };
  const auto wide = [](const Tensor& x) { return x.transpose(2, 3).contiguous().transpose(2, 3); };
  const Call c = call({2, 6, 6, 6, 6, 12, 12, 20});
  const Tensor q = c.q.to(DType::bf16), k = c.k.to(DType::bf16), v = c.v.to(DType::bf16);
  for (const auto& view : {+heads, +wide}) {
    const Tensor a = attend(view(q), view(k), view(v)).context;
    const auto same = [&](const Tensor& x) { return view(x).contiguous(); };
    EXPECT_EQ(a.to_vector(), attend(same(q), same(k), same(v)).context.to_vector());
  }
  const auto every_other = [](const Tensor& x) { return x.slice(3, 1, x.size(3), 2); };
  const Tensor b = attend(every_other(q), every_other(k), every_other(v)).context;
  const Tensor again =
      attend(every_other(q).contiguous(), every_other(k).contiguous(), every_other(v).contiguous())
          .context;
  EXPECT_EQ(b.to_vector(), again.to_vector());
}

TEST_F(Halves, GiveTheSameBitsWithAnyNumberOfThreads) {
  const int before = threads();
  const Call calls[] = {call({1, 8, 2, 1, 3000, 64, 64, 64}),
                        call({1, 2, 2, 150, 150, 64, 64, 64})};
  for (const Call& c : calls) {
    set_threads(1);
    const HalfResults one = run_halves(c, kBf16, kBf16);
    set_threads(3);
    const HalfResults three = run_halves(c, kBf16, kBf16);
    EXPECT_EQ(one.context, three.context);
    EXPECT_EQ(one.dq, three.dq);
    EXPECT_EQ(one.dk, three.dk);
    EXPECT_EQ(one.dv, three.dv);
  }
  set_threads(before);
}

// What a mask hides is not read, whatever it is; what is seen shows.
TEST_F(Halves, HiddenNansStayHidden) {
  on_every_isa([](const std::string&) {
    for (const int64_t Lq : {1, 30}) {
      const Call c = call({1, 2, 2, Lq, 300, 32, 32, 32});
      Tensor k = c.k.clone(), v = c.v.clone();
      for (int64_t h = 0; h < 2; ++h) {
        for (Tensor* t : {&k, &v}) t->select(1, h).slice(1, 201, 300).fill_(kNan);
        v.select(1, h).slice(1, 202, 203).fill_(kInf);
      }
      const Tensor lengths = Tensor::from_ids(std::vector<int64_t>{201}, {1});
      const Attention shown{.mask = masks::lengths(lengths)};
      const auto bf16 = [](const Tensor& x) { return x.to(DType::bf16); };
      const Attended hidden = attend(bf16(c.q), bf16(k), bf16(v), shown);
      const Attended without = attend(bf16(c.q), bf16(c.k), bf16(c.v), shown);
      EXPECT_LE(farthest(hidden.context.to_vector(), without.context.to_vector()), kHalfRounded);
      EXPECT_TRUE(std::isnan(attend(bf16(c.q), bf16(k), bf16(v)).context.to_vector()[0]));
    }
  });
}

// An infinite number beside another in one word stays what it is.
TEST_F(Halves, InfiniteKeysAreForbidden) {
  const Call c = call({1, 1, 1, 4, 40, 16, 16, 16});
  Tensor q = c.q.clone(), k = c.k.clone();
  q.fill_(1.0f);
  k.select(2, 7).fill_(-kInf);
  const auto bf16 = [](const Tensor& x) { return x.to(DType::bf16); };
  const Attended a = attend(bf16(q), bf16(k), bf16(c.v));
  EXPECT_EQ(a.weights().to_vector()[7], 0.0f);
  EXPECT_FALSE(std::isnan(a.context.to_vector()[0]));
}

TEST_F(Halves, LooksInsideAreThoseOfTheFloats) {
  const Sizes n{1, 4, 2, 66, 90, 30, 30, 16};
  for (const HalfTypes& types : kHalfTypes) {
    const HalfLeaves x(call(n), types);
    const Attended half = attend(x.q.to(types.q), x.k.to(types.k), x.v.to(types.v));
    const Attended full = attend(x.q, x.k, x.v);
    const Select some{.heads = {1, 3}, .rows = {65, 0, 7}};
    EXPECT_LE(farthest(half.weights().to_vector(), full.weights().to_vector()), kHalfExact);
    EXPECT_LE(farthest(half.weights(some).to_vector(), full.weights(some).to_vector()), kHalfExact);
    EXPECT_LE(farthest(half.entropy().to_vector(), full.entropy().to_vector()), 10 * kHalfExact);
    EXPECT_LE(farthest(half.log_sum_exp().to_vector(), full.log_sum_exp().to_vector()),
              10 * kHalfExact);
  }
}

TEST_F(Halves, TakeTwoBytesANumber) {
  const Call c = call({1, 8, 8, 256, 2048, 64, 64, 64});
  const NoGrad off;
  const Tensor q = c.q.to(DType::bf16), k = c.k.to(DType::bf16), v = c.v.to(DType::bf16);
  const int64_t floats = 2 * k.numel() * size_of(DType::f32);
  reset_memory_peak();
  const int64_t held = memory_in_use();
  attend(q, k, v);
  EXPECT_LT(memory_peak() - held, floats * 3 / 4);
}

TEST_F(Halves, OthersAreRefused) {
  const Call c = call({1, 1, 1, 2, 3, 4, 4, 4});
  try {
    attend(c.q.to(DType::i8), c.k, c.v);
    ADD_FAILURE() << "i8 was taken";
  } catch (const Error& e) {
    EXPECT_EQ(std::string(e.what()), "[attend] q is i8, expected f32, bf16 or f16");
  }
}

}  // namespace
}  // namespace fovea::tests
