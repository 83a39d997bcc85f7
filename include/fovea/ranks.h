#pragma once

#include <array>
#include <cstdint>

#include "fovea/api.h"
#include "fovea/attention.h"
#include "fovea/team.h"

// Attention over the processes of a team, for sequences that none of them holds alone. What it
// computes has the same bits for any number of processes.
namespace fovea {

// Rows begin … end − 1 of a sequence.
struct RowRange {
  int64_t begin = 0, end = 0;
  int64_t size() const { return end - begin; }
};

// The rows of a sequence that a rank holds: a run from its front and one from its back, so that
// under a causal mask all have as much to do. A team of one holds all.
FOVEA_API std::array<RowRange, 2> rows_of_rank(int64_t length, int rank, int ranks);
// Those rows of a tensor with all of them along dimension `dim`; differentiable.
FOVEA_API Tensor rows_of_rank(const Tensor& all, int dim, const team::Team&);

// How long the sequences are that the ranks hold together.
struct Lengths {
  int64_t queries = 0, keys = 0;
};

// Of the queries that a rank holds. All but `chosen` are differentiable.
struct AttendedRows {
  Tensor context;      // [B,H,rows,Dv]
  Tensor log_sum_exp;  // [B,H,rows], softmax and sample; else undefined
  Tensor log_prob;     // [B,H,rows] of the chosen, sample; else undefined
  Tensor chosen;       // i64 [B,H,rows] in the sequence of keys, hard weightings; −1: none
};

// attend() of all queries to all keys: every rank gives the rows of q, of k and of v that it holds
// (rows_of_rank), and the same choices, those of the whole call: a mask's lengths, segments and
// matrices, and a bias, are those of all queries and keys. All ranks of the team make the same
// calls in the same order, backward passes too; the loss is the sum of theirs. Gradients of q, k
// and v come to who holds the rows; those of parameters are the sums over all ranks, on every rank.
//
// Weightings that need a whole row (sparsemax, entmax15, those of formulas) throw, on any number of
// ranks. Tensors are on the CPU.
FOVEA_API AttendedRows attend(team::Team&, const Tensor& q, const Tensor& k, const Tensor& v,
                              const Attention&, const Lengths&);

}  // namespace fovea
