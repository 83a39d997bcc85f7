#include "kernels/conv.h"

#include <algorithm>

#include "core/allocator.h"
#include "core/threads.h"
#include "kernels/conv-direct.h"
#include "kernels/conv-unfold.h"
#include "kernels/conv-winograd.h"

namespace fovea::kernels {
namespace {

bool any(const Convolution&) { return true; }

// No number of x meets a weight: all results are 0, or there are none.
bool sums_nothing(const Convolution& c) {
  return c.N * c.G * c.O * c.window.C * c.window.Y * c.window.X == 0;
}
void zero(int64_t n, float* y) { std::fill_n(y, n, 0.0f); }

// Where the window moves by one, dx is dy convolved with the weights turned around,
// dx[c] = Σ_o Σ_k W[o,c,K−1−k]·dy[o, · + k − pad'], pad' = (K−1)·dilation − pad.
Convolution turned(const Convolution& c) {
  Convolution t = c;
  Window& w = t.window;
  w.C = c.O;
  w.Y = c.window.OY;
  w.X = c.window.OX;
  w.OY = c.window.Y;
  w.OX = c.window.X;
  w.pad_y = (w.KY - 1) * w.dilation_y - w.pad_y;
  w.pad_x = (w.KX - 1) * w.dilation_x - w.pad_x;
  t.O = c.window.C;
  return t;
}

// If nothing is unfolded there.
bool turned_can(const Convolution& c) {
  const Window& w = c.window;
  const Convolution t = turned(c);
  return w.stride_y == 1 && w.stride_x == 1 && t.window.pad_y >= 0 && t.window.pad_x >= 0 &&
         conv_way(ConvPass::y, t).run != unfolded;
}

// [G,O,C,K] as [G,C,O,K], each window from its end.
Buffer<float> turned_weights(const Convolution& c, const float* w) {
  const int64_t C = c.window.C, K = c.window.KY * c.window.KX;
  const Buffer<float> to(c.G * c.O * C * K);
  parallel_for(c.G * C, c.O * K, [&](int64_t i) {
    const float* from = w + (i / C * c.O * C + i % C) * K;
    for (int64_t o = 0; o < c.O; ++o, from += C * K) {
      std::reverse_copy(from, from + K, to.data() + (i * c.O + o) * K);
    }
  });
  return to;
}

void turned_d_x(const Convolution& c, const float* w, const float* dy, float* dx) {
  conv(turned(c), dy, turned_weights(c, w).data(), dx);
}

constexpr ConvWay kForward[] = {{"winograd", winograd_can, winograd},
                                {"few outputs", few_outputs_can, few_outputs},
                                {"direct", direct_can, direct},
                                {"unfolded", any, unfolded}};
constexpr ConvWay kForX[] = {{"winograd", winograd_can, winograd_d_x},
                             {"turned", turned_can, turned_d_x},
                             {"unfolded", any, unfolded_d_x}};
constexpr ConvWay kForW[] = {{"winograd", winograd_can, winograd_d_w},
                             {"direct", any, direct_d_w},
                             {"unfolded", any, unfolded_d_w}};

}  // namespace

std::span<const ConvWay> conv_ways(ConvPass pass) {
  switch (pass) {
    case ConvPass::y:
      return kForward;
    case ConvPass::dx:
      return kForX;
    case ConvPass::dw:
      break;
  }
  return kForW;
}

const ConvWay& conv_way(ConvPass pass, const Convolution& c) {
  const std::span<const ConvWay> ways = conv_ways(pass);
  return *std::find_if(ways.begin(), ways.end(), [&](const ConvWay& way) { return way.can(c); });
}

void conv(const Convolution& c, const float* x, const float* w, float* y) {
  if (sums_nothing(c)) return zero(c.N * c.G * c.O * c.P(), y);
  conv_way(ConvPass::y, c).run(c, x, w, y);
}
void d_conv_x(const Convolution& c, const float* w, const float* dy, float* dx) {
  if (sums_nothing(c)) return zero(c.N * c.G * c.window.C * c.window.Y * c.window.X, dx);
  conv_way(ConvPass::dx, c).run(c, w, dy, dx);
}
void d_conv_w(const Convolution& c, const float* x, const float* dy, float* dw) {
  if (sums_nothing(c)) return zero(c.G * c.O * c.K(), dw);
  conv_way(ConvPass::dw, c).run(c, x, dy, dw);
}

}  // namespace fovea::kernels
