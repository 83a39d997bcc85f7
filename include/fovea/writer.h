#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "fovea/api.h"
#include "fovea/look.h"
#include "fovea/nn.h"

// A recurrent decoder that writes tokens while it looks at a memory: the words of a sentence
// (seq2seq.h), the places of an image (captioner.h).
//   fixed     one context for every step
//   bahdanau  c_t from s_{t−1};  s_t = cell([y_{t−1}; c_t], s_{t−1})
//             o_t = tanh(W[s_t; c_t; y_{t−1}])
//   luong     s_t = cell([y_{t−1}; o_{t−1} when fed], s_{t−1});  c_t from s_t
//             o_t = tanh(W[s_t; c_t])
//   gate      c_t is multiplied by β_t = σ(w·q_t + b), q_t being the state that looks
//   output    p(y_t) = softmax(V o_t)
namespace fovea::models {

enum class Context : uint8_t { fixed, attention };  // of a step
enum class Order : uint8_t { bahdanau, luong };
FOVEA_API const char* name_of(Context);
FOVEA_API const char* name_of(Order);
FOVEA_API Context context(const std::string& name);
FOVEA_API Order order(const std::string& name);

// And how it looks, where its context is attention.
struct WriterConfig : LookConfig {
  int64_t target_vocabulary = 0;
  int64_t embedding = 256, hidden = 256, layers = 1;
  nn::Cell cell = nn::Cell::gru;
  Context context = Context::attention;
  Order order = Order::bahdanau;
  bool input_feeding = false;  // luong
  bool gate = false;           // attention
};
// Throws, naming the caller, the field and its range.
FOVEA_API void check(const WriterConfig&, const char* call);

class OutputScreen;  // src/models/screen.h

struct FOVEA_API Writer {
  nn::Embedding target;
  std::vector<nn::Linear> initial;     // by layer: what stands for the whole memory → s_0
  std::vector<nn::CellWeights> cells;  // by layer
  LookWeights look;
  nn::Linear gate;  // undefined without
  nn::Linear readout, output;
  // Greedy decoding of few sentences keeps the output layer here in 8 bits: a byte a weight more.
  std::shared_ptr<OutputScreen> screen;
};
// For a memory of this width.
FOVEA_API Writer writer(nn::Weights&, const WriterConfig&, int64_t memory);

}  // namespace fovea::models
