#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "fovea/api.h"
#include "fovea/look.h"
#include "fovea/loss.h"
#include "fovea/nn.h"
#include "fovea/search.h"
#include "fovea/tensor.h"
#include "fovea/writer.h"

// Recurrent sequence to sequence, without and with attention.
//   encoder   h_1 … h_S, forward and backward states side by side
//   decoder   as writer.h says; a fixed context is the encoder's last state
// Letters: B batch, S source length, T target length, H hidden, E embedding.
namespace fovea::models {

// And how it looks, where its context is attention.
struct Seq2SeqConfig : LookConfig {
  int64_t source_vocabulary = 0, target_vocabulary = 0;
  int64_t embedding = 256, hidden = 256, layers = 1;
  nn::Cell cell = nn::Cell::gru;
  bool bidirectional = true;
  Context context = Context::attention;
  Order order = Order::bahdanau;
  bool input_feeding = false;  // luong
};
// The decoder's part of it.
FOVEA_API WriterConfig writer_of(const Seq2SeqConfig&);
// Throws, naming the field and its range.
FOVEA_API void check(const Seq2SeqConfig&);

struct FOVEA_API Seq2Seq : Writer {  // the model
  Seq2SeqConfig config;
  nn::Weights weights;
  nn::Embedding source;
  nn::Recurrent encoder;
};
FOVEA_API Seq2Seq seq2seq(const Seq2SeqConfig&, nn::Weights);  // of a seed, or of weights
// How many numbers it would learn; takes no memory for them.
FOVEA_API int64_t count_weights(const Seq2SeqConfig&);

// An intervention sees every look; where each row goes two ways, those of both, side by side.
FOVEA_API Loss loss(const Seq2Seq&, const Batch&, const LossConfig& = {}, const Intervention& = {});

// For whoever looks inside: the logits of each next token, [T,B,V], of sources that are embedded
// already and targets as they are given.
struct Forced {
  Tensor source;          // [S,B,E]
  Tensor source_lengths;  // i64 [B]
  Tensor target_in;       // i64 [T,B]
};
FOVEA_API Tensor logits(const Seq2Seq&, const Forced&, const Intervention& = {});

// The n best translations, best first, for each sentence of the batch; at most 2·S + 10 tokens, S
// the sentence's own. Greedy decoding of one to three sentences over a large vocabulary computes
// only the likeliest words in full. The tokens are the same; log p is off by 1e−4 a token or so, in
// the root mean square.
FOVEA_API std::vector<std::vector<Decoded>> decode(const Seq2Seq&, const Tensor& source,
                                                   const Tensor& source_lengths,
                                                   const DecodeConfig& = {},
                                                   const Intervention& = {});

}  // namespace fovea::models
