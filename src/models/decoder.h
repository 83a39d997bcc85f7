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

// Rows `ids` of the batch, in that order.
Encoded select_rows(const Encoded&, const Tensor& ids);

// One pass of the decoder, step by step. Weights' gradients are taken once for all steps.
class Decoder {
 public:
  Decoder(const Seq2Seq&, const Encoded&, const LookPass&);

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
  const Seq2Seq& model_;
  std::vector<nn::State> states_;
  std::vector<nn::Stepper> cells_;
  std::vector<nn::SteppedLinear> inputs_;  // of layers above the first
  std::optional<nn::SteppedLinear> from_context_, readout_;
  std::optional<Looker> looker_;
  Tensor fixed_, fed_;
  int64_t t_ = 0;
};

// o = tanh(W[s; c; y]), or without y in Luong's order; any leading dimensions.
Tensor read_out(const Seq2Seq&, const Tensor& state, const Tensor& context, const Tensor& embedded);

}  // namespace fovea::models
