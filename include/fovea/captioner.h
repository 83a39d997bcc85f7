#pragma once

#include <cstdint>
#include <vector>

#include "fovea/api.h"
#include "fovea/convolution.h"
#include "fovea/loss.h"
#include "fovea/search.h"
#include "fovea/tensor.h"
#include "fovea/writer.h"

// An image to words (Xu et al. 2015).
//   grid       h_ij, i < Y, j < X: few convolutions, so that a place sees little but itself, of the
//              image and, as two channels more, of where a pixel is; plus P·(i, j), P learned
//   attention  at each word a_tij over the places, c_t = β_t Σ a_tij h_ij
//   fixed      one vector, the mean of all h_ij, stands for the image
// The words are written as writer.h says. Letters: B images, S = Y·X places, F their width.
namespace fovea::models {

struct CaptionerConfig : WriterConfig {
  int64_t height = 64, width = 64, channels = 3;  // of images; sides are multiples of the stride
  int64_t features = 64;                          // F
  int64_t stride = 4;  // pixels of a place's side: 2, 4, 8, 16 or 32; 1: what is given are
                       // places already, made by another network, `features` channels each
  int64_t depth = 1;   // convolutions at the grid's own size
  int64_t longest_caption = 60;  // tokens, the end included
  float doubly = 0.0f;  // λ of the penalty λ Σ_ij (1 − Σ_t a_tij)²: every place its share
};
// Throws, naming the field and its range.
FOVEA_API void check(const CaptionerConfig&);
FOVEA_API int64_t rows_of(const CaptionerConfig&);     // Y
FOVEA_API int64_t columns_of(const CaptionerConfig&);  // X
// Pixels along a side that a place is computed from.
FOVEA_API int64_t reach_of(const CaptionerConfig&);

struct FOVEA_API Captioner : Writer {
  CaptionerConfig config;
  nn::Weights weights;
  std::vector<nn::NormedConv> convs;
  Tensor positions;  // P [F,2]
};
FOVEA_API Captioner captioner(const CaptionerConfig&, nn::Weights);
FOVEA_API int64_t count_weights(const CaptionerConfig&);

// What the convolutions make of images [B,C,height,width], values from 0 to 1: [B,F,Y,X]. Places
// that are given stay what they are, but for the `depth` convolutions of them.
FOVEA_API Tensor maps_of(const Captioner&, const Tensor& images, Mode = Mode::eval);
// h of such maps, [B,S,F], and of images.
FOVEA_API Tensor grid_of_maps(const Captioner&, const Tensor& maps);
FOVEA_API Tensor grid_of(const Captioner&, const Tensor& images, Mode = Mode::eval);

// Images [B,C,height,width], values from 0 to 1, and captions as ids, time-major.
struct CaptionBatch {
  Tensor images;
  Tensor target_in, target_out;  // i64 [T,B]: begin y_1 …, and y_1 … end
};
FOVEA_API Loss loss(const Captioner&, const CaptionBatch&, const LossConfig& = {},
                    const Intervention& = {});

// The logits of each next word, [T,B,V], of captions as they are given, i64 [T,B]: begin y_1 …; the
// images are their grids h.
FOVEA_API Tensor logits(const Captioner&, const Tensor& grid, const Tensor& target_in,
                        const Intervention& = {});

// The n best captions of each image, best first; weights over its S places, row by row.
FOVEA_API std::vector<std::vector<Decoded>> decode(const Captioner&, const Tensor& images,
                                                   const DecodeConfig& = {},
                                                   const Intervention& = {});

}  // namespace fovea::models
