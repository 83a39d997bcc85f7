#pragma once

#include <functional>
#include <vector>

#include "models/transformer_pass.h"
#include "nn/rows.h"

// A decoder by parts of its rows, for sequences whose rows are in several places. A part is
// computed by itself, in its own shapes, and meets the others in attention alone: what it gives
// depends on where its rows are, and not on which parts are beside it.
namespace fovea::models {

struct SequenceParts {
  int64_t first = 0;          // the number of the first of them, which its noise goes by
  std::vector<RowRuns> rows;  // of each part; no run is empty
  int64_t length = 0;         // of the sequence
  nn::AttendRows attend;      // of the rows of all parts, in the order of their places
  // A weight for each part.
  std::function<std::vector<Tensor>(const Tensor& weight)> copies;
};

// Of text, each token by those before it: ids i64 [B,length+1]; by part.
std::vector<Loss> losses(const Transformer&, const Tensor& ids, const SequenceParts&,
                         const LossConfig&);
// −log p of each token, [B,rows] by part.
std::vector<Tensor> each_loss(const Transformer&, const Tensor& ids, const SequenceParts&);

}  // namespace fovea::models
