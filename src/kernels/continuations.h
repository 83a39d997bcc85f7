#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

// What sequences may go on with: the best of all tokens after all of their beams.
namespace fovea::kernels {

constexpr double kImpossible = -std::numeric_limits<double>::infinity();

struct Continuation {
  double score = kImpossible;  // log p so far
  int64_t beam = 0, token = 0;
  float logit = 0.0f;
};

// B sequences of K beams, rows b·K + k.
struct Beams {
  int64_t B = 0, K = 0, V = 0;
  const float *log_p = nullptr, *logits = nullptr;  // [B·K,V]
  const double* scores = nullptr;                   // [B·K]; kImpossible where there is no beam
  const uint8_t* done = nullptr;                    // [B]; those are left out
};

// By sequence the best `count`, best first: by score, then beam, then logit, then token. Tokens in
// `never` are not among them. Bit-equal at any thread count.
std::vector<std::vector<Continuation>> best_continuations(const Beams&,
                                                          std::span<const int64_t> never,
                                                          size_t count);

}  // namespace fovea::kernels
