#include "image/placed.h"

#include <fmt/format.h>

#include <algorithm>

#include "fovea/error.h"
#include "image/random_numbers.h"

namespace fovea::image {
namespace {

struct Box {
  int64_t y, x, height, width;
};
struct Canvas {
  std::span<float> pixels;
  int64_t side;
};

// What meets adds up, to white at most.
void add(const Canvas& canvas, const Image& from, const Box& box, int64_t at_y, int64_t at_x) {
  for (int64_t y = 0; y < box.height; ++y) {
    const float* row = from.pixels.data() + (box.y + y) * from.width + box.x;
    float* to = canvas.pixels.data() + (at_y + y) * canvas.side + at_x;
    for (int64_t x = 0; x < box.width; ++x) to[x] = std::min(to[x] + row[x], 1.0f);
  }
}

}  // namespace

const char* name_of(Placing p) {
  static constexpr const char* kNames[] = {"plain", "translated", "cluttered", "unsaid"};
  return kNames[static_cast<int>(p)];
}

std::vector<Placing> placings() { return {Placing::plain, Placing::anywhere, Placing::cluttered}; }

int64_t canvas_of(const PlacedConfig& c, const Image& image) {
  const int64_t side = std::max(image.height, image.width);
  if (c.canvas == 0) return side;
  if (c.canvas < side) {
    throw Error("place", fmt::format("an image of {} × {} does not fit a canvas of {}",
                                     image.height, image.width, c.canvas));
  }
  return c.canvas;
}

void place(const PlacedConfig& c, const Image& image, std::span<const LabelledImage> others,
           uint64_t seed, std::span<float> pixels) {
  const Canvas canvas{pixels, canvas_of(c, image)};
  RandomNumbers random(seed, 0, hash_of("placed"));
  std::fill(pixels.begin(), pixels.end(), 0.0f);
  int64_t y = (canvas.side - image.height) / 2, x = (canvas.side - image.width) / 2;
  if (c.placing == Placing::anywhere || c.placing == Placing::cluttered) {
    y = random.below(canvas.side - image.height + 1);
    x = random.below(canvas.side - image.width + 1);
  }
  add(canvas, image, {0, 0, image.height, image.width}, y, x);
  if (c.placing != Placing::cluttered) return;
  for (int64_t i = 0; i < c.pieces; ++i) {
    const auto other = static_cast<size_t>(random.below(static_cast<int64_t>(others.size())));
    const Image& from = others[other].image;
    const int64_t height = std::min(c.side, from.height), width = std::min(c.side, from.width);
    const Box box{random.below(from.height - height + 1), random.below(from.width - width + 1),
                  height, width};
    const int64_t at_y = random.below(canvas.side - height + 1);
    add(canvas, from, box, at_y, random.below(canvas.side - width + 1));
  }
}

}  // namespace fovea::image
