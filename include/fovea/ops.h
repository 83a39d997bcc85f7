#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "fovea/api.h"
#include "fovea/tensor.h"

// Differentiable operations on tensors of any strides. Shapes broadcast as in NumPy: sizes are
// equal or 1, aligned at the end. Dimensions count from the end when negative.
namespace fovea {

// ---- Element by element ----------------------------------------------------------------------
FOVEA_API Tensor add(const Tensor& a, const Tensor& b);
FOVEA_API Tensor sub(const Tensor& a, const Tensor& b);
FOVEA_API Tensor mul(const Tensor& a, const Tensor& b);
FOVEA_API Tensor div(const Tensor& a, const Tensor& b);
FOVEA_API Tensor maximum(const Tensor& a, const Tensor& b);  // ties share the gradient
FOVEA_API Tensor minimum(const Tensor& a, const Tensor& b);
FOVEA_API Tensor pow(const Tensor& base, const Tensor& exponent);
FOVEA_API Tensor pow(const Tensor& base, float exponent);

FOVEA_API Tensor operator+(const Tensor& a, const Tensor& b);  // shapes broadcast
FOVEA_API Tensor operator-(const Tensor& a, const Tensor& b);
FOVEA_API Tensor operator*(const Tensor& a, const Tensor& b);
FOVEA_API Tensor operator/(const Tensor& a, const Tensor& b);
FOVEA_API Tensor operator-(const Tensor& a);
FOVEA_API Tensor operator+(const Tensor& a, float b);
FOVEA_API Tensor operator-(const Tensor& a, float b);
FOVEA_API Tensor operator*(const Tensor& a, float b);
FOVEA_API Tensor operator/(const Tensor& a, float b);
FOVEA_API Tensor operator+(float a, const Tensor& b);
FOVEA_API Tensor operator-(float a, const Tensor& b);
FOVEA_API Tensor operator*(float a, const Tensor& b);
FOVEA_API Tensor operator/(float a, const Tensor& b);

FOVEA_API Tensor neg(const Tensor& x);  // these: element by element
FOVEA_API Tensor exp(const Tensor& x);
FOVEA_API Tensor log(const Tensor& x);
FOVEA_API Tensor tanh(const Tensor& x);
FOVEA_API Tensor sigmoid(const Tensor& x);
FOVEA_API Tensor relu(const Tensor& x);
FOVEA_API Tensor gelu(const Tensor& x);       // x·Φ(x), exact
FOVEA_API Tensor gelu_tanh(const Tensor& x);  // its approximation by a hyperbolic tangent
FOVEA_API Tensor silu(const Tensor& x);       // x·σ(x)
FOVEA_API Tensor elu(const Tensor& x, float alpha = 1.0f);
FOVEA_API Tensor sqrt(const Tensor& x);
FOVEA_API Tensor square(const Tensor& x);
FOVEA_API Tensor abs(const Tensor& x);
FOVEA_API Tensor clamp(const Tensor& x, float low, float high);
// cond ? a : b; what is not chosen is neither read into the result nor given a gradient.
FOVEA_API Tensor where(const Tensor& cond, const Tensor& a, const Tensor& b);

// Bool. Both f32 or both i64.
FOVEA_API Tensor less(const Tensor& a, const Tensor& b);
FOVEA_API Tensor less_equal(const Tensor& a, const Tensor& b);
FOVEA_API Tensor greater(const Tensor& a, const Tensor& b);
FOVEA_API Tensor greater_equal(const Tensor& a, const Tensor& b);
FOVEA_API Tensor equal(const Tensor& a, const Tensor& b);
FOVEA_API Tensor not_equal(const Tensor& a, const Tensor& b);

// ---- Reductions; no dims: all of them ----------------------------------------------------------
enum class Keep : uint8_t { no, yes };  // whether reduced dimensions stay, with size 1
FOVEA_API Tensor sum(const Tensor& x, const std::vector<int>& dims = {}, Keep = Keep::no);
FOVEA_API Tensor mean(const Tensor& x, const std::vector<int>& dims = {}, Keep = Keep::no);
FOVEA_API Tensor max(const Tensor& x, const std::vector<int>& dims = {}, Keep = Keep::no);
FOVEA_API Tensor argmax(const Tensor& x, int dim, Keep = Keep::no);  // i64; the first of equals

// ---- Products ----------------------------------------------------------------------------------
// a [..,M,K], b [..,K,N] → [..,M,N]; leading dimensions broadcast.
FOVEA_API Tensor matmul(const Tensor& a, const Tensor& b);
// x·Wᵀ + b: x [..,I], weight [O,I], bias [O] or undefined → [..,O].
FOVEA_API Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias = {});

