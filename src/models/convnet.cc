#include "fovea/convnet.h"

#include "models/checks.h"
#include "models/grid.h"
#include "nn/dropout.h"

namespace fovea::models {
namespace {

GridShape shape_of(const ConvnetConfig& c) { return {c.height, c.width, c.channels, c.stride}; }

}  // namespace

void check(const ConvnetConfig& c) {
  const auto in_range = [](const char* field, int64_t value, int64_t low, int64_t high) {
    expect_range("convnet", field, value, low, high);
  };
  check_grid("convnet", shape_of(c));
  in_range("classes", c.classes, 1, kLargest);
  in_range("features", c.features, 2, 4096);
  in_range("blocks", c.blocks, 1, 64);
  in_range("heads", c.heads, 1, 256);
  in_range("depth", c.depth, 1, 4096);
}

int64_t reach_of(const ConvnetConfig& c) { return reach_of_grid(c.stride, 2 * c.blocks); }

Convnet convnet(const ConvnetConfig& c, nn::Weights weights) {
  check(c);
  Convnet m;
  m.config = c;
  m.weights = std::move(weights);
  nn::Weights& w = m.weights;
  m.stem = halvings(w, "stem", shape_of(c), c.features, c.features);
  for (int64_t n = 0; n < c.blocks; ++n) {
    m.blocks.push_back(nn::residual_conv(w, "block." + std::to_string(n), c.features));
  }
  if (c.attention) {
    m.attention = nn::grid_attention(w, "attention",
                                     {.channels = c.features, .heads = c.heads, .depth = c.depth});
  }
  m.output = nn::linear(w, "output", c.features, c.classes);
  return m;
}

int64_t count_weights(const ConvnetConfig& c) {
  return convnet(c, nn::Weights::sketch()).weights.count();
}

ConvnetOutput classify(const Convnet& m, const Tensor& images, const ConvnetPass& pass) {
  const ConvnetConfig& c = m.config;
  expect_images("convnet", shape_of(c), images);
  ConvnetOutput result;
  Tensor x = centred(images);
  for (const nn::NormedConv& conv : m.stem) x = relu(conv(x, pass.mode));
  for (size_t n = 0; n < m.blocks.size(); ++n) {
    if (c.attention && n + 1 == m.blocks.size()) {
      using Keep = nn::GridAttention::Keep;
      const auto [y, weights] = m.attention(x, pass.keep_weights ? Keep::weights : Keep::nothing);
      x = y;
      result.weights = weights;
    }
    x = m.blocks[n](x, pass.mode);
  }
  result.maps = x;
  const nn::Dropout drop{pass.mode == Mode::train ? pass.dropout : 0.0f, Seed(pass.seed)};
  result.logits = m.output(nn::dropped(mean(x, {2, 3}), drop.at("mean")));
  return result;
}

}  // namespace fovea::models
