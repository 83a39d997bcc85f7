#include <atomic>
#include <chrono>
#include <functional>
#include <thread>

#include "attention/expect.h"
#include "fovea/memory.h"

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
                        {.def = weighting,
                         .numbers = generate::numbers(weighting),
                         .dropout = 0.2f,
                         .seed = 3}});
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

// ---- set_threads() while others are at work
// ------------------------------------------------------

// Every path that has scratch of its own: keys packed for few blocks and for many, a backward pass
// in one piece and in chunks, biases, the linear plan, pairs, and steps of a memory.
std::vector<std::function<Results()>> paths_with_scratch() {
  const Sizes few{.B = 8, .H = 2, .Hk = 2, .Lq = 12, .Lk = 20, .Dq = 8, .Dk = 8, .Dv = 8};
  const Sizes many{.B = 2, .H = 4, .Hk = 2, .Lq = 150, .Lk = 70, .Dq = 12, .Dk = 12, .Dv = 9};
  const Sizes chunked{.B = 1, .H = 1, .Hk = 1, .Lq = 1030, .Lk = 40, .Dq = 8, .Dk = 8, .Dv = 8};
  std::vector<std::function<Results()>> all;
  const auto add = [&](const Call& x, Ask ask = Ask::everything) {
    all.emplace_back([x, ask] { return results(x, ask); });
  };
  add(call(few));
  add(call(many, {.mask = masks::causal()}));
  add(call(many, {score_for("additive", many), masks::causal()}));
  add(call(few, {score_for("location", few)}), Ask::context);
  add(call(chunked), Ask::context);
  Call biased = call(many);
  biased.attention.score.bias = Bias{Tensor::randn({many.Lq, many.Lk}, 3), false};
  add(biased, Ask::context);
  Call linear = call(many, {scores::elu_dot(), masks::causal(), weightings::none()});
  linear.want.plan = Plan::linear;
  add(linear, Ask::context);
  all.emplace_back([] {
    const Tensor q = Tensor::randn({4, 16}, 1).set_requires_grad();
    const Tensor k = Tensor::randn({4, 400, 16}, 2).set_requires_grad();
    const Score score = score_for(
        "additive", {.B = 4, .H = 1, .Hk = 1, .Lq = 1, .Lk = 400, .Dq = 16, .Dk = 16, .Dv = 16});
    Memory memory(k, k, score);
    Results r;
    const Tensor context = memory(q).context;
    r["context"] = context.to_vector();
    const std::vector<Tensor> of = {q, k};
    const std::vector<Tensor> grads = gradients(context, Tensor::randn(context.shape(), 5), of);
    r["dq"] = grads[0].to_vector();
    r["dk"] = grads[1].to_vector();
    return r;
  });
  return all;
}

TEST(Threads, MayChangeWhileOthersAttend) {
  const Threads quiet(2);
  const auto paths = paths_with_scratch();
  std::vector<Results> expected;
  for (const auto& path : paths) expected.push_back(path());
  std::atomic<bool> over{false};
  std::vector<std::thread> callers;
  for (size_t c = 0; c < 4; ++c) {
    callers.emplace_back([&, c] {
      for (size_t i = c; !over; ++i) {
        const size_t path = i % paths.size();
        expect_same_bits(paths[path](), expected[path], "path " + std::to_string(path));
        if (testing::Test::HasFailure()) over = true;
      }
    });
  }
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(2);
  for (int i = 0; !over && std::chrono::steady_clock::now() < end; ++i) {
    set_threads(i % 2 == 0 ? 8 : 1);
  }
  over = true;
  for (std::thread& t : callers) t.join();
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

// Rows of 3 values are filled up to a vector, next to what the other thread computes with.
TEST(Repeats, BesideAnotherThreadsMemoryAreTheSame) {
  const Call x = call({.B = 2, .H = 4, .Hk = 2, .Lq = 5, .Lk = 7, .Dq = 6, .Dk = 6, .Dv = 3});
  const auto context = [&] { return attend(x.q, x.k, x.v, x.attention).context.to_vector(); };
  const NoGrad quiet;
  const Threads use(2);
  const std::vector<float> first = context();
  for (int i = 0; i < 20'000; ++i) ASSERT_EQ(context(), first) << "pass " << i;
}

}  // namespace
}  // namespace fovea::tests
