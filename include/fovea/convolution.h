#pragma once

#include <cstdint>
#include <string>

#include "fovea/api.h"
#include "fovea/attention.h"
#include "fovea/nn.h"
#include "fovea/ops.h"
#include "fovea/tensor.h"

// Layers over grids [B,C,Y,X]: C channels, Y rows, X columns.
namespace fovea::nn {

struct ConvShape {
  int64_t in = 0, out = 0;
  int64_t size = 3;    // of the window, odd
  int64_t stride = 1;  // margins are size/2, so that stride 1 keeps the grid's size
};

// batch_norm(conv(x)); the running statistics are buffers of the model.
struct FOVEA_API NormedConv {
  Tensor weight;        // [O,C,K,K]
  Tensor scale, shift;  // [O]
  Tensor mean, var;     // [O], running
  Conv2d how;
  Tensor operator()(const Tensor& x, Mode) const;
};
FOVEA_API NormedConv normed_conv(Weights&, const std::string& name, const ConvShape&);

// relu(x + f(x)), f = conv, norm, relu, conv, norm.
struct FOVEA_API ResidualConv {
  NormedConv first, second;
  Tensor operator()(const Tensor& x, Mode) const;
};
FOVEA_API ResidualConv residual_conv(Weights&, const std::string& name, int64_t channels);

// Self-attention between the places of a grid, S = Y·X of them:
//   y = x + γ·W_o attend(W_q x, W_k x, W_v x)
// γ is learned and starts at 0, so that the layer begins as if it were not there.
struct FOVEA_API GridAttention {
  int64_t heads = 1;
  Linear queries, keys, values, out;
  Tensor gate;  // γ, []
  Attention attention;

  struct Output {
    Tensor y;        // [B,C,Y,X]
    Tensor weights;  // [B,H,S,S] off the tape, when kept
  };
  enum class Keep : uint8_t { nothing, weights };
  Output operator()(const Tensor& x, Keep = Keep::nothing) const;
};
struct GridAttentionConfig {
  int64_t channels = 0, heads = 1, depth = 16;  // depth of a head
};
FOVEA_API GridAttention grid_attention(Weights&, const std::string& name,
                                       const GridAttentionConfig&);

// [B,C,Y,X] as rows [B,S,C], and back.
FOVEA_API Tensor rows_of_grid(const Tensor& x);
FOVEA_API Tensor grid_of_rows(const Tensor& rows, int64_t height, int64_t width);

}  // namespace fovea::nn
