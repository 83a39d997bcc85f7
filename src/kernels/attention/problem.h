#pragma once

#include <cstdint>

#include "kernels/numbers.h"

// One attention call as the kernels see it: pointers, sizes and strides.
namespace fovea::kernels {

// [B,H,R,C] by strides (in elements, any sign, 0 to broadcast).
template <class T>
struct View {
  T* data = nullptr;
  int64_t b = 0, h = 0, r = 0, c = 0;
  T* row(int64_t ib, int64_t ih, int64_t ir) const { return data + ib * b + ih * h + ir * r; }
  explicit operator bool() const { return data != nullptr; }
};

// The same in 16 bits: bf16 or f16.
struct HalfView : View<const uint16_t> {
  Number type = Number::bf16;
};

// How raw scores come about. q and k are already projected.
enum class Family : uint8_t {
  dot,       // q·k
  additive,  // Σ_d u_d·tanh(q_d + k_d)
  given      // read from a matrix
};

enum class Weigh : uint8_t {
  softmax,
  sample,
  argmax,
  gumbel,
  sparsemax,
  entmax15,
  sigmoid,
  none,
  formula
};

// A weighting without a kernel of its own, row by row: n permitted scores → n weights, and from
// both and dw the gradient of the scores. w may be s, and ds may be dw. Of a weighting whose
// weights sum to 1 (normalised) it is not asked where a score is NaN or +inf.
struct RowFormula {
  bool normalised = true;
  void (*forward)(const void* self, int64_t n, const float* s, float* w) = nullptr;
  void (*backward)(const void* self, int64_t n, const float* s, const float* w, const float* dw,
                   float* ds) = nullptr;
  const void* self = nullptr;
};

// Keys from … to − 1 of row (b, h, i) of a call.
struct RowKeys {
  int64_t b = 0, h = 0, i = 0;
  int64_t from = 0, to = 0;
};

// A condition besides a range and one matrix, by rows and keys of the whole call: another matrix,
// or numbers of a query and of a key that must be equal, or, on the CPU alone, whatever `forbid`
// asks, which writes −inf over the scores of the keys that a row may not see. s[0] is key `from`'s.
struct Condition {
  View<const uint8_t> allowed;           // [B,H,Lq,Lk]
  View<const int64_t> of_query, of_key;  // [B,H,Lq], [B,H,Lk]; c unused
  void (*forbid)(const void* self, const RowKeys&, float* s) = nullptr;
  const void* self = nullptr;
};

// Writes −inf over the scores of the keys that the condition hides; s[0] is key `from`'s.
void forbid(const Condition&, const RowKeys&, float* s);

struct AttentionProblem {
  int64_t B = 0, H = 0, Hk = 0, Lq = 0, Lk = 0;
  int64_t D = 0;  // width of q and k here: A for the additive family
  int64_t Dv = 0;

  Family family = Family::dot;
  View<const float> q, k, v;
  // Dot scores: those that are there stand for q, k and v. Devices take bf16 of all three, and what
  // they compute of it is bf16.
  HalfView q16, k16, v16;
  const float* u = nullptr;  // additive: [A], contiguous
  View<const float> given;   // [B,H,Lq,Lk]
  bool finite = false;       // k and v are known to be: nothing hidden there needs care
  float scale = 1.0f;        // s = (cap(scale·raw) + bias) / temperature
  float softcap = 0.0f;      // cap(x) = softcap·tanh(x/softcap); 0: x

  // Keys begin ≤ j < end of each row, by (b, h, i); null: all keys.
  View<const int32_t> begin, end;  // c unused
  View<const uint8_t> allowed;     // [B,H,Lq,Lk]
  View<const float> bias;          // [B,H,Lq,Lk]; −inf forbids
  // Whatever else a key must meet; in the device's memory.
  const Condition* conditions = nullptr;
  int64_t n_conditions = 0;

  // Predicted window: weights times exp(−(j−p)²/(2σ²)), or that exponent added to s.
  View<const float> center;  // by (b, h, i)
  float sigma = 0.0f;
  bool renormalise = false;

  Weigh weigh = Weigh::softmax;
  float temperature = 1.0f;
  const float* sink = nullptr;  // softmax: [H], a score beside those of the keys, without a value
  float dropout = 0.0f;
  uint64_t seed = 0;
  // Where row (0, 0, 0) and key 0 lie in the call this is a part of: random numbers and conditions
  // go by that.
  struct {
    int64_t b = 0, h = 0, i = 0, j = 0;
  } first;
  // Its keys are all that the call has. Where they are not, statistics given are those of the whole
  // row, and for gumbel the context given is that of softmax(s + g).
  bool whole_rows = true;
  bool noisy = false;  // softmax: of s + g, the noise that gumbel adds
  RowFormula formula;
  bool matrix_unit = false;  // products of 16 bits go there; said by attention.cc, once for a call

