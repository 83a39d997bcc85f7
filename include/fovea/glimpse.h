#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "fovea/api.h"
#include "fovea/look.h"
#include "fovea/nn.h"
#include "fovea/ops.h"
#include "fovea/reinforce.h"
#include "fovea/tensor.h"

// Images to classes by a few glimpses, each where the last ones sent it (Mnih et al. 2014).
//   sensor     ρ(x, l)  = patches of several widths around l, averaged down to one size
//   glimpse    g_t = relu(W_a relu(W_x ρ(x, l_t)) + W_b relu(W_l l_t))
//   core       h_t = cell(h_{t−1}, g_t)
//   policy     l_{t+1} ~ N(tanh(V_2 relu(V_1 h_t)), σ²); the first place is the middle
//   output     p(class) = softmax(W h_T + b)
// Places are chosen, so no gradient passes through them: they learn by REINFORCE, the reward being
// 1 where the class is right. The other models:
//   soft       x_t = Σ_k a_tk g_k over a grid of places, weights by attention of h_{t−1}
//   random     places drawn anywhere
//   dense      two layers of rectifiers over all pixels
//   conv       8 filters of 10 × 10, five pixels apart, and a layer of rectifiers
// Letters: B images, N rows (of image n mod B), T glimpses, H hidden, S² the grid's places.
namespace fovea::models {

enum class GlimpseModel : uint8_t { recurrent, soft, random, dense, conv };  // see above
FOVEA_API const char* name_of(GlimpseModel);
FOVEA_API GlimpseModel glimpse_model(const std::string& name);

struct Sensor {
  int64_t size = 12;   // of a patch, in what is seen
  int64_t scales = 3;  // each twice as wide as the one before
};
// images [B,Y,X], places [N,2] as (x, y) in [−1,1]² → [N,scales·size²]; N is a multiple of B, and
// row n looks at image n mod B. A place is rounded to a pixel, and it is black outside. No
// gradient.
FOVEA_API Tensor sense(const Sensor&, const Tensor& images, const Tensor& places);

struct GlimpseConfig : LookConfig {  // the score and weighting of the soft model
  GlimpseModel model = GlimpseModel::recurrent;
  int64_t height = 28, width = 28, classes = 10;
  Sensor sensor;
  int64_t glimpses = 6;
  int64_t parts = 128;   // width of what is seen and of where, each by itself
  int64_t hidden = 256;  // of a glimpse, of the state, and of the dense models' layers
  int64_t locator = 128;
  nn::Cell cell = nn::Cell::rnn;
  float sigma = 0.1f;  // how far a place is drawn from where the policy aims, once it is trained
  int64_t grid = 6;    // soft: places along a side
};
// Throws, naming the field and its range.
FOVEA_API void check(const GlimpseConfig&);
// Whether it looks at parts of an image in turn.
FOVEA_API bool glimpses(const GlimpseConfig&);

struct FOVEA_API Glimpse {
  GlimpseConfig config;
  nn::Weights weights;
  nn::Linear see, where, join_seen, join_where;  // the glimpse network
  nn::CellWeights core;
  nn::Linear locate, aim, baseline;
  LookWeights look;          // soft
  nn::Linear first, second;  // dense; conv: second
  Tensor filters, filters_bias;
  nn::Linear output;
};
FOVEA_API Glimpse glimpse(const GlimpseConfig&, nn::Weights);
// How many numbers it would learn; takes no memory for them.
FOVEA_API int64_t count_weights(const GlimpseConfig&);

struct GlimpsePass {
  uint64_t seed = 0;
  int64_t copies = 1;  // rows for each image, with draws of their own
  bool draw = false;   // around where the policy aims; otherwise there
  float sigma = 0;     // how far around; 0: as the model says
  Tensor noise;        // [T−1,N,2] to draw with, instead of the seed's
  Tensor places;       // [T,N,2]: look there
  bool keep = false;   // what was seen, and the soft model's weights
};

struct Glimpsed {
  Tensor logits;  // [T,N,classes], after each glimpse; T is 1 where there are none
  // Of a model that looks around, T glimpses:
  Tensor places;              // [T,N,2], where it looked
  Tensor drawn;               // [T−1,N,2], what was drawn; places are these, kept on the image
  Tensor log_prob, baseline;  // [T−1,N], of what was drawn; recurrent
  Tensor seen;                // [T,N,scales·size²], when kept
  Tensor weights;             // soft: [T,B,S²], when kept
};
FOVEA_API Glimpsed look_around(const Glimpse&, const Tensor& images, const GlimpsePass& = {});

// What an answer is worth: 1 where it is right and else 0, or its p(class).
enum class Prize : uint8_t { right, likely };
FOVEA_API const char* name_of(Prize);
// Which answers a choice is rewarded for: the last, or a mean of all that follow it, a later one
// counting `discount` times as much as the one before.
enum class Rewarded : uint8_t { last, each };
FOVEA_API const char* name_of(Rewarded);

// −log p(class) after the last glimpse, `early` times its mean over the others, and the terms of
// reinforce().
struct GlimpseLossConfig : ReinforceConfig {
  Prize prize = Prize::right;
  Rewarded rewarded = Rewarded::last;
  int64_t copies = 1;
  float early = 0.0f;
  uint64_t seed = 0;
  float sigma = 0;  // of the draws, as in GlimpsePass
};
struct GlimpseLoss {
  Tensor loss;     // [], to differentiate, a mean over rows
  double nll = 0;  // −log p after the last glimpse, summed over images, a mean over copies
};
FOVEA_API GlimpseLoss loss(const Glimpse&, const Tensor& images, const Tensor& classes,
                           const GlimpseLossConfig&);
// The same of a pass that was made.
FOVEA_API GlimpseLoss loss(const Glimpsed&, const Tensor& classes, const GlimpseLossConfig&);

// p [T,B,classes] after each glimpse, a mean over `passes` that draw; 1: one that does not.
FOVEA_API Tensor probabilities(const Glimpse&, const Tensor& images, int64_t passes, uint64_t seed);

}  // namespace fovea::models
