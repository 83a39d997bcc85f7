#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "fovea/api.h"
#include "fovea/attention.h"
#include "fovea/nn.h"
#include "fovea/tensor.h"

// The layers of a Transformer. Sequences are batch-major here, [B,L,W], W the model's width.
namespace fovea::nn {

// ---- Norms and the layers of one vector --------------------------------------------------------

enum class NormKind : uint8_t { layer, rms };  // (x − μ)/σ, or x/√mean(x²)
FOVEA_API const char* name_of(NormKind);

struct FOVEA_API Norm {
  NormKind kind = NormKind::layer;
  Tensor weight, bias;  // [W]; bias: layer alone
  float epsilon = 1e-5f;
  Tensor operator()(const Tensor& x) const;
};
FOVEA_API Norm norm(Weights&, const std::string& name, NormKind, int64_t width,
                    float epsilon = 1e-5f);
// Between up and down; those with a gate multiply two halves.
enum class Activation : uint8_t { relu, gelu, gelu_tanh, swiglu, silu, geglu, geglu_tanh };
FOVEA_API const char* name_of(Activation);
FOVEA_API bool is_gated(Activation);  // f(g)·u: swiglu by silu, geglu by gelu

// What is dropped in training, each place by its own numbers.
struct Noise {
  float dropout = 0.0f;
  uint64_t seed = 0;
};

// down(f(up(x))); gated: down(f(g)·u), [g; u] = up(x).
struct FOVEA_API Mlp {
  Activation activation = Activation::gelu;
  Linear up, down;  // [M,W] (gated [2M,W]), [W,M]
  Tensor operator()(const Tensor& x, const Noise& = {}) const;
};

// ---- Where something stands --------------------------------------------------------------------

enum class Positions : uint8_t {
  none,
  sinusoidal,  // added to the input: sin and cos of p/10000^(2i/W)
  learned,     // added to the input
  rotary,  // queries and keys turned by p·rate_i, which is 10000^(−2i/d) unless said otherwise
  alibi,   // −2^(−8h/H)·distance added to the scores
  t5,      // a learned number per head and bucket of distances, added to the scores
};
FOVEA_API const char* name_of(Positions);

FOVEA_API Tensor sinusoidal_positions(int64_t first, int64_t count, int64_t width);  // [L,W]

struct Rotary {
  Tensor cos, sin;  // [L,d/2]
};
// How fast each pair turns, and what all of them are multiplied by.
struct RotaryConfig {
  std::vector<double> rates;  // [d/2]; empty: 10000^(−2i/d)
  float gain = 1.0f;
  bool operator==(const RotaryConfig&) const = default;
};
FOVEA_API Rotary rotary_positions(int64_t first, int64_t count, int64_t depth,
                                  const RotaryConfig& = {});

FOVEA_API Tensor alibi_slopes(int64_t heads);  // [H]

// ---- Attention by many heads -------------------------------------------------------------------

// Heads that compare and weigh alike; any score and weighting of the engine.
struct HeadGroup {
  int64_t heads = 0;
  std::string score = "scaled_dot", weighting = "softmax";
  bool normalise = false;  // contexts are divided by the sum of the weights
};
// Linear attention, Σ_j φ(q)·φ(k_j) v_j / Σ_j φ(q)·φ(k_j), φ = elu + 1: in O(L), and step by step
// by a state of fixed size.
FOVEA_API HeadGroup linear_heads(int64_t heads);

struct HeadsConfig {
  int64_t width = 0;   // of the rows that queries are made of, and of the result
  int64_t memory = 0;  // of the rows that keys and values are made of; 0: width
  int64_t heads = 1;
  int64_t key_heads = 0;          // shared by heads/key_heads each; 0: as many as heads
  int64_t depth = 0;              // of a head; 0: width/heads
  std::vector<HeadGroup> groups;  // empty: all heads by scaled dot products and softmax
  WithBias bias = WithBias::yes;
  std::optional<WithBias> out_bias;  // of the output projection; absent: as bias
  std::optional<float> scale, cap;   // of the scores: the mechanism's own scale, no cap
  std::optional<float> qk_epsilon;   // self: RMS norms of a head's queries and keys; absent: none
  Init init = Init::xavier;
  float out_gain = 1.0f;  // the output projection starts so much larger
};
FOVEA_API void check(const HeadsConfig&);  // throws, naming the field

// What queries look at: projected once, or growing from step to step.
struct KeyValues {
  Tensor keys, values;       // [B,Hk,capacity,d]
  int64_t length = 0;        // of them in use
  DType kept = DType::f32;   // as which those are kept that join
  Tensor lengths;            // i64 [B] of each row, or undefined: all the same
  std::vector<Tensor> sums;  // by group, linear heads: Σ_j φ(k_j)⊗[v_j; 1], [B,Hk,d,d+1]
};

// One attention of a pass, for whoever looks at it or changes it.
struct Heads {
  const std::string& name;  // "decoder.3.cross"
  const Attended& attended;
  const Tensor& values;  // [B,Hk,Lk,d]
  const Tensor &queries,
      &keys;  // [B,H,Lq,d], [B,Hk,Lk,d], turned by their positions where they are
  const Attention& attention;
};
// Gives the weights [B,H,Lq,Lk] to use instead, or an undefined tensor to leave them.
using HeadsHook = std::function<Tensor(const Heads&)>;

struct HeadsPass {
  Mask mask;
  std::optional<Bias> bias;
  const Rotary* rotary = nullptr;  // of the positions of x's rows
  Noise noise;                     // of the weights
  KeyValues* past = nullptr;       // self-attention: keys and values before x's, which it joins
  const HeadsHook* hook = nullptr;
};

// A group as its calls want it: names looked up, parameters at hand.
struct HeadCall {
  std::string name;
  int64_t first = 0, heads = 0;
  Attention attention;
  bool normalise = false;
};

struct FOVEA_API MultiHead {
  std::string name;
  HeadsConfig config;
  Linear in;                    // self: queries, keys and values in one product, [(H + 2Hk)·d, W]
  Linear query, memory;         // cross: [H·d, W], keys and values [2Hk·d, memory]
  Linear out;                   // [W, H·d]
  Norm query_norm, key_norm;    // [d], where there are any
  std::vector<HeadCall> calls;  // by group

