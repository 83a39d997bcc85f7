#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "fovea/api.h"
#include "fovea/tensor.h"

// Attention is three steps: score a query against keys, turn scores into weights, sum the values.
// A mechanism is therefore three independent choices, and any combination works, forward and
// backward.
//
// Letters used throughout: B batch, H heads, Hk key/value heads (Hk divides H), Lq queries,
// Lk keys, D query/key width, Dv value width, A the additive width.
namespace fovea {

struct ScoreDef;      // src/attention/def.h: one per file in src/attention/scores/
struct MaskDef;       // one per file in src/attention/masks/
struct WeightingDef;  // one per file in src/attention/weightings/

// Added to the scores. Either a matrix broadcastable to [B,H,Lq,Lk], or, when `relative`,
// one number per distance: table [.., Lq+Lk−1] broadcastable to [B,H,Lq+Lk−1], read at
// j − i + Lq − 1. Differentiable. −inf forbids a key.
struct Bias {
  Tensor table;
  bool relative = false;
};

// How a query is compared with a key.
struct Score {
  const ScoreDef* def = nullptr;  // scaled_dot when null
  Tensors parameters;
  std::optional<float> scale;    // multiplies the score; the mechanism's own when absent
  std::optional<float> softcap;  // c·tanh(s/c) instead of the scaled score s, before the bias
  std::optional<Bias> bias;
};

// One condition on which keys a query may see.
struct MaskTerm {
  const MaskDef* def = nullptr;
  Tensors parameters;
  std::vector<double> numbers;  // all that it declares, in that order: those of "window:64,0"
  bool renormalise = false;     // local_p: false is the original
};

// Every term must allow a key; no terms: global attention.
struct Mask {
  std::vector<MaskTerm> terms;
};
FOVEA_API Mask operator&(Mask, const Mask&);

// How scores become weights.
struct Weighting {
  const WeightingDef* def = nullptr;  // softmax when null
  Tensors parameters;
  std::vector<double> numbers;  // all that it declares, in that order
  float temperature = 1.0f;     // scores are divided by it
  float dropout = 0.0f;         // probability that a weight is dropped; kept ones grow
  uint64_t seed = 0;            // sampling, gumbel and dropout
};

struct Attention {  // what attend() does: three choices
  Score score;
  Mask mask;
  Weighting weighting;
};

// By name, as on the command line, numbers after it; an unknown name throws and suggests the
// nearest.
FOVEA_API Score score(const std::string& name, Tensors = {});
FOVEA_API Mask mask(const std::string& spec, Tensors = {});  // "causal+window:64,0"
FOVEA_API Weighting weighting(const std::string& spec, Tensors = {});

namespace scores {
FOVEA_API Score dot();  // q·k
FOVEA_API Score scaled_dot();
FOVEA_API Score multiplicative(Tensor w);                                   // w [Dq,Dk]
FOVEA_API Score additive(Tensor w_q, Tensor w_k, Tensor u, Tensor b = {});  // [A,Dq] [A,Dk] [A] [A]
FOVEA_API Score additive_keras(Tensor u);           // Σ u·tanh(q + k), u [D]
FOVEA_API Score tanh_unit(Tensor w_y, Tensor w_c);  // [Dk] [Dq]
FOVEA_API Score mlp(Tensor w_1, Tensor b_1, Tensor w_2, Tensor b_2, Tensor u);
FOVEA_API Score cosine(Tensor beta = {});  // beta [] or [H]
FOVEA_API Score location(Tensor w_loc);    // [Lmax,D]
FOVEA_API Score elu_dot();                 // (elu(q)+1)·(elu(k)+1)
}  // namespace scores

namespace masks {
inline constexpr int64_t kUnbounded = std::numeric_limits<int64_t>::max();  // a side without end
FOVEA_API Mask everything();
FOVEA_API Mask causal();
FOVEA_API Mask window(int64_t w);
FOVEA_API Mask window(int64_t left, int64_t right);  // kUnbounded: all keys on that side
FOVEA_API Mask local_p(int64_t w, Tensor w_p, Tensor u_p, bool renormalise = false);  // [A,D] [A]
FOVEA_API Mask lengths(Tensor lengths);                                               // i64 [B]
FOVEA_API Mask segments(Tensor q_segments, Tensor k_segments);  // i64 [B,Lq] [B,Lk]
FOVEA_API Mask matrix(Tensor allowed);  // bool, or f32 added to the score; broadcasts, rank 1–4
}  // namespace masks

namespace weightings {
// sink [H], learned: one more score for every row of a head, over the temperature like the others.
// It takes weight and has no value: weights sum to less than 1, and log-sum-exp and entropy are
// those of the keys and the sink.
FOVEA_API Weighting softmax(float temperature = 1.0f, Tensor sink = {});
FOVEA_API Weighting sample(uint64_t seed);
FOVEA_API Weighting argmax();
FOVEA_API Weighting gumbel(uint64_t seed, float temperature = 1.0f);
FOVEA_API Weighting sparsemax();
FOVEA_API Weighting entmax15();
FOVEA_API Weighting sigmoid();
FOVEA_API Weighting none();
}  // namespace weightings

namespace biases {
// −slopes[h]·|distance|, distance 0 where a causal query sees itself. slopes [H].
FOVEA_API Bias alibi(const Tensor& slopes, int64_t Lq, int64_t Lk);
// table [buckets,H] looked up by T5's logarithmic distance buckets.
FOVEA_API Bias t5(const Tensor& table, int64_t Lq, int64_t Lk, bool bidirectional,
                  int64_t max_distance = 128);
}  // namespace biases

// How the result is computed, best first; automatic takes the first that can do it.
enum class Plan : uint8_t { automatic, linear, fused, composed, reference };
FOVEA_API const char* name_of(Plan);
FOVEA_API Plan plan(const std::string& name);

// Which heads and query rows a look inside is for; empty means all.
struct Select {
  std::vector<int64_t> heads;
  std::vector<int64_t> rows;
};

struct TopK {
  Tensor weights;  // f32 [B,H',Lq',k], largest first
  Tensor keys;     // i64 [B,H',Lq',k]
};

// What a call computed that its backward pass reads beside the inputs: a number or two a row.
struct Computed {
  Tensor context;  // [B,H,Lq,Dv]
  Tensor stat;    // f32 [B,H,Lq]: softmax and sample: log-sum-exp; sparse weightings: the threshold
  Tensor chosen;  // i64 [B,H,Lq], hard weightings; −1: none
};

struct AttendedState;  // src/attention/state.h: what the fused pass kept

// The result of attend(). `context` is there now; the rest is computed from the row statistics
// that the fused pass kept, when asked. Looking never changes the context.
class FOVEA_API Attended {
 public:
  Tensor context;  // [B,H,Lq,Dv]

