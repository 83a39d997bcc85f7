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

enum class NormKind : uint8_t { layer, rms };
FOVEA_API const char* name_of(NormKind);

struct FOVEA_API Norm {
  NormKind kind = NormKind::layer;
  Tensor weight, bias;  // [W]; bias: layer alone
  float epsilon = 1e-5f;
  Tensor operator()(const Tensor& x) const;
};
FOVEA_API Norm norm(Weights&, const std::string& name, NormKind, int64_t width);

enum class Activation : uint8_t { relu, gelu, gelu_tanh, swiglu };
FOVEA_API const char* name_of(Activation);

// What is dropped in training, each place by its own numbers.
struct Noise {
  float dropout = 0.0f;
  uint64_t seed = 0;
};

// down(f(up(x))); swiglu: down(silu(g)·u), [g; u] = up(x).
struct FOVEA_API Mlp {
  Activation activation = Activation::gelu;
  Linear up, down;  // [M,W] (swiglu [2M,W]), [W,M]
  Tensor operator()(const Tensor& x, const Noise& = {}) const;
};

// ---- Where something stands --------------------------------------------------------------------

enum class Positions : uint8_t {
  none,
  sinusoidal,  // added to the input: sin and cos of p/10000^(2i/W)
  learned,     // added to the input
  rotary,      // queries and keys turned by p·10000^(−2i/d)
  alibi,       // −2^(−8h/H)·distance added to the scores
  t5,          // a learned number per head and bucket of distances, added to the scores
};
FOVEA_API const char* name_of(Positions);

FOVEA_API Tensor sinusoidal_positions(int64_t first, int64_t count, int64_t width);  // [L,W]

struct Rotary {
  Tensor cos, sin;  // [L,d/2]
};
FOVEA_API Rotary rotary_positions(int64_t first, int64_t count, int64_t depth);

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
  Init init = Init::xavier;
  float out_gain = 1.0f;  // the output projection starts so much larger
};
FOVEA_API void check(const HeadsConfig&);  // throws, naming the field

// What queries look at: projected once, or growing from step to step.
struct KeyValues {
  Tensor keys, values;       // [B,Hk,capacity,d]
  int64_t length = 0;        // of them in use
  Tensor lengths;            // i64 [B] of each row, or undefined: all the same
  std::vector<Tensor> sums;  // by group, linear heads: Σ_j φ(k_j)⊗[v_j; 1], [B,Hk,d,d+1]
};

// One attention of a pass, for whoever looks at it or changes it.
struct Heads {
  const std::string& name;  // "decoder.3.cross"
  const Attended& attended;
  const Tensor& values;  // [B,Hk,Lk,d]
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

enum class NormOrder : uint8_t { post, pre };
FOVEA_API const char* name_of(NormOrder);

struct BlockConfig {
  HeadsConfig heads;
  int64_t mlp_width = 0;  // 0: 4·width
  Activation activation = Activation::gelu;
  NormKind norm = NormKind::layer;
  NormOrder order = NormOrder::pre;  // pre: x + f(norm(x)); post: norm(x + f(x))
  bool cross = false;                // looks at a source, too
  int64_t of = 1;  // blocks in all: what is added to x starts 1/√(2·of) as large
};

struct BlockPass {
  HeadsPass self, cross;
  const KeyValues* source = nullptr;
  Noise noise;
};

struct FOVEA_API Block {
  BlockConfig config;
  MultiHead self, cross;
  Mlp mlp;
  Norm self_norm, cross_norm, mlp_norm;
  Tensor operator()(const Tensor& x, const BlockPass& = {}) const;
};
FOVEA_API Block block(Weights&, const std::string& name, const BlockConfig&);

}  // namespace fovea::nn
