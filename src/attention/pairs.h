#pragma once

#include <algorithm>
#include <limits>
#include <vector>

#include "attention/lower.h"

// Pairs of a query and a key, a part of a call after the other: what the composed plan runs on, so
// that no more than a few thousand pairs' intermediate results are there at once.
namespace fovea {

struct AttendedState;

// Batch entries, heads and queries of a call, from (b, h, i) on. One with several entries has all
// heads, one with several heads all queries: its rows follow one another.
struct PairsPart {
  int64_t b = 0, h = 0, i = 0;
  int64_t B = 0, H = 0, Lq = 0;
};
PairsPart whole(const Sizes&);

// A part has at most so many permitted pairs, 4 MiB where they are 64 wide, and so many scores,
// 4 MiB; or one row.
constexpr int64_t kPartPairs = int64_t{1} << 14, kPartScores = int64_t{1} << 20;
std::vector<PairsPart> parts_of(const LoweredMask&, const Sizes&);

// Calls f(b, h, i, j) for every pair of the part that the mask permits, in the order of the rows.
template <class Function>
void each_permitted(const LoweredMask& m, const Sizes& n, const PairsPart& part,
                    const Function& f) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  kernels::View<const uint8_t> allowed;
  kernels::View<const float> bias;
  if (m.allowed) allowed = broadcast_view(m.allowed, m.allowed.data<uint8_t>());
  if (m.bias) bias = bias_view(m, m.bias, m.bias.data<float>(), n);
  std::vector<float> row(m.conditions ? n.Lk : 0);  // −inf: forbidden
  for (int64_t b = part.b; b < part.b + part.B; ++b) {
    for (int64_t h = part.h; h < part.h + part.H; ++h) {
      for (int64_t i = part.i; i < part.i + part.Lq; ++i) {
        const int64_t at = b * m.stride_b + h * m.stride_h + i;
        const int64_t begin = m.begin.empty() ? 0 : m.begin[at];
        const int64_t end = m.end.empty() ? n.Lk : m.end[at];
        if (m.conditions) {
          std::fill(row.begin(), row.end(), 0.0f);
          for (const kernels::Condition& c : m.conditions->list)
            kernels::forbid(c, {b, h, m.first_query + i, m.first_key + begin, m.first_key + end},
                            row.data() + begin);
        }
        for (int64_t j = begin; j < end; ++j) {
          if (m.conditions && row[j] == -kInf) continue;
          if (allowed && allowed.row(b, h, i)[j * allowed.c] == 0) continue;
          if (bias && bias.row(b, h, i)[j * bias.c] == -kInf) continue;
          f(b, h, i, j);
        }
      }
    }
  }
}

// How a pair's score comes of its rows of q′ and k′, and the parameters it reads.
struct PairScore {
  Tensor (*score)(const Tensor& q_rows, const Tensor& k_rows, const Tensors&) = nullptr;
  Tensors parameters;
};
PairScore pair_score(const Score&);

// Gradients, summed over the parts; undefined where not wanted.
struct PairGradients {
  Tensor q, k, v;
  Tensors parameters;
  bool of_scores() const { return q || k || !parameters.empty(); }
};

// The permitted pairs of a part; what is not permitted is not read.
struct PartScores {
  std::vector<int64_t> q, k, places;  // rows of q′ and k′, and where their score goes
  Tensor q_rows, k_rows;              // [P,·]
  Tensors parameters;
  Tensor scores;  // [P]; on a tape of its own where gradients are wanted
  Tensor matrix;  // [B,H,Lq,Lk] of the part, 0 where a pair is not permitted
};
PartScores scores_of(const AttendedState&, const PairsPart&, const PairGradients& wanted = {});
// What d_matrix, contiguous, gives the rows and the parameters. Takes the part.
void add_gradients(const AttendedState&, const Tensor& d_matrix, PartScores&, PairGradients&);

}  // namespace fovea
