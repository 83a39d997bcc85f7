#include "cuda/attention.h"

#include <array>
#include <cstdlib>
#include <string>

#include "cuda/bias.cuh"
#include "kernels/attention/refused.h"

namespace fovea::cuda {
namespace {

// Whether dimensions with a stride have elements of their own.
bool apart(const View<float>& v, const std::array<int64_t, 4>& sizes) {
  struct Dim {
    int64_t stride, size;
  };
  std::array<Dim, 4> dims{Dim{std::abs(v.b), sizes[0]}, Dim{std::abs(v.h), sizes[1]},
                          Dim{std::abs(v.r), sizes[2]}, Dim{std::abs(v.c), sizes[3]}};
  std::sort(dims.begin(), dims.end(),
            [](const Dim& a, const Dim& b) { return a.stride < b.stride; });
  int64_t reach = 0;
  for (const Dim& d : dims) {
    if (d.stride == 0 || d.size == 1) continue;
    if (d.stride <= reach) return false;
    reach += d.stride * (d.size - 1);
  }
  return true;
}

// FOVEA_CUDA_PATH=long or general, for the tests: that path where another could do it, too.
bool takes(const char* path) {
  const char* asked = std::getenv("FOVEA_CUDA_PATH");
  return asked != nullptr && std::string(asked) == path;
}

// Softmax and its context: what the paths besides the general one do.
bool plain(const AttentionProblem& p) {
  return p.weigh == kernels::Weigh::softmax && p.family != Family::given && !p.center && p.Dv > 0 &&
         !takes("general");
}
bool plain(const AttentionGradients& g) {
  return g.d_context && g.context && !g.d_weights && !g.d_log_prob && !g.d_entropy;
}

void check_problem(const AttentionProblem& p) {
  if (const char* reason = refuses(p)) throw Error("attention on the GPU", reason);
}

bool empty(const AttentionProblem& p) { return p.B == 0 || p.H == 0 || p.Lq == 0; }

}  // namespace

const char* refuses(const AttentionProblem& p) {
  if (!dot_suits_bf16(p)) return kernels::refused_by_devices(p);
  AttentionProblem wide = p;
  wide.q16 = wide.k16 = wide.v16 = {};
  return kernels::refused_by_devices(wide);
}

void attention_forward(const AttentionProblem& p, const AttentionResult& out) {
  check_problem(p);
  if (empty(p)) return;
  if (p.q16) return dot_forward(p, out);
  if (!plain(p) || out.weights || !out.context) return general_forward(p, out);
  if (takes("long")) return long_forward(p, out);
  if (dot_suits(p)) return dot_forward(p, out);
  return short_suits(p) ? short_forward(p, out) : long_forward(p, out);
}

void attention_backward(const AttentionProblem& p, const AttentionGradients& g) {
  check_problem(p);
  if (empty(p)) return;
  if (p.q16) return dot_backward(p, g);
  if (!plain(p) || !plain(g)) return general_backward(p, g);
  if (takes("long")) return long_backward(p, g);
  if (dot_suits(p) && g.stat) return dot_backward(p, g);
  return short_suits(p) ? short_backward(p, g) : long_backward(p, g);
}

void add_bias_gradients(const AttentionProblem& p, const AttentionGradients& g,
                        const BiasRows& rows) {
  const int H = static_cast<int>(p.H), whole = rows.heads / H;
  const BiasSum x{rows.ds,   rows.z,  rows.heads,  rows.row,     rows.rows,           rows.padded,
                  rows.step, g.dbias, g.dbias_low, g.dbias_span, 1.0f / p.temperature};
  BiasDims d{H, rows.z / H, std::max(1, whole), static_cast<int>(p.Lk)};
  if (apart(g.dbias, {p.B, p.H, p.Lq, p.Lk})) {
    d.b = g.dbias.b != 0, d.h = g.dbias.h != 0, d.r = g.dbias.r != 0, d.c = g.dbias.c != 0;
    const size_t n = size_t(d.b ? d.nb : 1) * (d.h ? rows.heads / d.nb : 1) *
                     (d.r ? rows.rows : 1) * (d.c ? p.Lk : 1);
    sum_bias<<<blocks_for(n), 256, 0, stream()>>>(x, d);
  } else {
    const auto blocks = static_cast<unsigned>((g.dbias_span + 255) / 256);
    sum_overlapping_bias<<<blocks, 256, 0, stream()>>>(x, d);
  }
  check_launch("attention, the gradient of the bias");
}

}  // namespace fovea::cuda
