#pragma once

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "fovea/transformer.h"
#include "models/tokens.h"

// What passes through a Transformer's stack have in common, whether they have all rows of a
// sequence or parts of them.
namespace fovea::models {

// Rows begin … end − 1 of a sequence.
struct RowRun {
  int64_t begin = 0, end = 0;
};
using RowRuns = std::vector<RowRun>;  // where rows stand

// widen(norm(scale·x + positions + type)) of rows that stand there, embedded.
Tensor entered(const TransformerConfig&, const Stack&, const Tensor& embedded, const RowRuns&);

// The angles of a pass, one table for all blocks that turn alike.
class PassAngles {
 public:
  PassAngles(RowRuns runs, int64_t depth) : runs_(std::move(runs)), depth_(depth) {}
  const nn::Rotary* of(const nn::RotaryConfig&);

 private:
  RowRuns runs_;
  int64_t depth_;
  std::vector<std::pair<const nn::RotaryConfig*, std::unique_ptr<nn::Rotary>>> made_;
};

// What positions add to scores.
std::optional<Bias> bias_of(const TransformerConfig&, const Stack&, int64_t Lq, int64_t Lk);
// A stack's mask as a block has it.
Mask mask_of(const Stack&, const nn::Block&, const Mask&);
Tensor logits_of(const TransformerConfig&, const nn::Linear& output, const Tensor& states);
Losses output_losses(const TransformerConfig&, const nn::Linear& output);  // of their softmax

void expect_part(const char* call, const Stack&, const char* part);
TransformerPass pass_of(const LossConfig&, const nn::HeadsHook&);
TransformerPass at(const TransformerPass&, const char* place);
inline constexpr int64_t kNoPadding = -1;  // of a text; models of others have no such id

}  // namespace fovea::models
