#include "fovea/convnet.h"

#include <utility>

#include "models/checks.h"
#include "nn/dropout.h"

namespace fovea::models {
namespace {

constexpr int64_t kFirstWindow = 5;

int64_t halvings(int64_t stride) {
  int64_t n = 0;
  for (; stride > 1; stride /= 2) ++n;
  return n;
}

}  // namespace

void check(const ConvnetConfig& c) {
  const auto in_range = [](const char* field, int64_t value, int64_t low, int64_t high) {
    expect_range("convnet", field, value, low, high);
  };
  in_range("channels", c.channels, 1, 3);
  in_range("classes", c.classes, 1, kLargest);
  in_range("features", c.features, 2, 4096);
  in_range("blocks", c.blocks, 1, 64);
  in_range("heads", c.heads, 1, 256);
  in_range("depth", c.depth, 1, 4096);
  if (c.stride < 2 || c.stride > 32 || (c.stride & (c.stride - 1)) != 0) {
    throw Error("convnet", fmt::format("stride must be 2, 4, 8, 16 or 32, found {}", c.stride));
  }
  for (const auto& [name, side] : {std::pair{"height", c.height}, std::pair{"width", c.width}}) {
    in_range(name, side, c.stride, 4096);
    if (side % c.stride != 0) {
      throw Error("convnet",
                  fmt::format("{} is {}, not a multiple of the stride {}", name, side, c.stride));
    }
  }
}

int64_t reach_of(const ConvnetConfig& c) {
  int64_t reach = kFirstWindow, step = 2;
  for (int64_t n = 1; n < halvings(c.stride); ++n, step *= 2) reach += 2 * step;
  return reach + 4 * step * c.blocks;
}

namespace {

Convnet made_of(nn::Weights weights, const ConvnetConfig& c) {
  check(c);
  Convnet m;
  m.config = c;
  m.weights = std::move(weights);
  nn::Weights& w = m.weights;
  for (int64_t n = 0, in = c.channels; n < halvings(c.stride); ++n, in = c.features) {
    m.stem.push_back(nn::normed_conv(
        w, "stem." + std::to_string(n),
        {.in = in, .out = c.features, .size = n == 0 ? kFirstWindow : 3, .stride = 2}));
  }
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

}  // namespace

Convnet convnet(const ConvnetConfig& c, uint64_t seed) { return made_of(nn::Weights(seed), c); }

int64_t count_weights(const ConvnetConfig& c) {
  return made_of(nn::Weights::sketch(), c).weights.count();
}

ConvnetOutput classify(const Convnet& m, const Tensor& images, const ConvnetPass& pass) {
  const ConvnetConfig& c = m.config;
  if (images.rank() != 4 || images.size(1) != c.channels || images.size(2) != c.height ||
      images.size(3) != c.width) {
    throw Error("convnet", fmt::format("images are {}, expected [B,{},{},{}]",
                                       to_string(images.shape()), c.channels, c.height, c.width));
  }
  ConvnetOutput result;
  Tensor x = (images - 0.5f) * 4.0f;
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
  const nn::Dropout drop{pass.mode == Mode::train ? pass.dropout : 0.0f, Seed(pass.seed)};
  result.logits = m.output(nn::dropped(mean(x, {2, 3}), drop.at("mean")));
  return result;
}

}  // namespace fovea::models
