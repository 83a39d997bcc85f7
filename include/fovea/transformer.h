#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "fovea/api.h"
#include "fovea/layers.h"
#include "fovea/loss.h"
#include "fovea/nn.h"
#include "fovea/search.h"
#include "fovea/tensor.h"

// The Transformer: an encoder, a decoder that looks at it, or either by itself.
// Letters: B batch, S source length, T target length, W width (the queries' depth, all heads
// together), V vocabulary.
namespace fovea::models {

struct TransformerConfig {
  int64_t source_vocabulary = 0;  // 0: no encoder
  int64_t target_vocabulary = 0;  // 0: no decoder
  int64_t blocks = 4;             // of the encoder, and of the decoder
  int64_t depth = 256;            // W
  int64_t heads = 4;              // they divide the depth
  int64_t key_heads = 0;          // keys and values shared by heads/key_heads each; 0: not shared
  int64_t mlp_width = 0;          // 0: four times the depth
  nn::Activation activation = nn::Activation::gelu;
  nn::NormKind norm = nn::NormKind::layer;
  nn::NormOrder order = nn::NormOrder::pre;
  nn::Positions positions = nn::Positions::rotary;
  int64_t longest = 1024;                // positions that are learned, where they are
  int64_t buckets = 32, farthest = 128;  // t5: of distances, and the last that has one of its own
  std::string score = "scaled_dot", weighting = "softmax";  // of self-attention and of looks
  bool linear = false;  // self-attention is linear, in place of score and weighting
  bool tied = true;     // the output layer is the target's embedding
  nn::Init init = nn::Init::xavier;

  // What models of others have, and those that are trained here leave as it is.
  int64_t decoder_blocks = 0;   // 0: as many as the encoder has
  int64_t head_depth = 0;       // 0: depth/heads
  int64_t embedding_width = 0;  // narrower vectors, widened before the first block; 0: depth
  bool shared_blocks = false;   // all blocks have the weights of the first
  float epsilon = 1e-5f;        // of the norms
  int64_t first_position = 0;   // of those that are learned: the first token's
  int64_t types = 0;            // of tokens, a learned row each; those of one text are of the first
  bool embedding_norm = false;  // one more, of what goes into the first block
  std::optional<float> embedding_scale;  // absent: √depth for sinusoidal positions, 1 for others
  nn::RotaryConfig rotary;
  std::optional<float> score_scale, score_cap, qk_epsilon;  // nn::HeadsConfig
  struct Biases {
    nn::WithBias in = nn::WithBias::yes, out = nn::WithBias::yes, mlp = nn::WithBias::yes;
    nn::WithBias output = nn::WithBias::no;  // of the output layer
  } biases;
  std::optional<float> output_cap;  // logits are c·tanh(l/c)
  // What blocks have of their own, by block; empty: all are alike.
  struct Own {
    int64_t window = 0;  // nn::BlockConfig
    nn::RotaryConfig rotary;
  };
  std::vector<Own> each;
};
// Throws, naming the field and its range.
FOVEA_API void check(const TransformerConfig&);
FOVEA_API int64_t head_depth(const TransformerConfig&);

// Blocks over one sequence.
struct FOVEA_API Stack {
  std::vector<nn::Block> blocks;
  nn::Norm first;    // of what is embedded, where there is one
  nn::Linear widen;  // of narrower vectors
  nn::Norm last;     // pre-norm alone
  Tensor positions;  // learned [first + longest,W], or t5's [buckets,H]
  Tensor types;      // [types,W], where there are any
  bool causal = false;
};

class OutputScreen;  // src/models/screen.h

struct FOVEA_API Transformer {
  TransformerConfig config;
  nn::Weights weights;
  nn::Embedding source, target;
  Stack encoder, decoder;
  nn::Linear output;  // [V,W]; logits() are what it gives
  // What greedy decoding keeps of a large output layer; null: it computes all logits.
  std::shared_ptr<OutputScreen> screen;
};
// Weights are "source.weight", "encoder.0.self.in.weight", …, "decoder.norm.weight".
FOVEA_API Transformer transformer(const TransformerConfig&, nn::Weights);
// How many numbers it would learn; takes no memory for them.
FOVEA_API int64_t count_weights(const TransformerConfig&);

// An encoder's blocks by themselves, for a model that embeds what they read.
FOVEA_API Stack encoder_stack(nn::Weights&, const std::string& name, const TransformerConfig&);

// Goes through a block in its stead, for whoever takes blocks apart.
using BlockHook = std::function<Tensor(const nn::Block&, const Tensor& x, const nn::BlockPass&)>;

// What a decoder's rows say comes next: [..,W] → [..,V].
FOVEA_API Tensor logits(const Transformer&, const Tensor& states);

// How a pass goes: what is dropped, who looks at it, and what blocks compute in (LossConfig).
struct TransformerPass {
  nn::Noise noise;
  nn::HeadsHook hook;
  BlockHook block;
  DType type = DType::f32;
};

// What a decoder looks at, and what it has seen: nothing at the start.
struct Decoding {
  std::vector<nn::KeyValues> source, past;  // by block
  int64_t length = 0;                       // tokens so far
  DType kept = DType::f32;                  // as which past keys and values are: f32, bf16 or f16
};

// ids i64 [B,S], lengths i64 [B] or undefined → [B,S,W].
FOVEA_API Tensor encode(const Transformer&, const Tensor& ids, const Tensor& lengths = {},
                        const TransformerPass& = {});
// Rows [B,S,W] that are embedded already.
FOVEA_API Tensor encode(const TransformerConfig&, const Stack&, const Tensor& embedded,
                        const Tensor& lengths = {}, const TransformerPass& = {});
// A decoder's keys and values of what was encoded, made once.
FOVEA_API std::vector<nn::KeyValues> project(const Transformer&, const Tensor& encoded,
                                             const Tensor& lengths = {});
// Targets i64 [B,T] from the first on, all at once → [B,T,W]; `source` empty where there is none.
FOVEA_API Tensor decode_all(const Transformer&, const Tensor& ids,
                            const std::vector<nn::KeyValues>& source = {},
                            const TransformerPass& = {});
// The same of rows [B,T,W] that are embedded already.
FOVEA_API Tensor decode_embedded(const Transformer&, const Tensor& embedded,
                                 const std::vector<nn::KeyValues>& source = {},
                                 const TransformerPass& = {});
// T more of them; off the tape.
FOVEA_API Tensor decode_more(const Transformer&, const Tensor& ids, Decoding&,
                             const TransformerPass& = {});

// Of translation.
FOVEA_API Loss loss(const Transformer&, const Batch&, const LossConfig& = {},
                    const nn::HeadsHook& = {});
// Of text, each token by those before it: ids i64 [B,T+1].
FOVEA_API Loss loss(const Transformer&, const Tensor& ids, const LossConfig& = {},
                    const nn::HeadsHook& = {});

// A decoder by itself as a search asks it, rows i64 [B,T] of text before what the search begins
// with; undefined: none. The model stays where it is meanwhile.
FOVEA_API std::unique_ptr<Generator> generator(const Transformer&, const Tensor& before = {},
                                               DType kept = DType::f32);

// As of Seq2Seq. Weights are the mean over the heads of the last block's look at the source.
FOVEA_API std::vector<std::vector<Decoded>> decode(const Transformer&, const Tensor& source,
                                                   const Tensor& source_lengths,
                                                   const DecodeConfig& = {});

}  // namespace fovea::models
