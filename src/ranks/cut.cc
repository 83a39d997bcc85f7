#include "ranks/cut.h"

#include <algorithm>

#include "fovea/ops.h"
#include "tensor/tree_sum.h"

namespace fovea {
namespace {

constexpr int64_t kPairs = 32, kRows = 2048;

}  // namespace

SequenceCut::SequenceCut(int64_t length, int ranks)
    : length_(length),
      pairs_(kPairs *
             std::max<int64_t>(1, (length + 2 * kPairs * kRows - 1) / (2 * kPairs * kRows))),
      ranks_(ranks) {}

int64_t SequenceCut::first_pair(int rank) const { return first_of_share(pairs_, rank, ranks_); }

int SequenceCut::owner_of(int64_t chunk) const {
  int rank = 0;
  while (first_pair(rank + 1) <= pair_of(chunk)) ++rank;
  return rank;
}

std::array<RowRange, 2> SequenceCut::rows_of(int rank) const {
  const int64_t first = first_pair(rank), end = first_pair(rank + 1);
  const auto begin_of = [&](int64_t c) { return length_ * c / chunks(); };
  return {RowRange{begin_of(first), begin_of(end)},
          RowRange{begin_of(chunks() - end), begin_of(chunks() - first)}};
}

int64_t SequenceCut::row_count(int rank) const {
  const auto [front, back] = rows_of(rank);
  return front.size() + back.size();
}

std::vector<int64_t> SequenceCut::chunks_of(int rank) const {
  std::vector<int64_t> all;
  for (int64_t p = first_pair(rank); p < first_pair(rank + 1); ++p) all.push_back(p);
  for (int64_t p = first_pair(rank + 1); p-- > first_pair(rank);) all.push_back(chunks() - 1 - p);
  return all;
}

int64_t SequenceCut::place_of(int64_t c) const {
  const auto [front, back] = rows_of(owner_of(c));
  const int64_t begin = chunk(c).begin;
  return c < pairs_ ? begin - front.begin : front.size() + begin - back.begin;
}

std::array<RowRange, 2> rows_of_rank(int64_t length, int rank, int ranks) {
  if (length < 0 || ranks < 1 || rank < 0 || rank >= ranks) {
    throw Error("rows_of_rank", "length " + std::to_string(length) + ", rank " +
                                    std::to_string(rank) + " of " + std::to_string(ranks) +
                                    ", expected a length of at least 0 and a rank below ranks");
  }
  return SequenceCut(length, ranks).rows_of(rank);
}

Tensor rows_of_rank(const Tensor& all, int dim, const team::Team& team) {
  const auto [front, back] = rows_of_rank(all.size(dim), team.rank(), team.size());
  if (team.size() == 1) return all;
  return concatenate({all.slice(dim, front.begin, front.end), all.slice(dim, back.begin, back.end)},
                     dim);
}

}  // namespace fovea
