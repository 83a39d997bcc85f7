#include <thread>

#include "tensor/tape.h"
#include "tests/tensor/check.h"

// Gradients taken once for many uses, and operations with several outputs.
namespace fovea {
namespace {

Tensor leaf(std::initializer_list<float> values) {
  const std::vector<float> v(values);
  return Tensor::from(v, {static_cast<int64_t>(v.size())}).set_requires_grad();
}

// w·x at many x; counts how often its gradient was taken, and how many uses gave to it.
struct Scaling {
  struct Rows {
    std::vector<Tensor> parts;
  };
  Tensor w;
  std::vector<size_t> taken;
  Deferred<Rows> deferred;

  explicit Scaling(const Tensor& weight) : w(weight) {
    deferred = Deferred<Rows>("scaling", {w}, [this](const Rows& all) {
      taken.push_back(all.parts.size());
      Tensor dw = Tensor::zeros(w.shape());
      for (const Tensor& t : all.parts) dw.add_(t);
      return Grads{dw};
    });
  }
  Tensor operator()(const Tensor& x) const {
    return deferred.use("scaling", {x}, w.detach() * x.detach(),
                        [kx = Saved(x), kw = Saved(w)](const Tensor& dy, Rows* kept) {
                          if (kept != nullptr) kept->parts.push_back(dy * kx.get("scaling"));
                          return Grads{dy * kw.get("scaling")};
                        });
  }
};

std::vector<float> ones_through(const Tensor& y, const Tensor& x) {
  return gradients(y, Tensor::full(y.shape(), 1.0f), std::vector{x})[0].to_vector();
}

TEST(Deferred, IsTakenOnceForAllUses) {
  Scaling scale(leaf({2, 3}));
  const Tensor x = leaf({5, 7});
  const Tensor y = scale(scale(scale(x)));  // w³x
  for (int pass = 0; pass < 2; ++pass) {
    EXPECT_EQ(ones_through(y, scale.w), (std::vector<float>{3 * 4 * 5, 3 * 9 * 7}));
  }
  EXPECT_EQ(scale.taken, (std::vector<size_t>{3, 3}));
  y.backward(Tensor::full({2}, 1.0f));
  EXPECT_EQ(scale.w.grad().to_vector(), (std::vector<float>{60, 189}));
  EXPECT_EQ(x.grad().to_vector(), (std::vector<float>{8, 27}));
}

TEST(Deferred, OnlyUsesOnTheWayCount) {
  Scaling scale(leaf({2}));
  const Tensor x = leaf({5}), y = scale(x), unused = scale(x), z = scale(x);
  EXPECT_EQ(ones_through(y + z, scale.w), (std::vector<float>{10}));
  EXPECT_EQ(scale.taken, (std::vector<size_t>{2}));
}

TEST(Deferred, NothingIsKeptThatNobodyWants) {
  Scaling scale(leaf({2}));
  const Tensor x = leaf({5}), y = scale(scale(x));
  EXPECT_EQ(ones_through(y, x), (std::vector<float>{4}));
  EXPECT_TRUE(scale.taken.empty());
  EXPECT_EQ(ones_through(y, scale.w), (std::vector<float>{20}));
  EXPECT_EQ(scale.taken, (std::vector<size_t>{2}));
}

TEST(Deferred, OfInputsWithoutGradients) {
  Scaling scale(Tensor::full({1}, 2.0f));
  EXPECT_FALSE(scale.deferred);
  const Tensor x = leaf({5});
  EXPECT_EQ(ones_through(scale(x), x), (std::vector<float>{2}));
  EXPECT_FALSE(scale(x.detach()).requires_grad());
  EXPECT_TRUE(scale.taken.empty());
}

// A backward function that walks a graph of its own, which has the same deferred gradient.
TEST(Deferred, PassesNest) {
  Scaling scale(leaf({2}));
  const Tensor x = leaf({5}), inner = scale(scale(x));  // w²x
  const Tensor outer = record("outer", {x, scale.w}, inner.detach(), [&](const Tensor& dy) {
    return gradients(inner, dy, std::vector{x, scale.w});
  });
  const Tensor y = scale(outer);  // w³x
  EXPECT_EQ(ones_through(scale(y), scale.w), (std::vector<float>{4 * 8 * 5}));
  EXPECT_EQ(scale.taken, (std::vector<size_t>{2, 2}));
}

// An error on the way leaves nothing for the next pass.
TEST(Deferred, APassThatFailsLeavesNothing) {
  Scaling scale(leaf({2}));
  const Tensor x = leaf({5});
  bool broken = true;
  const Tensor mid = record("mid", {x}, x.detach(), [&](const Tensor& dy) -> Grads {
    if (broken) throw Error("mid", "broken");
    return {dy};
  });
  const Tensor y = scale(scale(mid));
  const auto both = [&] { return gradients(y, Tensor::full({1}, 1.0f), std::vector{x, scale.w}); };
  const int64_t before = memory_in_use();
  EXPECT_EQ(error_of([&] { both(); }), "[mid] broken");
  EXPECT_EQ(memory_in_use(), before);
  broken = false;
  EXPECT_EQ(both()[1].item(), 20.0f);
}

TEST(Deferred, ThreadsWalkTheirOwnGraphsOrOne) {
  const Tensor x = leaf({5});
  const auto of = [&](const Tensor& w) {
    const Deferred<Tensor> deferred("square", {w}, [](const Tensor& d) { return Grads{d}; });
    Tensor y = x;
    for (int i = 0; i < 50; ++i) {
      y = deferred.use("step", {y}, y.detach() * w.detach(),
                       [ky = Saved(y), kw = Saved(w)](const Tensor& dy, Tensor* d) {
                         const Tensor part = dy * ky.get("step");
                         if (d != nullptr) *d = *d ? *d + part : part;
                         return Grads{dy * kw.get("step")};
                       });
    }
    return y;
  };
  const Tensor w = leaf({1.01f}), shared = of(w);
  const std::vector<float> expected = ones_through(shared, w);
  std::vector<int> wrong(4);
  std::vector<std::thread> all;
  for (int t = 0; t < 4; ++t) {
    all.emplace_back([&, t] {
      const Tensor own_w = leaf({1.01f}), own = of(own_w);
      for (int i = 0; i < 50; ++i) {
        wrong[t] += ones_through(own, own_w) != expected;
        wrong[t] += ones_through(shared, w) != expected;
      }
    });
  }
  for (auto& t : all) t.join();
  EXPECT_EQ(wrong, std::vector<int>(4));
}

TEST(Deferred, WhatIsKeptEndsWithThePass) {
  const Tensor w = Tensor::full({1 << 12}, 2.0f).set_requires_grad();
  const Tensor x = Tensor::full({1 << 12}, 3.0f).set_requires_grad();
  const int64_t before = memory_in_use();
  {
    Scaling scale(w);
    const Tensor never = scale(scale(x));
    const Tensor y = sum(scale(scale(x)));
    const int64_t graph = memory_in_use();
    for (const Tensor& t : {x, w}) {
      for (int i = 0; i < 3; ++i) {
        ones_through(y, t);
        EXPECT_EQ(memory_in_use(), graph);
      }
    }
  }
  EXPECT_EQ(memory_in_use(), before) << "kept, or never walked";
  {
    Scaling scale(w);
    sum(scale(scale(x))).backward();
    for (Tensor t : {x, w}) t.zero_grad();
  }
  EXPECT_EQ(memory_in_use(), before) << "freed by backward()";
}

// x + y, x − y, and an output that is not there; notes which gradients came.
std::vector<Tensor> sum_and_difference(const Tensor& x, const Tensor& y, std::string* came) {
  const Tensor a = x.detach(), b = y.detach();
  return record("pair", {x, y}, {a + b, Tensor(), a - b}, [came](const Grads& d) {
    *came += d[0] ? "+" : "";
    *came += d[1] ? "?" : "";
    *came += d[2] ? "-" : "";
    const Tensor zero = Tensor::zeros({2}), p = d[0] ? d[0] : zero, m = d[2] ? d[2] : zero;
    return Grads{p + m, p - m};
  });
}

TEST(SeveralOutputs, OneBackwardForThoseThatAreUsed) {
  const Tensor x = leaf({1, 2}), y = leaf({10, 20});
  std::string came;
  const auto out = sum_and_difference(x, y, &came);
  ASSERT_EQ(out.size(), 3u);
  EXPECT_EQ(out[0].to_vector(), (std::vector<float>{11, 22}));
  EXPECT_FALSE(out[1]);
  EXPECT_EQ(ones_through(out[0], y), (std::vector<float>{1, 1}));
  EXPECT_EQ(ones_through(out[2], y), (std::vector<float>{-1, -1}));
  EXPECT_EQ(ones_through(out[0] * out[2], y), (std::vector<float>{-20, -40}));  // x² − y²
  EXPECT_EQ(ones_through(out[0] * 2.0f + out[0], out[0]), (std::vector<float>{3, 3}));
  EXPECT_EQ(came, "+-+-");
  sum(out[0] * out[2]).backward();
  EXPECT_EQ(x.grad().to_vector(), (std::vector<float>{2, 4}));
  EXPECT_EQ(
      error_of([&] { sum(out[0]).backward(); }),
      "[backward] the graph through pair was freed by an earlier backward(); compute it again");
}

TEST(SeveralOutputs, WithoutGradients) {
  std::string came;
  const Tensor x = Tensor::zeros({2});
  EXPECT_FALSE(sum_and_difference(x, x, &came)[0].requires_grad());
  const Tensor y = leaf({1, 2});
  const NoGrad off;
  EXPECT_FALSE(sum_and_difference(x, y, &came)[2].requires_grad());
}

TEST(SeveralOutputs, TheGraphIsFreed) {
  const Tensor x = leaf({1, 2}), y = leaf({10, 20});
  std::string came;
  const int64_t before = memory_in_use();
  sum_and_difference(x, y, &came);
  {
    const auto out = sum_and_difference(x, y, &came);
    ones_through(out[0], x);
  }
  EXPECT_EQ(memory_in_use(), before);
}

}  // namespace
}  // namespace fovea
