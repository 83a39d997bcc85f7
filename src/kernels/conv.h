#pragma once

#include <cstdint>

namespace fovea::kernels {

// A window that slides over planes [C,Y,X] and stops at OY×OX places.
struct Window {
  int64_t C, Y, X;
  int64_t KY, KX;
  int64_t stride_y, stride_x, pad_y, pad_x, dilation_y, dilation_x;
  int64_t OY, OX;
};

// columns [C·KY·KX, OY·OX]: what each weight meets at each place; 0 outside.
void unfold(const Window&, const float* x, float* columns);
// x += the columns, back where they came from.
void fold(const Window&, const float* columns, float* x);

// Each of N images' G groups is W [O,K] times its columns [K,P], K = C·KY·KX and P = OY·OX.
struct Convolution {
  Window window;  // of one group
  int64_t N, G, O;
  int64_t K() const { return window.C * window.KY * window.KX; }
  int64_t P() const { return window.OY * window.OX; }
};
// y[n,g] = W[g]·columns(x[n,g])
void conv(const Convolution&, const float* x, const float* w, float* y);
// dx[n,g] = fold(W[g]ᵀ·dy[n,g])
void d_conv_x(const Convolution&, const float* w, const float* dy, float* dx);
// dW[g] = Σ_n dy[n,g]·columns(x[n,g])ᵀ, at most 16 partial sums of neighbouring images.
void d_conv_w(const Convolution&, const float* x, const float* dy, float* dw);

// Planes one by one: the window's C is 1. `from` records the winner's place, y·X + x; gradients are
// added to dx.
struct Pooling {
  Window window;
  int64_t planes;
};
void max_pool(const Pooling&, const float* x, float* y, int64_t* from);
void d_max_pool(const Pooling&, const int64_t* from, const float* dy, float* dx);
void avg_pool(const Pooling&, const float* x, float* y);
void d_avg_pool(const Pooling&, const float* dy, float* dx);

}  // namespace fovea::kernels