  bool masked() const { return begin.data || allowed || bias || conditions; }
  int64_t group() const { return H / Hk; }
  int64_t rows() const { return B * H * Lq; }
};

// What the forward pass leaves. Row statistics are contiguous [B,H,Lq].
struct AttentionResult {
  View<float> context;
  View<uint16_t> context16;  // in its place, where it is bf16
  // softmax, sample: log Σ exp s, the sink among them; gumbel: the same of the noisy scores;
  // sparsemax, entmax15: the threshold τ. −inf where no key is seen. NaN where a NaN or +inf is
  // seen, for these and argmax.
  float* stat = nullptr;
  int32_t* chosen = nullptr;  // hard weightings: the key, −1 for none
  float* best = nullptr;  // optional, hard weightings: its score, noise included; −inf for none
  View<float> weights;    // optional
  float* kept = nullptr;  // optional, where keeps_weights(): [B,H,Lq,kept_width()]
};

// The weights of few keys are kept for the backward pass, as they were before the window's bell and
// dropout: no more of them than the context has numbers, or 64 a row. Few queries by dot products
// are faster decoded; what a cap does to a gradient is said by the scores.
inline bool keeps_weights(const AttentionProblem& p) {
  const bool decodes = p.family == Family::dot && p.Lk >= 8 * p.Lq;
  return p.weigh == Weigh::softmax && p.Lk <= 512 && (p.Lk <= 64 || p.Lk <= p.Dv) && !decodes &&
         p.softcap == 0.0f;
}
constexpr int64_t kept_width(int64_t Lk) { return (Lk + 15) / 16 * 16; }  // whole vectors

// Gradients asked for, and upstream gradients given. Everything may be absent.
struct AttentionGradients {
  // Upstream.
  View<const float> context, d_context;         // context as computed, for Σ_j p_j·dp_j
  View<const uint16_t> context16, d_context16;  // in their place, where they are bf16
  View<const float> d_weights;                  // [B,H,Lq,Lk]
  const float* d_stat = nullptr;                // softmax, sample: d log-sum-exp        [B,H,Lq]
  const float* d_log_prob = nullptr;            // sample: d log p(chosen)                [B,H,Lq]
  const float* d_entropy = nullptr;             // softmax, sample                        [B,H,Lq]
  const float* entropy = nullptr;               // needed with d_entropy
  const float* stat = nullptr;
  const int32_t* chosen = nullptr;
  const float* kept = nullptr;  // with d_context alone: the weights, instead of scores again

  // Wanted; written, not accumulated. dq, dk, dv, dgiven have the shape of their inputs.
  View<float> dq, dk, dv, dgiven;
  View<uint16_t> dq16, dk16, dv16;  // in their place, where the inputs are bf16
  float* du = nullptr;              // [A]
  float* dcenter = nullptr;         // [B,H,Lq]
  float* dsink = nullptr;           // [B,H,Lq]: each row's, by the sink over the temperature
  // Accumulated through these strides (0 and overlapping strides add up); zero it first. `span` is
  // the number of elements from the lowest to the highest address, `low` the offset of the lowest.
  View<float> dbias;
  int64_t dbias_low = 0, dbias_span = 0;
};

// Which heads and rows weights are written for: weights [B,heads,rows,Lk].
struct WeightsSelection {
  const int64_t* heads = nullptr;
  int64_t n_heads = 0;
  const int64_t* rows = nullptr;
  int64_t n_rows = 0;
};

void attention_forward(const AttentionProblem&, const AttentionResult&);
void attention_backward(const AttentionProblem&, const AttentionGradients&);
// From the statistics of a forward pass; result.weights is written.
void attention_weights(const AttentionProblem&, const AttentionResult& done,
                       const WeightsSelection&, const View<float>& weights);
// Entropy of softmax probabilities, contiguous [B,H,Lq], from the log-sum-exp.
void attention_entropy(const AttentionProblem&, const float* stat, float* entropy);
// log p of the chosen keys under softmax, contiguous [B,H,Lq]; 0 where none is chosen.
void attention_log_prob(const AttentionProblem&, const float* stat, const int32_t* chosen,
                        float* log_prob);

// The k largest of each of some rows of n weights, NaN first, the first of equals; contiguous.
struct TopRows {
  int64_t rows = 0, n = 0, k = 0;
};
void top_of_rows(const TopRows&, const float* weights, float* top, int64_t* keys);

// Whether all of [B,H,R,C] is finite.
bool all_finite(const View<const float>&, int64_t B, int64_t H, int64_t R, int64_t C);

// Weighting none with a dot score: Σ_j (q·k_j) v_j by associativity, O(L). Masks: begin = 0
// and an end that never falls from one query to the next; nothing else. Where a score might not fit
// a float, which such sums do not show, the scores are computed after all.
void linear_forward(const AttentionProblem&, const AttentionResult&);
void linear_backward(const AttentionProblem&, const AttentionGradients&);

}  // namespace fovea::kernels
