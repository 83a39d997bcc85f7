#pragma once

#include <cstdint>
#include <span>

#include "kernels/window.h"

namespace fovea::kernels {

// Each of N images' G groups is W [O,K] times its columns [K,P], K = C·KY·KX and P = OY·OX.
struct Convolution {
  Window window;  // of one group
  int64_t N, G, O;
  int64_t K() const { return window.C * window.KY * window.KX; }
  int64_t P() const { return window.OY * window.OX; }
};
// y[n,g] = W[g]·columns(x[n,g])
void conv(const Convolution&, const float* x, const float* w, float* y);
// dx[n,g] = W[g]ᵀ·dy[n,g], each number back where it came from
void d_conv_x(const Convolution&, const float* w, const float* dy, float* dx);
// dW[g] = Σ_n dy[n,g]·columns(x[n,g])ᵀ, at most 16 partial sums of neighbouring places.
void d_conv_w(const Convolution&, const float* x, const float* dy, float* dw);

// An implementation of one of the three. Each takes the first of its list, best first, that can: a
// matter of sizes alone, and never of N. Another one is another row.
struct ConvWay {
  const char* name;
  bool (*can)(const Convolution&);
  void (*run)(const Convolution&, const float*, const float*, float*);
};
enum class ConvPass { y, dx, dw };
std::span<const ConvWay> conv_ways(ConvPass);
const ConvWay& conv_way(ConvPass, const Convolution&);

}  // namespace fovea::kernels
