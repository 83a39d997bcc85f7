#include "attention/expect.h"

// Packed sequences, in order and not.
namespace fovea::tests {
namespace {

constexpr Sizes kSegmentSizes{
    .B = 2, .H = 2, .Hk = 1, .Lq = 40, .Lk = 70, .Dq = 6, .Dk = 6, .Dv = 5};

// Segments of B rows of L, of given lengths one after another.
Tensor packed(int64_t L, const std::vector<std::vector<int64_t>>& lengths) {
  std::vector<int64_t> ids;
  for (const std::vector<int64_t>& row : lengths) {
    for (size_t s = 0; s < row.size(); ++s) ids.insert(ids.end(), row[s], static_cast<int64_t>(s));
  }
  return Tensor::from_ids(ids, {static_cast<int64_t>(lengths.size()), L});
}

TEST(Segments, SortedOrNotAreAsTheReferenceSays) {
  const Tensor q = packed(40, {{11, 17, 12}, {30, 1, 9}});
  const Tensor sorted = packed(70, {{20, 0, 50}, {3, 3, 64}});
  std::vector<int64_t> ids = sorted.to_ids();
  for (size_t j = 0; j < ids.size(); j += 7) ids[j] = static_cast<int64_t>(j) % 3;
  const Tensor mixed = Tensor::from_ids(ids, {2, 70});
  for (const std::string& score : families()) {
    for (const Tensor& k : {sorted, mixed}) {
      for (const Mask& also : {Mask{}, masks::causal()}) {
        const Call x =
            call(kSegmentSizes, {score_for(score, kSegmentSizes), masks::segments(q, k) & also});
        expect_near(results(x, Ask::context), reference_results(x), {1e-5, 1e-5}, {2e-5, 1e-4},
                    score);
        if (HasFatalFailure()) return;
      }
    }
  }
}

}  // namespace
}  // namespace fovea::tests