// ---- Shapes (see also Tensor) ------------------------------------------------------------------
FOVEA_API Tensor concatenate(const std::vector<Tensor>& parts, int dim);
FOVEA_API Tensor stack(const std::vector<Tensor>& parts, int dim);
// Many parts cost one gradient together, where as many slices would cost one each.
FOVEA_API std::vector<Tensor> split(const Tensor& x, const std::vector<int64_t>& sizes, int dim);
FOVEA_API std::vector<Tensor> unbind(const Tensor& x, int dim);  // x[0], x[1], … along dim
FOVEA_API Tensor pad(const Tensor& x, int dim, int64_t before, int64_t after, float value = 0.0f);

// ---- Looking up; ids are i64 -------------------------------------------------------------------
FOVEA_API Tensor embedding(const Tensor& table, const Tensor& ids);  // [V,D], [..] → [..,D]
FOVEA_API Tensor index_select(const Tensor& x, int dim, const Tensor& ids);  // ids [n]; x i64 too
// y[.., i, ..] = x[.., ids[.., i, ..], ..]; ids has x's rank, and x's sizes except along dim.
FOVEA_API Tensor gather(const Tensor& x, int dim, const Tensor& ids);
// x plus, at ids along dim, the elements of source; ids and source have one shape.
FOVEA_API Tensor scatter_add(const Tensor& x, int dim, const Tensor& ids, const Tensor& source);

// ---- Distributions -----------------------------------------------------------------------------
// A row that is −inf throughout has softmax 0.
FOVEA_API Tensor softmax(const Tensor& x, int dim = -1);
FOVEA_API Tensor log_softmax(const Tensor& x, int dim = -1);

enum class Reduction : uint8_t { mean, sum, none };  // of the losses of all rows
struct CrossEntropy {
  float label_smoothing = 0.0f;
  int64_t ignore_index = -100;
  Reduction reduction = Reduction::mean;  // over the targets that are not ignored
};
// logits [..,C], targets i64 [..] → [] or, unreduced, [..].
FOVEA_API Tensor cross_entropy(const Tensor& logits, const Tensor& targets,
                               const CrossEntropy& = {});

// ---- Norms -------------------------------------------------------------------------------------
// Over the last dimension D; weight and bias [D] may be undefined.
FOVEA_API Tensor layer_norm(const Tensor& x, const Tensor& weight = {}, const Tensor& bias = {},
                            float epsilon = 1e-5f);
FOVEA_API Tensor rms_norm(const Tensor& x, const Tensor& weight = {}, float epsilon = 1e-6f);

// Over all but dimension 1: x [N,C,..], weight and bias [C]. Training normalises by the batch's
// own statistics and moves the running ones (when defined) towards them.
enum class Mode : uint8_t { train, eval };
struct BatchNorm {
  Tensor running_mean, running_var;  // [C]
  float momentum = 0.1f;
  float epsilon = 1e-5f;
};
FOVEA_API Tensor batch_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, BatchNorm&,
                            Mode);

// Each element is 0 with the given probability, else grows by 1/(1−p); element i depends on
// (seed, i) alone.
FOVEA_API Tensor dropout(const Tensor& x, float probability, uint64_t seed);

// ---- Positions ---------------------------------------------------------------------------------
// x [B,H,L,D], D even: (x_i, x_{i+D/2}) turned by the angle of (l, i); cos and sin [L,D/2]. The
// result lies in memory as [B,L,H,D].
FOVEA_API Tensor rotate(const Tensor& x, const Tensor& cos, const Tensor& sin);

// ---- Convolutions and pooling ------------------------------------------------------------------
struct Conv2d {
  int64_t stride_y = 1, stride_x = 1;
  int64_t pad_y = 0, pad_x = 0;
  int64_t dilation_y = 1, dilation_x = 1;
  int64_t groups = 1;
};
struct Conv1d {
  int64_t stride = 1, pad = 0, dilation = 1, groups = 1;
};
// x [N,C,Y,X], weight [O,C/groups,KY,KX], bias [O] or undefined → [N,O,Y',X'].
FOVEA_API Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
                        const Conv2d& = {});
// x [N,C,L], weight [O,C/groups,K] → [N,O,L'].
FOVEA_API Tensor conv1d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
                        const Conv1d& = {});

struct Pool2d {  // the window and its steps
  int64_t size_y = 2, size_x = 2;
  int64_t stride_y = 2, stride_x = 2;
  int64_t pad_y = 0, pad_x = 0;
};
FOVEA_API Tensor max_pool2d(const Tensor& x, const Pool2d& = {});
FOVEA_API Tensor avg_pool2d(const Tensor& x, const Pool2d& = {});  // padding counts as zeros

}  // namespace fovea
