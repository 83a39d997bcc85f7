#pragma once

#include <cstdint>
#include <string>

#include "fovea/api.h"
#include "fovea/tensor.h"

// REINFORCE: learning to choose where a choice a_t has no gradient of its own. Where R_t is what
// came after it and b_t a guess of that from before it,
//   E[−(R_t − b_t)·∇ log p(a_t)] = −∇ E[R_t]
// for any b_t that does not depend on a_t; the closer to R_t, the less the estimate scatters.
// Letters: T steps, B rows.
namespace fovea::models {

// What a return is compared with. learned: a layer's guess from what the choice was made from.
// expected: each row goes two ways, once with its choices and once with their expectation, and both
// learn; the return of the second, and what the layer adds to it, is the first one's baseline.
enum class Baseline : uint8_t { learned, expected };
FOVEA_API const char* name_of(Baseline);
FOVEA_API Baseline baseline(const std::string& name);

struct ReinforceConfig {
  Baseline baseline = Baseline::expected;
  float reward = 0.1f;         // weight of −(R − b)·log p(a)
  float entropy = 0.01f;       // weight of a bonus for undecided choices
  float discount = 0.5f;       // how much a later reward counts in R
  float semi_sampling = 0.5f;  // learned: share of rows that take the expectation instead
};

// R_t = Σ_{t'≥t} discount^{t'−t}·r_t' along the first dimension. r [T,..]; no gradient.
FOVEA_API Tensor returns(const Tensor& rewards, float discount);

// Which rows take the expectation, bool [rows]: each by itself, with probability `share`.
FOVEA_API Tensor rows_to_expect(int64_t rows, float share, uint64_t seed);

// The choices of one pass, all [T,B].
struct Choices {
  Tensor log_prob;  // of what was chosen; 0 where the expectation was taken
  Tensor entropy;   // of what it was chosen from
  Tensor counts;    // 1, or 0 for padding
};

// Σ (R − b)² − reward·(R − b)·log p(a) − entropy·H(a) over the choices that count, []. The first
// term teaches the baseline b [T,B], and b alone; it must see only what the choice was made from.
FOVEA_API Tensor reinforce(const Choices&, const Tensor& returns, const Tensor& baseline,
                           const ReinforceConfig&);

}  // namespace fovea::models
