#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "attention/scalar.h"
#include "fovea/attention.h"
#include "kernels/attention/problem.h"

// What one file in scores/, masks/ or weightings/ says about its mechanism. A CMake glob turns the
// files into tables; the command line, the tests, the gradient checks and the benchmarks iterate
// over those tables.
namespace fovea {

struct Sizes {
  int64_t B, H, Hk, Lq, Lk, Dq, Dk, Dv;
};

// How a model that learns a parameter starts it.
enum class Start : uint8_t {
  usual,    // matrices ±√(6/(fan_in + fan_out)), vectors ±1/√fan_in, optional ones 0
  uniform,  // ±1/√fan_in
  one,
};

// A parameter's name and shape in letters: {"w_q", {"A", "Dq"}}. Letters: A, A2 (free), Dq, Dk,
// "Dq+Dk", H, B, Lq, Lk, Lmax (at least Lk). "?" at the end of the name marks it optional:
// {"b?", {"A"}}; at the end of a letter, that the dimension may be 1 or, leading, absent.
struct ParameterDef {
  std::string name;
  std::vector<std::string> shape;
  DType dtype = DType::f32;
  bool or_f32 = false;  // f32 will do as well
  Start start = Start::usual;
};

// A number of a mechanism's own, said after its name: "window:64,0". "?" at the end of the name
// marks one that may be left out: it is `otherwise` then, or the number before it.
struct NumberDef {
  std::string name;
  double example = 1;  // for messages, and for the tests
  double least = 0;
  bool whole = true;
  bool endless = false;  // "inf" too, where no number is left out
  std::optional<double> otherwise;
};

// What a constructor was given of its parameters: optional ones may be undefined.
Tensors only_defined(Tensors);

// ---- Scores ----------------------------------------------------------------------------------

// What a score is once its queries and its keys are lowered, each side by itself. Dot and additive
// scores run fused, and a Memory takes their gradients once for all steps.
enum class Form : uint8_t {
  dot,       // scale · q′·k′
  additive,  // scale · Σ_d u_d·tanh(q′_d + k′_d)
  pairs,     // scale · anything else of q′ and k′, pair by pair
};

// One side's rows, in differentiable operations: [B,H,Lq,Dq] → [B,H,Lq,·], [B,Hk,Lk,Dk] → …
using Lowering = Tensor (*)(const Tensor& rows, const Tensors& parameters);

struct ScoreDef {
  std::string name;
  // Another score's name that it goes by as well: which of the two is meant is said by the
  // parameters that are there.
  std::string also;
  std::string formula;
  std::vector<ParameterDef> parameters;
  bool by_default = false;    // where nobody chooses
  bool equal_widths = false;  // demands Dq = Dk
  Form form = Form::dot;
  // Null: rows as they are.
  Lowering queries = nullptr, keys = nullptr;
  bool either = false;  // one of the two is enough, q′·k = q·k′: the cheaper is taken
  // additive: u [width of q′ and k′].
  Tensor (*u)(const Tensors&) = nullptr;
  // pairs: P rows of q′ and their P rows of k′ → P scores.
  Tensor (*pairs)(const Tensor& q_rows, const Tensor& k_rows, const Tensors&) = nullptr;
  // The factor used when the caller sets none; null: 1.
  float (*default_scale)(const Sizes&) = nullptr;
  // The formula itself, for one query and one key, on any number type (see scalar.h).
  ScalarScore reference;
};

// ---- Masks -----------------------------------------------------------------------------------

struct KeyRange {
  int64_t begin = 0, end = 0;  // keys begin … end − 1
};

// The other terms matter to some: where a window's queries stand is said by
// the causal mask beside it, and a predicted window spans the source length.
struct MaskContext {
  Sizes n;
  bool at_end = false;  // query i stands at key i + Lk − Lq, not at i
  Tensor lengths;       // i64 [B] or undefined
};

struct EqualIds {
  Tensor of_query, of_key;
};

struct MaskDef {
  std::string name;
  std::string formula;
  std::vector<ParameterDef> parameters;
  std::vector<NumberDef> numbers;
  // What it tells the other terms.
  bool aligns_at_end = false;                    // query i stands at key i + Lk − Lq
  Tensor (*lengths)(const MaskTerm&) = nullptr;  // i64 [B], how many keys there are
  // Exactly one of the next three; a condition that is a range now and then has both, and is_range.
  // A contiguous range for each query: the fused kernels skip what lies outside.
  KeyRange (*range)(const MaskTerm&, const MaskContext&, int64_t b, int64_t i) = nullptr;
  bool range_by_batch = true;  // false: the same for every b
  bool prefix = false;         // it begins at key 0, and its end never falls from query to query
  bool (*is_range)(const MaskTerm&, const MaskContext&) = nullptr;
  // Any other condition, key by key.
  bool (*allows)(const MaskTerm&, const MaskContext&, int64_t b, int64_t h, int64_t i,
                 int64_t j) = nullptr;
  // A window around a real centre p(q), differentiable: keys |j − p| ≤ W, its first number, weights
  // times exp(−(j−p)²/(2(W/2)²)); renormalise: that exponent is added to the scores (after the
  // division by the temperature) instead.  q [B,H,Lq,Dq] → p [B,H,Lq].
  Tensor (*center)(const Tensor& q, const MaskTerm&, const MaskContext&) = nullptr;
  ScalarCenter center_reference;
  // With `allows`: the same condition as the bool tensor broadcastable to [B,H,Lq,Lk] that the term
  // has; undefined: none.
  Tensor (*allowed)(const MaskTerm&) = nullptr;
  // With `allows`: the same condition as numbers that must be equal, i64 [B,Lq] of the queries and
  // [B,Lk] of the keys; null: none.
  EqualIds (*equal)(const MaskTerm&) = nullptr;
  // A term may also be added to the scores instead (a float matrix); undefined: none.
  Tensor (*bias)(const MaskTerm&) = nullptr;
};

// ---- Weightings ------------------------------------------------------------------------------

// The kernel that does it; `formula`: none of its own, row by row through `rows` or, where there
// are none, the reference formula.
using WeightingKind = kernels::Weigh;

// A weighting in single precision, for rows of n permitted scores: forward gives the weights,
// backward ds from scores, weights and dw. w may be s, ds may be dw. Loops over a row that the
// compiler makes vectors of (row_math.h) are enough to be about as fast as softmax.
struct WeightingRows {
  void (*forward)(std::span<const double> numbers, int64_t n, const float* s, float* w) = nullptr;
  void (*backward)(std::span<const double> numbers, int64_t n, const float* s, const float* w,
                   const float* dw, float* ds) = nullptr;
};

struct WeightingDef {
  std::string name;
  std::string formula;
  std::vector<ParameterDef> parameters;
  std::vector<NumberDef> numbers;  // each may be left out: names alone choose, too
  bool by_default = false;         // where nobody chooses
  WeightingKind kind = WeightingKind::formula;
  bool hard = false;       // one key is chosen
  bool normalised = true;  // weights sum to 1, or are all NaN where a score is NaN or +inf
  // The weights have no gradient: a model learns where to look by REINFORCE on log_prob().
  bool learns_by_log_prob = false;
  // softmax: a score for every row of a head, [H], beside those of its keys. As if of a key that no
  // mask hides and whose value is 0; its weight is told to nobody. Undefined: none.
  Tensor (*sink)(const Tensors&) = nullptr;
  // The formula for one row of permitted scores (already divided by the temperature).
  ScalarWeighting reference;
  WeightingRows rows = {};
};

// ---- The tables (generated by CMake from the file names) ---------------------------------------
// scores/foo.cc defines `extern const ScoreDef score_foo`, masks/ `mask_foo`, weightings/
// `weighting_foo`.
std::span<const ScoreDef* const> score_table();
std::span<const MaskDef* const> mask_table();
std::span<const WeightingDef* const> weighting_table();

}  // namespace fovea
