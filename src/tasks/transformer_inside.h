#pragma once

#include <cstdint>
#include <vector>

#include "fovea/transformer.h"
#include "tasks/inside.h"

// What a Transformer answers to whoever looks inside, whatever task it is of. Nothing holds the
// logits of all outputs at once where one is asked for. What is filled in refers to the model.
namespace fovea::tasks {

// log p/(1 − p) of targets by a decoder's rows [R,T,W]: [R,T]; off the tape, some rows at a time.
Tensor log_odds_of(const models::Transformer&, const Tensor& states,
                   const std::vector<int64_t>& targets);
// Of a row's own output alone: states [R,T,W], outputs [R] among T → [R].
Tensor log_odds_of_own(const models::Transformer&, const Tensor& states,
                       const std::vector<int64_t>& targets, std::span<const int64_t> outputs);

// A decoder by itself on ids; `out` are the tokens that its rows are asked about, one each. The
// inside's labels stand already.
void look_inside_decoder(const models::Transformer&, const std::vector<int64_t>& ids,
                         const std::vector<int64_t>& out, Inside&);

// An encoder and a decoder: a sentence and what the model wrote for it, by force. What is asked is
// how likely each token was.
struct ForcedTranslation {
  std::vector<int64_t> source, in, out;  // in: begin y_1 …; out: y_1 …, and the end where it came
};
void look_inside_translator(const models::Transformer&, const ForcedTranslation&, Inside&);

// Rows of a stack by themselves: what its blocks' self-attention looks at, and through all of them.
void add_stack_attention(const models::Stack&, const RunPass&, Inside&);
// Ids below `vocabulary`, drawn, and no more of them than the model reads: i64 [rows,2n].
Tensor repeated_ids(const models::TransformerConfig&, const Repeated&, int64_t vocabulary);

}  // namespace fovea::tasks
