#include "models/grid.h"

#include <utility>

#include "models/checks.h"

namespace fovea::models {
namespace {

constexpr int64_t kFirstWindow = 5;

}  // namespace

void check_grid(const char* call, const GridShape& g) {
  expect_range(call, "channels", g.channels, 1, 3);
  if (g.stride < 2 || g.stride > 32 || (g.stride & (g.stride - 1)) != 0) {
    throw Error(call, fmt::format("stride must be 2, 4, 8, 16 or 32, found {}", g.stride));
  }
  for (const auto& [name, side] : {std::pair{"height", g.height}, std::pair{"width", g.width}}) {
    expect_range(call, name, side, g.stride, 4096);
    if (side % g.stride != 0) {
      throw Error(call,
                  fmt::format("{} is {}, not a multiple of the stride {}", name, side, g.stride));
    }
  }
}

void expect_images(const char* call, const GridShape& g, const Tensor& images) {
  if (images.rank() == 4 && images.size(1) == g.channels && images.size(2) == g.height &&
      images.size(3) == g.width) {
    return;
  }
  throw Error(call, fmt::format("images are {}, expected [B,{},{},{}]", to_string(images.shape()),
                                g.channels, g.height, g.width));
}

std::vector<nn::NormedConv> halvings(nn::Weights& w, const std::string& name, const GridShape& g,
                                     int64_t inside, int64_t out) {
  std::vector<nn::NormedConv> convs;
  int64_t in = g.channels;
  for (int64_t step = 2; step <= g.stride; step *= 2) {
    const int64_t width = step == g.stride ? out : inside;
    convs.push_back(nn::normed_conv(
        w, name + "." + std::to_string(convs.size()),
        {.in = in, .out = width, .size = step == 2 ? kFirstWindow : 3, .stride = 2}));
    in = width;
  }
  return convs;
}

int64_t reach_of_grid(int64_t stride, int64_t more) {
  int64_t reach = kFirstWindow;
  for (int64_t step = 2; step < stride; step *= 2) reach += 2 * step;
  return reach + 2 * stride * more;
}

Tensor centred(const Tensor& images) { return (images - 0.5f) * 4.0f; }

}  // namespace fovea::models
