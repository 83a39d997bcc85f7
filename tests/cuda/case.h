#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/attention/problem.h"

// Attention to be computed by several sides: sizes and what is asked, and the numbers.
namespace fovea::test {

using kernels::Family;
enum class Ranges { none, causal, window, lengths, segments, some_empty };
enum class Bias { none, full, shared_by_heads, by_distance, forbidding };

struct Case {
  std::string name;
  Family family = Family::additive;
  int64_t B = 1, H = 1, Hk = 1, Lq = 1, Lk = 1, A = 1, Dv = 1;
  float deviation = 1.0f;  // of q and k
  float far = 0.0f;        // of what is added to q and taken from k, the same for all rows
  bool some_far = false;   // for every other tile of rows alone
  Ranges ranges = Ranges::none;
  bool allowed = false;  // a mask by bytes besides
  Bias bias = Bias::none;
  float dropout = 0.0f;
  float softcap = 0.0f;
  bool sink = false;
  bool d_stat = false;
  float scale = 1.0f, temperature = 1.0f;
  bool heads_inside = false;  // [B,L,H,D] in memory
  bool columns = false;       // [B,H,D,L] in memory
  bool zero_weights = false;  // some u are 0
};

// All numbers of a case, and the problem that points to them. Not copied: views point into it.
struct Numbers {
  explicit Numbers(const Case& c, uint64_t seed = 7);
  Numbers(const Numbers&) = delete;
  Numbers& operator=(const Numbers&) = delete;

  Case what;
  std::vector<float> q, k, v, u, bias, sink, d_context, d_stat;
  std::vector<int32_t> begin, end;
  std::vector<uint8_t> allowed;
  kernels::AttentionProblem problem;
  kernels::View<const float> d_context_view;
};

// What comes out, contiguous whatever the layout of the inputs: [B,H,Lq,·] and [B,Hk,Lk,·].
struct Outputs {
  std::vector<double> context, stat, dq, dk, dv, du, dbias, dsink;
};

// The formulas in float64.
Outputs by_formula(const Numbers&);
// The CPU's kernels.
Outputs by_cpu(const Numbers&);
// The GPU's; throws where one number that should have been written was not. `path`: "long", or
// "best", what it takes by itself.
Outputs by_gpu(const Numbers&, const std::string& path);

// The elements of a view [B,H,R,C] in order.
struct Shape {
  int64_t B, H, R, C;
  int64_t size() const { return B * H * R * C; }
};
kernels::View<float> view_of(float* data, const Shape&, const Case&);

// ‖x − y‖ / max(‖y‖, 1); infinite where one is NaN and the other is not, or they differ in an
// infinity.
double distance(const std::vector<double>& x, const std::vector<double>& y);

}  // namespace fovea::test
