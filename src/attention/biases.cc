#include <algorithm>
#include <cmath>

#include "fovea/attention.h"
#include "fovea/ops.h"

// Relative positions: one number per distance, read at r = j − i + Lq − 1. The distance is counted
// from the query's place at the end of the keys, j − (i + Lk − Lq) = r + 1 − Lk, so that a cache
// works and, where Lq = Lk, it is j − i.
namespace fovea::biases {
namespace {

void check_lengths(const char* call, int64_t Lq, int64_t Lk) {
  if (Lq < 0 || Lk < 0)
    throw Error(call,
                "Lq=" + std::to_string(Lq) + " Lk=" + std::to_string(Lk) + ", expected 0 or more");
}

int64_t distances(int64_t Lq, int64_t Lk) { return std::max<int64_t>(Lq + Lk - 1, 0); }

// T5: the first half of the buckets hold one distance each, the others grow logarithmically up to
// max_distance; keys after the query have buckets of their own when bidirectional, else bucket 0.
int64_t t5_bucket(int64_t distance, int64_t buckets, bool bidirectional, int64_t max_distance) {
  int64_t first = 0;
  if (bidirectional) {
    buckets /= 2;
    if (distance > 0) first = buckets;
    distance = std::abs(distance);
  } else {
    distance = std::max<int64_t>(-distance, 0);
  }
  const int64_t exact = buckets / 2;
  if (distance < exact) return first + distance;
  // In float, as the weights that exist were trained with.
  const float position = std::log(static_cast<float>(distance) / static_cast<float>(exact));
  const float range = static_cast<float>(std::log(static_cast<double>(max_distance) / exact));
  const auto above = static_cast<int64_t>(position / range * static_cast<float>(buckets - exact));
  return first + std::min(exact + above, buckets - 1);
}

}  // namespace

Bias alibi(const Tensor& slopes, int64_t Lq, int64_t Lk) {
  check_lengths("alibi", Lq, Lk);
  if (slopes.rank() != 1 || slopes.dtype() != DType::f32)
    throw Error("alibi", "slopes is " + to_string(slopes.shape()) + ", expected f32 [H]");
  std::vector<float> minus_distance(distances(Lq, Lk));
  for (int64_t r = 0; r < distances(Lq, Lk); ++r)
    minus_distance[r] = -static_cast<float>(std::abs(r + 1 - Lk));
  const Tensor row = Tensor::from(minus_distance, {distances(Lq, Lk)});
  return {.table = slopes.unsqueeze(1) * row, .relative = true};  // [H,Lq+Lk−1]
}

Bias t5(const Tensor& table, int64_t Lq, int64_t Lk, bool bidirectional, int64_t max_distance) {
  check_lengths("t5", Lq, Lk);
  if (table.rank() != 2 || table.dtype() != DType::f32)
    throw Error("t5", "table is " + to_string(table.shape()) + ", expected f32 [buckets,H]");
  const int64_t buckets = table.size(0), exact = buckets / (bidirectional ? 4 : 2);
  if (exact < 1 || max_distance <= exact)
    throw Error("t5", "buckets=" + std::to_string(buckets) +
                          " max_distance=" + std::to_string(max_distance) + ", expected at least " +
                          (bidirectional ? "4" : "2") +
                          " buckets and a distance beyond the exact " + std::to_string(exact));
  std::vector<int64_t> bucket(distances(Lq, Lk));
  for (int64_t r = 0; r < distances(Lq, Lk); ++r)
    bucket[r] = t5_bucket(r + 1 - Lk, buckets, bidirectional, max_distance);
  const Tensor ids = Tensor::from_ids(bucket, {distances(Lq, Lk)});
  return {.table = index_select(table, 0, ids).transpose(0, 1), .relative = true};
}

}  // namespace fovea::biases