  Tensor self(const Tensor& x, const HeadsPass& = {}) const;                     // [B,L,W]
  KeyValues project(const Tensor& memory, const Tensor& lengths = {}) const;     // [B,S,·]
  Tensor cross(const Tensor& x, const KeyValues&, const HeadsPass& = {}) const;  // [B,L,W]
};
enum class Looks : uint8_t { at_itself, elsewhere };
FOVEA_API MultiHead multi_head(Weights&, const std::string& name, const HeadsConfig&,
                               Looks = Looks::at_itself);

// A set of any size as N vectors: N learned queries that look at it.
struct FOVEA_API Pooling {
  Tensor queries;  // [N,W]
  MultiHead heads;
  Tensor operator()(const Tensor& x, const Tensor& lengths = {}) const;  // [B,S,·] → [B,N,W]
};
FOVEA_API Pooling pooling(Weights&, const std::string& name, const HeadsConfig&, int64_t queries);

// ---- Blocks ------------------------------------------------------------------------------------

enum class NormOrder : uint8_t {
  post,    // norm(x + f(x))
  pre,     // x + f(norm(x))
  around,  // x + after(f(norm(x)))
};
FOVEA_API const char* name_of(NormOrder);

struct BlockConfig {
  HeadsConfig heads;
  int64_t mlp_width = 0;  // 0: 4·width
  Activation activation = Activation::gelu;
  NormKind norm = NormKind::layer;
  float epsilon = 1e-5f;  // of the norms
  NormOrder order = NormOrder::pre;
  std::optional<WithBias> mlp_bias;  // absent: as the heads'
  bool cross = false;                // looks at a source, too
  int64_t of = 1;      // blocks in all: what is added to x starts 1/√(2·of) as large
  int64_t window = 0;  // keys that a causal query sees, its own included; 0: all before it
  RotaryConfig rotary;
};

struct BlockPass {  // how a pass through a block goes
  HeadsPass self, cross;
  const KeyValues* source = nullptr;
  Noise noise;
};

struct FOVEA_API Block {  // self-attention, a look at a source, an MLP
  BlockConfig config;
  MultiHead self, cross;
  Mlp mlp;
  Norm self_norm, cross_norm, mlp_norm;
  Norm self_after, mlp_after;  // around
  Tensor operator()(const Tensor& x, const BlockPass& = {}) const;
};
FOVEA_API Block block(Weights&, const std::string& name, const BlockConfig&);

}  // namespace fovea::nn
