#include "tasks/image/pairs.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <iterator>
#include <string_view>

#include "tasks/draw.h"

namespace fovea::tasks::images {
namespace {

constexpr uint64_t kDataSet = 0x9a125;

using Mark = std::array<std::string_view, 7>;
constexpr Mark kMarks[] = {
    {"..###..", "..###..", "#######", "#######", "#######", "..###..", "..###.."},
    {"##...##", "###.###", ".#####.", "..###..", ".#####.", "###.###", "##...##"},
    {"#######", "#######", "##...##", "##...##", "##...##", "#######", "#######"},
};
constexpr int64_t kMarkSide = 7;

using Colour = std::array<float, 3>;
constexpr Colour kColours[] = {{0.84f, 0.37f, 0.0f}, {0.0f, 0.45f, 0.70f}, {0.0f, 0.62f, 0.45f}};

void put(image::Image& x, const Mark& mark, const Colour& colour, int64_t top, int64_t left) {
  for (int64_t row = 0; row < kMarkSide; ++row) {
    for (int64_t column = 0; column < kMarkSide; ++column) {
      if (mark[static_cast<size_t>(row)][static_cast<size_t>(column)] != '#') continue;
      float* pixel = &x.pixels[static_cast<size_t>(3 * ((top + row) * x.width + left + column))];
      std::copy(colour.begin(), colour.end(), pixel);
    }
  }
}

}  // namespace

image::LabelledImage draw_pair(uint64_t seed, uint64_t i) {
  Draw draw(seed, i, kDataSet);
  const bool same = draw.chance(0.5);
  const int64_t colours = std::size(kColours), first = draw.below(colours),
                second = same ? first : (first + 1 + draw.below(colours - 1)) % colours;
  image::Image x{kPairSide, kPairSide, 3, {}};
  for (int64_t n = 0; n < kPairSide * kPairSide; ++n) {
    x.pixels.insert(x.pixels.end(), 3, static_cast<float>(draw.between(84, 92)) / 100.0f);
  }
  const int64_t most = kPairSide - kMarkSide - 1;
  int64_t top = 0, left = 0, other_top = 0, other_left = 0;
  do {
    top = draw.between(1, most), left = draw.between(1, most);
    other_top = draw.between(1, most), other_left = draw.between(1, most);
  } while (std::abs(top - other_top) < kFarApart && std::abs(left - other_left) < kFarApart);
  const auto mark = [&]() -> const Mark& { return kMarks[draw.below(std::size(kMarks))]; };
  put(x, mark(), kColours[first], top, left);
  put(x, mark(), kColours[second], other_top, other_left);
  return {std::move(x), same ? 1 : 0};
}

}  // namespace fovea::tasks::images
