#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "fovea/api.h"
#include "fovea/tensor.h"

// Where a model looks when nobody asked it to: how its outputs change with its inputs. None of
// these needs attention, and all of them work on any model that is a function on the tape. Letters:
// R rows, S inputs, E the width of an input's vector, T outputs.
namespace fovea::explain {

// What is explained: rows in, each an input of its own, and T numbers for each out:
// x [R,…] → y [R,T]. No row sees another, so that a pass over many rows is many passes at once.
using Outputs = std::function<Tensor(const Tensor& rows)>;
// The same where each row is asked for one of them: rows and as many outputs in, y [R] out. Where
// an output is one of many tokens, that is a T-th of the logits.
using OneEach = std::function<Tensor(const Tensor& rows, std::span<const int64_t> outputs)>;
FOVEA_API OneEach one_each(const Outputs&);  // all are computed, one is taken

// Called now and then with the share that is done; what it throws ends the work.
using Progress = std::function<void(double)>;
struct Effort {
  int64_t rows = 32;  // at once: what memory is a multiple of
  Progress progress;
};

// ---- Pictures ----------------------------------------------------------------------------------

// A picture [C,Y,X] in places of the same size, rows × columns of them, row by row; S in all.
struct Grid {
  int64_t rows = 0, columns = 0;
};
// The pixels of each place: [C,Y,X] → [S,E], and back, for many at once: [R,S,E] → [R,C,Y,X].
FOVEA_API Tensor patches_of(const Tensor& picture, const Grid&);
FOVEA_API Tensor pictures_of(const Tensor& patches, const Grid&, const Shape& picture);
// What the pixels of each place come to: [T,Y,X] → [T,rows,columns], a sum.
FOVEA_API Tensor summed(const Tensor& values, const Grid&);

// ---- Gradients ---------------------------------------------------------------------------------

// ∂y_t/∂x for each t of `outputs`, in their order: visit(i, gradient), of x's shape. Many outputs
// are one backward pass: row r of a batch asks for its own, and rows do not see each other.
FOVEA_API void each_gradient(const OneEach&, const Tensor& x, std::span<const int64_t> outputs,
                             const std::function<void(size_t, const Tensor&)>& visit,
                             const Effort& = {});
FOVEA_API void each_gradient(const Outputs&, const Tensor& x, std::span<const int64_t> outputs,
                             const std::function<void(size_t, const Tensor&)>& visit,
                             const Effort& = {});

// The sequential Jacobian of inputs x [S,E]: for output t and input s the vector ∂y_t/∂x_s, as its
// length ‖·‖ and as the sum of its elements.
struct SequentialJacobian {
  Tensor norm, sum;  // [outputs,S]
};
FOVEA_API SequentialJacobian sequential_jacobian(const OneEach&, const Tensor& x,
                                                 std::span<const int64_t> outputs,
                                                 const Effort& = {});
FOVEA_API SequentialJacobian sequential_jacobian(const Outputs&, const Tensor& x,
                                                 std::span<const int64_t> outputs,
                                                 const Effort& = {});

enum class Saliency : uint8_t {
  plain,        // ∂y/∂x
  times_input,  // x·∂y/∂x
  smoothed,     // the mean of ∂y/∂x at x + noise
  integrated,  // (x − x₀)·∫ ∂y/∂x at x₀ + a(x − x₀) da: sums up to y(x) − y(x₀)
};
struct SaliencyConfig {
  Saliency kind = Saliency::plain;
  int64_t draws = 32;      // smoothed
  float noise = 0.15f;     // its deviation, times the range of x
  uint64_t seed = 1;       // its own
  Tensor baseline;         // integrated: x₀, of x's shape; undefined: zeros
  int64_t steps = 32;      // of Gauss and Legendre; twice as many until …
  int64_t most = 1024;     // (at most)
  double complete = 0.01;  // … the sum is this near, relative to y(x) − y(x₀)
};
struct Attribution {
  Tensor values;       // of x's shape
  double missing = 0;  // integrated: |Σ − (y(x) − y(x₀))| / |y(x) − y(x₀)|
};
FOVEA_API Attribution saliency(const OneEach&, const Tensor& x, int64_t output,
                               const SaliencyConfig& = {}, const Effort& = {});
FOVEA_API Attribution saliency(const Outputs&, const Tensor& x, int64_t output,
                               const SaliencyConfig& = {}, const Effort& = {});

// ReLU(Σ_c α_c A_c): activations A [R,C,Y,X] that lie on the way to the output y [R] → [R,Y,X].
enum class Cam : uint8_t {
  mean,  // Grad-CAM: α_c the mean of ∂y/∂A_c over the places
  own,   // HiResCAM: each place's own; the same where the output takes the mean of the places
};
FOVEA_API Tensor grad_cam(const Tensor& activations, const Tensor& output, Cam = Cam::mean);

// ---- Without gradients -------------------------------------------------------------------------

// y(x) − y(x without place i), places 0 … n − 1: [T,n]. without(i) gives such an x.
using Without = std::function<Tensor(int64_t)>;
FOVEA_API Tensor occlusion(const Outputs&, const Tensor& x, int64_t places, const Without&,
                           const Effort& = {});
FOVEA_API Without blank_rows(const Tensor& x, const Tensor& blank);  // [S,E], [E]
// A square of `size` pixels of a picture [C,Y,X], around the middle of each place of its grid.
struct Patches {
  Grid grid;
  int64_t size = 1;
  float value = 0.0f;
};
FOVEA_API Without blank_patches(const Tensor& x, const Patches&);

// ---- Attention through layers ------------------------------------------------------------------

// ½(A + 1), A the mean of a layer's heads: [H,L,L] → [L,L]. Half of a row is what it was.
FOVEA_API Tensor half_kept(const Tensor& weights);
// The product of these, the last layer first: who of the inputs went into which row.
FOVEA_API Tensor rollout(std::span<const Tensor> layers);

// ---- Agreement ---------------------------------------------------------------------------------

// Kendall's τ_b of two rankings: 1 the same, −1 the reverse; NaN where one has no order.
FOVEA_API double kendall_tau(std::span<const float> a, std::span<const float> b);
// Of two distributions, in nats: 0 … log 2.
FOVEA_API double jensen_shannon(std::span<const float> p, std::span<const float> q);
FOVEA_API double total_variation(std::span<const float> p, std::span<const float> q);  // ½Σ|p − q|

}  // namespace fovea::explain
