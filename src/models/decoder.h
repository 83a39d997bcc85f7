#pragma once

#include <optional>
#include <vector>

#include "fovea/seq2seq.h"
#include "models/tokens.h"
#include "nn/dropout.h"

namespace fovea::models {

struct Encoded {
  Tensor sequence;  // [S,B,C]
  std::vector<nn::State> last;
  Tensor lengths;  // i64 [B]
};
using nn::Dropout;
using nn::dropped;

// Of vectors [S,B,E], and of ids i64 [S,B].
Encoded encode_vectors(const Seq2Seq&, const Tensor& source, const Tensor& lengths,
                       const Dropout& = {});
Encoded encode(const Seq2Seq&, const Tensor& source, const Tensor& lengths, const Dropout& = {});

// A writer and its settings, of whatever model.
struct ConfiguredWriter {
  const Writer& writer;
  WriterConfig config;
};

// Rows `ids` of the batch, in that order.
Encoded select_rows(const Encoded&, const Tensor& ids);

// One pass of the decoder, step by step. Weights' gradients are taken once for all steps.
class Decoder {
 public:
  Decoder(const ConfiguredWriter&, const Encoded&, const LookPass&);

  // The input product of the first layer for y_{t−1}, embedded: [..,B,E] → [..,B,G·H].
  Tensor gates(const Tensor& embedded);

  struct Step {
    Tensor state;  // s_t [B,H], of the last layer
    Tensor query;  // what a look at step t begins from: s_{t−1} in Bahdanau's order, else s_t
    Look look;     // its context undefined where all() will look for every step at once
    Tensor out;    // o_t [B,H]; luong with input feeding alone
  };
  Step step(const Tensor& gates_y, const Dropout& = {});
  // Whether step() leaves the looking for later: contexts that feed nothing back.
  bool looks_once() const;
  Looker& looker() { return *looker_; }
  Tensor fixed() const { return fixed_; }  // the one context, [B,C], or undefined
  void select_rows(const Tensor& ids);     // of every state

 private:
  const Writer& model_;
  WriterConfig config_;
  std::vector<nn::State> states_;
  std::vector<nn::Stepper> cells_;
  std::vector<nn::SteppedLinear> inputs_;  // of layers above the first
  std::optional<nn::SteppedLinear> readout_, gate_;
  std::optional<Looker> looker_;
  bool feeds_ = false;  // the first cell, with a context or with what was read out
  Tensor fixed_, fed_;
  int64_t t_ = 0;
};

// What a look of the states, [..,H], sees: β ∘ c where there is a gate.
Tensor gated(const Writer&, const Tensor& states, const Tensor& contexts);

// o = tanh(W[s; c; y]), or without y in Luong's order; any leading dimensions.
Tensor read_out(const ConfiguredWriter&, const Tensor& state, const Tensor& context,
                const Tensor& embedded);

// −log p of the targets [T,B] that are written while looking at `memory`, and what hard attention
// adds. An intervention sees every look.
struct Targets {
  Tensor in, out;  // i64 [T,B]: begin y_1 …, and y_1 … end
};
Loss loss_of(const ConfiguredWriter&, const Encoded& memory, const Targets&, const LossConfig&,
             const Intervention&);

// The logits of each next token, [T,B,V], of targets as they are given.
Tensor logits_of(const ConfiguredWriter&, const Encoded& memory, const Tensor& target_in,
                 const Intervention&);

// The n best that are written while looking at `memory`; at most 2·S + 10 tokens.
std::vector<std::vector<Decoded>> write_out(const ConfiguredWriter&, const Encoded& memory,
                                            const DecodeConfig&, const Intervention&);

}  // namespace fovea::models
