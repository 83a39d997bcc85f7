#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "fovea/api.h"
#include "fovea/look.h"
#include "fovea/loss.h"
#include "fovea/nn.h"
#include "fovea/search.h"
#include "fovea/tensor.h"

// Recurrent sequence to sequence, without and with attention.
//   encoder   h_1 … h_S, forward and backward states side by side
//   fixed     one context for every step: the encoder's last state
//   bahdanau  c_t from s_{t−1};  s_t = cell([y_{t−1}; c_t], s_{t−1})
//             o_t = tanh(W[s_t; c_t; y_{t−1}])
//   luong     s_t = cell([y_{t−1}; o_{t−1} when fed], s_{t−1});  c_t from s_t
//             o_t = tanh(W[s_t; c_t])
//   output    p(y_t) = softmax(V o_t)
// Letters: B batch, S source length, T target length, H hidden, E embedding.
namespace fovea::models {

enum class Context : uint8_t { fixed, attention };
enum class Order : uint8_t { bahdanau, luong };
FOVEA_API const char* name_of(Context);
FOVEA_API const char* name_of(Order);
FOVEA_API Context context(const std::string& name);
FOVEA_API Order order(const std::string& name);

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
// Throws, naming the field and its range.
FOVEA_API void check(const Seq2SeqConfig&);

class OutputScreen;  // src/models/screen.h

struct FOVEA_API Seq2Seq {
  Seq2SeqConfig config;
  nn::Weights weights;
  nn::Embedding source, target;
  nn::Recurrent encoder;
  std::vector<nn::Linear> initial;     // by layer: the encoder's last state → s_0
  std::vector<nn::CellWeights> cells;  // the decoder's, by layer
  LookWeights look;
  nn::Linear readout, output;
  // Greedy decoding of few sentences keeps the output layer here in 8 bits: a byte a weight more.
  std::shared_ptr<OutputScreen> screen;
};
FOVEA_API Seq2Seq seq2seq(const Seq2SeqConfig&, uint64_t seed);
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
