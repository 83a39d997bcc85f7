#include "attention/expect.h"
#include "fovea/runtime.h"

// Softmax over few keys keeps its weights for the backward pass: gradients are the same, and memory
// stays linear.
namespace fovea::tests {
namespace {

struct KeptShape {
  int64_t Lq, Lk, D, Dv;
};

// On both sides of what is kept: 64 keys, or as many as the context is wide; few queries of wide
// values; rows of several blocks.
constexpr KeptShape kKeptShapes[] = {{19, 64, 8, 8},     {19, 65, 8, 8},   {10, 40, 32, 256},
                                     {10, 130, 16, 256}, {70, 33, 16, 16}, {130, 16, 32, 32},
                                     {9, 140, 7, 139},   {9, 139, 7, 139}};

TEST(Kept, GradientsAreThoseOfTheReference) {
  for (const KeptShape& s : kKeptShapes) {
    const Sizes n{
        .B = 2, .H = 2, .Hk = 1, .Lq = s.Lq, .Lk = s.Lk, .Dq = s.D, .Dk = s.D, .Dv = s.Dv};
    for (const char* score : {"scaled_dot", "additive_keras"}) {
      for (const char* mask : {"", "causal"}) {
        Call x = call(n, {score_for(score, n), fovea::mask(mask)});
        const auto expected = reference_results(x);
        on_every_isa([&](const std::string&) {
          expect_near(results(x, Ask::context), expected, {1e-5, 1.3e-6}, {2e-5, 1e-4},
                      std::string(score) + " " + mask + " Lk=" + std::to_string(s.Lk));
        });
        if (HasFatalFailure()) return;
      }
    }
  }
}

int64_t held_by_forward(const KeptShape& s) {
  const Sizes n{.B = 1, .H = 1, .Hk = 1, .Lq = s.Lq, .Lk = s.Lk, .Dq = s.D, .Dk = s.D, .Dv = s.Dv};
  Call x = call(n);
  const Leaves leaves = make_leaves(x);
  const int64_t before = memory_in_use();
  const Attended a = attend(x.q, x.k, x.v, x.attention);
  return memory_in_use() - before;
}

TEST(Kept, NoMoreThanTheContextOr64NumbersARow) {
  const auto floats = [](const KeptShape& s) { return held_by_forward(s) / 4 / s.Lq; };
  const int64_t few = floats({1000, 64, 8, 8});  // context, statistic, weights; in whole blocks
  EXPECT_GT(few, 8 + 64);
  EXPECT_LT(few, 2 * (8 + 1 + 64));
  EXPECT_LT(floats({1000, 65, 8, 8}), 2 * (8 + 1));
  EXPECT_LT(floats({1000, 256, 8, 256}), 2 * (256 + 1 + 256));
  EXPECT_LT(floats({1000, 257, 8, 256}), 2 * (256 + 1));
}

}  // namespace
}  // namespace fovea::tests
