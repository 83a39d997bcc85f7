#include <gtest/gtest.h>

#include <algorithm>

#include "attention/expect.h"
#include "core/allocator.h"
#include "core/random.h"
#include "tests/host.h"

// Masks of several terms: each stays as it was given, and together they forbid what one matrix of
// all of them would.
namespace fovea::tests {
namespace {

Tensor ids(int64_t B, int64_t L, int64_t segments, uint64_t seed) {
  const RandomKey key = random_key(seed, Purpose::tensor);
  std::vector<int64_t> all(static_cast<size_t>(B * L));
  for (size_t i = 0; i < all.size(); ++i) all[i] = bits32(key, i) % segments;
  return Tensor::from_ids(all, {B, L});
}

Tensor bools(const Shape& shape, uint64_t seed) {
  int64_t numel = 1;
  for (const int64_t d : shape) numel *= d;
  const RandomKey key = random_key(seed, Purpose::tensor);
  std::vector<uint8_t> all(static_cast<size_t>(numel));
  for (size_t i = 0; i < all.size(); ++i) all[i] = bits32(key, i) % 10 < 8;
  return Tensor::from_bools(all, shape);
}

// Adds to the scores, and forbids here and there.
Tensor additions(const Shape& shape, uint64_t seed) {
  Tensor t = Tensor::randn(shape, seed);
  test::edit<float>(t, [&](float* x) {
    for (int64_t i = 0; i < t.numel(); i += 5) x[i] = -kInf;
  });
  return t;
}

Mask one_of(int64_t which, const Sizes& n, uint64_t seed) {
  switch (which) {
    case 0:
      return masks::matrix(bools({n.Lk}, seed));
    case 1:
      return masks::matrix(bools({n.H, n.Lq, 1}, seed));
    case 2:
      return masks::matrix(bools({n.B, 1, n.Lq, n.Lk}, seed));
    case 3:
      return masks::segments(ids(n.B, n.Lq, 2, seed), ids(n.B, n.Lk, 2, seed + 1));
    case 4:
      return masks::causal();
    case 5:
      return masks::lengths(Tensor::from_ids(std::vector<int64_t>(n.B, n.Lk - 2), {n.B}));
    case 6:
      return masks::window(9, 5);
    default:
      return masks::matrix(additions({n.Lk}, seed));
  }
}
constexpr int64_t kKinds = 8;

// The terms that are conditions as one matrix; the others as they are.
Mask with_one_matrix(const Mask& mask, const Sizes& n) {
  const MaskContext context = mask_context(mask, n);
  Tensor all = Tensor::empty({n.B, n.H, n.Lq, n.Lk}, DType::boolean);
  std::fill_n(all.mutable_data<uint8_t>(), all.numel(), uint8_t{1});
  Mask out;
  for (const MaskTerm& term : mask.terms) {
    const bool added = term.def->bias && term.def->bias(term);
    if (!term.def->allows || added) {
      out.terms.push_back(term);
      continue;
    }
    uint8_t* at = all.mutable_data<uint8_t>();
    for (int64_t b = 0; b < n.B; ++b)
      for (int64_t h = 0; h < n.H; ++h)
        for (int64_t i = 0; i < n.Lq; ++i)
          for (int64_t j = 0; j < n.Lk; ++j, ++at)
            *at &= static_cast<uint8_t>(term.def->allows(term, context, b, h, i, j));
  }
  return out & masks::matrix(all);
}

Mask drawn(uint64_t seed, const Sizes& n) {
  const RandomKey key = random_key(seed, Purpose::tensor);
  const int64_t terms = 2 + bits32(key, 0) % 3;
  Mask mask;
  bool added = false;
  for (int64_t t = 0; t < terms; ++t) {
    int64_t which = bits32(key, 1 + t) % kKinds;
    if (which == kKinds - 1 && added) which = 3;  // two of one name would hide a gradient
    added |= which == kKinds - 1;
    mask = mask & one_of(which, n, seed * 100 + t);
  }
  return mask;
}

TEST(Terms, TogetherGiveTheBitsOfOneMatrix) {
  const Sizes n{.B = 2, .H = 4, .Hk = 2, .Lq = 23, .Lk = 37, .Dq = 8, .Dk = 8, .Dv = 5};
  const std::vector<std::pair<const char*, Weighting>> kinds = {
      {"scaled_dot", {}},
      {"additive", {.dropout = 0.2f, .seed = 3}},
      {"scaled_dot", weightings::entmax15()},
      {"mlp", {}},
      {"dot", weightings::sample(5)},
  };
  for (uint64_t seed = 1; seed <= (reduced() ? 10u : 40u); ++seed) {
    const auto& [score, weighting] = kinds[seed % kinds.size()];
    Call x = call(n, {score_for(score, n), drawn(seed, n), weighting});
    const Results apart = results(x);
    x.attention.mask = with_one_matrix(x.attention.mask, n);
    Results together = results(x);
    for (auto it = together.begin(); it != together.end();)  // parameters of fewer terms
      it = apart.contains(it->first) ? std::next(it) : together.erase(it);
    expect_same_bits(apart, together, std::string(score) + " " + std::to_string(seed));
    if (HasFatalFailure()) return;
  }
}

TEST(Terms, TogetherMatchTheReference) {
  const Sizes n{.B = 2, .H = 2, .Hk = 1, .Lq = 11, .Lk = 19, .Dq = 7, .Dk = 7, .Dv = 5};
  for (const std::string score : {"scaled_dot", "additive", "mlp"}) {
    for (uint64_t seed = 1; seed <= (reduced() ? 6u : 24u); ++seed) {
      const Call x = call(n, {score_for(score, n), drawn(seed, n), {}});
      expect_near(results(x, Ask::context), reference_results(x), {2e-5, 2e-4},
                  score + " " + std::to_string(seed));
      if (HasFatalFailure()) return;
    }
  }
}

TEST(Terms, AreReadAgainSoTheyMustNotChange) {
  const Sizes n{.B = 1, .H = 1, .Hk = 1, .Lq = 4, .Lk = 6, .Dq = 3, .Dk = 3, .Dv = 2};
  const Tensor k_segments = ids(1, n.Lk, 2, 1);
  Call x = call(n, {.mask = masks::segments(ids(1, n.Lq, 2, 2), k_segments)});
  make_leaves(x);
  const Attended a = attend(x.q, x.k, x.v, x.attention);
  Tensor(k_segments).copy_(ids(1, n.Lk, 2, 7));
  EXPECT_THROW(a.context.backward(Tensor::randn(a.context.shape(), 1)), Error);
}

// What attend(), its gradient and looks inside take at most, beside the call itself.
int64_t taken(const Sizes& n, const Mask& mask) {
  Call x = call(n, {.mask = mask});
  const Leaves leaves = make_leaves(x);
  const Tensor d = Tensor::randn({n.B, n.H, n.Lq, n.Dv}, 2);
  const int64_t before = memory_in_use();
  reset_memory_peak();
  const Attended a = attend(x.q, x.k, x.v, x.attention);
  a.context.backward(d);
  a.entropy();
  a.weights({{}, {n.Lq - 1}});
  return memory_peak() - before;
}

// A byte for every pair would be 256 MiB; terms take less than 4 beside what a call without them
// does, 37 MiB.
TEST(Terms, TakeMemoryByTheirOwnSize) {
  const int64_t L = reduced() ? 4096 : 16384;
  const Sizes n{.B = 1, .H = 1, .Hk = 1, .Lq = L, .Lk = L, .Dq = 8, .Dk = 8, .Dv = 8};
  const Mask keys = masks::matrix(bools({1, 1, 1, L}, 1)), rows = masks::matrix(bools({L, 1}, 2));
  const Mask lengths = masks::lengths(Tensor::from_ids(std::vector<int64_t>{L - 9}, {1}));
  const Mask segments = masks::segments(ids(1, L, 3, 3), ids(1, L, 3, 4));
  const int64_t plain = test::on_gpu() ? int64_t{37} << 20 : taken(n, {});  // the host's memory
  EXPECT_LT(plain, int64_t{64} << 20);
  for (const Mask& mask : {keys & lengths & segments & masks::causal(), keys & rows & lengths,
                           segments & masks::window(200, 300) & rows}) {
    EXPECT_LT(taken(n, mask), plain + L * L / 64);
  }
}

}  // namespace
}  // namespace fovea::tests
