#pragma once

#include <cstdint>
#include <vector>

#include "fovea/api.h"
#include "fovea/convolution.h"
#include "fovea/tensor.h"

// An image to a class: a small residual network, with or without self-attention between the places
// of its grid.
//   stem       convolutions that halve the image until a place is `stride` pixels wide
//   blocks     residual convolutions; before the last of them, the self-attention
//   output     a linear layer over the mean of all places
// Without attention a place knows only what lies within its reach, and the mean adds places up: two
// things far apart are never compared. Letters: B images, S places.
namespace fovea::models {

struct ConvnetConfig {
  int64_t height = 48, width = 48, channels = 3;  // of images; sides are multiples of the stride
  int64_t classes = 2;
  int64_t features = 32;
  int64_t stride = 4;  // 2, 4, 8, 16 or 32
  int64_t blocks = 1;
  bool attention = true;
  int64_t heads = 1, depth = 16;  // of the attention; depth of a head
};
// Throws, naming the field and its range.
FOVEA_API void check(const ConvnetConfig&);
// Pixels along a side that a place is computed from, attention aside.
FOVEA_API int64_t reach_of(const ConvnetConfig&);

struct FOVEA_API Convnet {
  ConvnetConfig config;
  nn::Weights weights;
  std::vector<nn::NormedConv> stem;
  std::vector<nn::ResidualConv> blocks;
  nn::GridAttention attention;  // undefined without
  nn::Linear output;
};
FOVEA_API Convnet convnet(const ConvnetConfig&, nn::Weights);
FOVEA_API int64_t count_weights(const ConvnetConfig&);

struct ConvnetPass {
  Mode mode = Mode::eval;
  float dropout = 0.0f;  // of the mean
  uint64_t seed = 0;
  bool keep_weights = false;
};
struct ConvnetOutput {
  Tensor logits;   // [B,classes]
  Tensor maps;     // [B,features,Y,X]: what the output layer took the mean of
  Tensor weights;  // [B,heads,S,S]: what each place attended to, when kept
};
// Images [B,C,height,width], values from 0 to 1.
FOVEA_API ConvnetOutput classify(const Convnet&, const Tensor& images, const ConvnetPass& = {});

}  // namespace fovea::models
