#include "attention/expect.h"

// Results are the same to the bit at any number of threads, and every time.
namespace fovea::tests {
namespace {

class Threads {
 public:
  explicit Threads(int n) : before_(threads()) { set_threads(n); }
  ~Threads() { set_threads(before_); }

 private:
  int before_;
};

Results with_threads(int n, const Call& x, Ask ask) {
  const Threads use(n);
  return results(x, ask);
}

void expect_same_at_any_count(const Call& x, const std::string& what, Ask ask = Ask::everything) {
  const Results one = with_threads(1, x, ask);
  for (const int n : {2, 4}) {
    expect_same_bits(with_threads(n, x, ask), one, what + " at " + std::to_string(n) + " threads");
    if (testing::Test::HasFatalFailure()) return;
  }
}

TEST(Threads, DoNotShowInAnyScoreOrWeighting) {
  const Sizes n{.B = 2, .H = 4, .Hk = 2, .Lq = 20, .Lk = 40, .Dq = 12, .Dk = 12, .Dv = 9};
  for (const ScoreDef* score : score_table()) {
    for (const WeightingDef* weighting : weighting_table()) {
      Call x = call(n, {generate::score(*score, n, 2),
                        masks::causal(),
                        {.def = weighting, .dropout = 0.2f, .seed = 3}});
      const bool all = score->name == "scaled_dot" || score->name == "additive";
      expect_same_at_any_count(x, score->name + " " + weighting->name,
                               all ? Ask::everything : Ask::context);
      if (HasFatalFailure()) return;
    }
  }
}

TEST(Threads, DoNotShowInMasks) {
  const Sizes n{.B = 2, .H = 4, .Hk = 2, .Lq = 37, .Lk = 70, .Dq = 12, .Dk = 12, .Dv = 9};
  for (const MaskDef* mask : mask_table()) {
    const Call x = call(n, {{}, generate::mask(*mask, n, 4)});
    expect_same_at_any_count(x, mask->name);
    if (HasFatalFailure()) return;
  }
}

// Where units of work meet in one element of a gradient.
TEST(Threads, DoNotShowInBiasGradients) {
  const Sizes n{.B = 3, .H = 4, .Hk = 2, .Lq = 130, .Lk = 90, .Dq = 12, .Dk = 12, .Dv = 9};
  for (const Shape& shape :
       {Shape{1}, Shape{90}, Shape{130, 90}, Shape{4, 1, 90}, Shape{3, 4, 130, 90}}) {
    Call x = call(n);
    x.attention.score.bias = Bias{Tensor::randn(shape, 3), false};
    expect_same_at_any_count(x, "bias " + to_string(shape), Ask::context);
  }
  Call x = call(n);
  x.attention.score.bias = Bias{Tensor::randn({n.Lq + n.Lk - 1}, 3), true};
  expect_same_at_any_count(x, "bias by distance", Ask::context);
}

TEST(Threads, DoNotShowInTheLinearPlan) {
  const Sizes n{.B = 2, .H = 4, .Hk = 2, .Lq = 200, .Lk = 200, .Dq = 12, .Dk = 12, .Dv = 9};
  for (const Mask& mask : {Mask{}, masks::causal()}) {
    Call x = call(n, {scores::elu_dot(), mask, weightings::none()});
    x.want.plan = Plan::linear;
    expect_same_at_any_count(x, "linear");
  }
}

TEST(Threads, DoNotShowWhenDecoding) {
  for (const int64_t D : {32, 20}) {
    const Sizes n{.B = 1, .H = 8, .Hk = 2, .Lq = 1, .Lk = 3000, .Dq = D, .Dk = D, .Dv = D};
    for (const char* weighting : {"softmax", "sample", "sparsemax"})
      expect_same_at_any_count(call(n, {.weighting = fovea::weighting(weighting)}), weighting);
  }
}

// One head, one batch entry: the backward pass is cut into chunks of queries.
TEST(Threads, DoNotShowInAChunkedBackwardPass) {
  const int64_t L = reduced() ? 1030 : 1100;
  const Sizes n{.B = 1, .H = 1, .Hk = 1, .Lq = L, .Lk = 300, .Dq = 8, .Dk = 8, .Dv = 8};
  for (const char* score : {"scaled_dot", "additive_keras"}) {
    for (const char* mask : {"everything", "causal"}) {
      Call x = call(n, {score_for(score, n), fovea::mask(mask)});
      expect_same_at_any_count(x, std::string(score) + " " + mask, Ask::context);
      x.attention.score.bias = Bias{Tensor::randn({300}, 5), false};
      expect_same_at_any_count(x, std::string(score) + " " + mask + " with a bias", Ask::context);
    }
  }
}

TEST(Threads, DoNotShowOnAnyInstructionSet) {
  const Sizes n{.B = 2, .H = 2, .Hk = 1, .Lq = 70, .Lk = 90, .Dq = 12, .Dk = 12, .Dv = 9};
  for (const std::string& score : families()) {
    const Call x = call(n, {score_for(score, n), masks::causal()});
    on_every_isa([&](const std::string&) { expect_same_at_any_count(x, score, Ask::context); });
    if (HasFatalFailure()) return;
  }
}

TEST(Repeats, Of250ForwardAnd50BackwardPassesAreTheSame) {
  const Sizes n{.B = 2, .H = 4, .Hk = 2, .Lq = 70, .Lk = 65, .Dq = 16, .Dk = 16, .Dv = 16};
  const Threads use(4);
  for (const char* score : {"scaled_dot", "additive"}) {
    for (const char* weighting : {"softmax", "gumbel"}) {
      Call x = call(n, {score_for(score, n), masks::causal(), fovea::weighting(weighting)});
      x.attention.weighting.dropout = 0.1f;
      const std::vector<float> context = attend(x.q, x.k, x.v, x.attention).context.to_vector();
      for (int i = 0; i < 250; ++i)
        ASSERT_EQ(attend(x.q, x.k, x.v, x.attention).context.to_vector(), context) << "pass " << i;
      const Results first = results(x, Ask::context);
      for (int i = 0; i < 50; ++i) {
        expect_same_bits(results(x, Ask::context), first, "pass " + std::to_string(i));
        if (HasFatalFailure()) return;
      }
    }
  }
}

}  // namespace
}  // namespace fovea::tests