  Tensor weights(const Select& = {}) const;  // [B,H',Lq',Lk]; differentiable
  TopK top(int64_t k, const Select& = {}) const;
  Tensor entropy() const;      // [B,H,Lq], of the probabilities; differentiable
  Tensor log_sum_exp() const;  // [B,H,Lq]; differentiable
  // Hard attention: the key drawn (−1 where no key may be seen, or a NaN is), and the
  // differentiable logarithm of its probability, so that REINFORCE is loss = −(reward −
  // baseline)·log_prob().
  Tensor chosen() const;    // i64 [B,H,Lq]
  Tensor log_prob() const;  // [B,H,Lq]
  Plan plan() const;
  Computed computed() const;  // off the tape

  std::shared_ptr<const AttendedState> state;
};

struct Want {
  bool weights = false;  // weights() will be asked for: keep them while they pass by
  Plan plan = Plan::automatic;
};

// q [B,H,Lq,D], k [B,Hk,Lk,D], v [B,Hk,Lk,Dv], any strides; ranks 2 ([L,D]) and 3 ([B,L,D]) too,
// and everything in the result then has that rank.
// Each of the three may be bf16 or f16. Sums, context and gradients are float32; dot products on
// the CPU read bf16 as it is, whatever else is made float32 on the way. Where q and k are bf16 and
// the processor multiplies that, weights are rounded to bf16 before they meet values of bf16; with
// a matrix unit ("amx" of isas()) so are, on the way back, weights, their gradients and that of the
// context, where all three are bf16. A query that may see no key gives context 0, weights 0 and
// zero gradients. What is masked out is never read into the result.
FOVEA_API Attended attend(const Tensor& q, const Tensor& k, const Tensor& v, const Attention& = {},
                          const Want& = {});

// The result of that call once more, with its gradients and all it can be asked for, when nothing
// of it was kept but what it computed. Nothing is computed again but the lowered inputs (by the
// reference, everything). For whoever has a tape of its own, on which calls forward and backward
// stand apart. Inputs and choices must be those of the call.
FOVEA_API Attended attended(const Tensor& q, const Tensor& k, const Tensor& v, const Attention&,
                            const Computed&, const Want& = {});

struct Listed {
  std::string name;
  std::string formula;
  std::vector<std::string> parameters;
  std::vector<std::string> numbers;  // after the name: "width", "right?"; ? may be left out
  bool hard = false;                 // weightings: one key is chosen
};
FOVEA_API std::vector<Listed> list_scores();
FOVEA_API std::vector<Listed> list_masks();
FOVEA_API std::vector<Listed> list_weightings();
FOVEA_API std::vector<std::string> list_plans();  // without automatic

}  // namespace fovea
