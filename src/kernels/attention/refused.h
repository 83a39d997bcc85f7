#pragma once

#include "kernels/attention/problem.h"

namespace fovea::kernels {

// Why devices other than the CPU do not compute a call, forward or backward, nor looks inside; null
// where they do. Conditions are asked by their memory there.
inline const char* refused_by_devices(const AttentionProblem& p) {
  if (p.weigh == Weigh::formula) return "a weighting by its formula has no kernel";
  if (p.q16 || p.k16 || p.v16) return "16 bits have no kernel yet";
  if (p.noisy || !p.whole_rows) return "a part of the keys has no kernel yet";
  if ((p.D < 1 && p.family != Family::given) || p.Lk < 1) {
    return "the width of queries and keys, or the number of keys, is 0";
  }
  if (p.D > 16384) return "the width of queries and keys is over 16384";
  if (p.Lk > (1 << 22) || p.Lq > (1 << 22)) return "over 4194304 queries or keys";
  if (p.Lk * ((p.D + 63) / 64 * 64) >= int64_t{1} << 31) {
    return "over 2147483648 numbers in the keys of a head";
  }
  if (p.B * p.H > (1 << 20)) return "over 1048576 heads in all";
  return nullptr;
}

}  // namespace fovea::kernels
