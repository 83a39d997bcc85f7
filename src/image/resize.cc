#include "image/resize.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "core/random.h"
#include "fovea/error.h"

namespace fovea::image {
namespace {

// Along one side, pixel i of the result is Σ weights[k]·x[first + k].
struct Taps {
  int64_t first = 0;
  std::vector<float> weights;
};

Taps mean_over(int64_t i, double scale, int64_t from) {
  const double begin = static_cast<double>(i) * scale, end = begin + scale;
  const auto first = static_cast<int64_t>(begin);
  const int64_t last = std::min(static_cast<int64_t>(std::ceil(end - 1e-9)), from);
  Taps taps{first, {}};
  for (int64_t j = first; j < last; ++j) {
    const double share = std::min(end, static_cast<double>(j + 1)) - std::max(begin, double(j));
    taps.weights.push_back(static_cast<float>(share / scale));
  }
  return taps;
}

Taps line_through(int64_t i, double scale, int64_t from) {
  const double at = std::clamp((static_cast<double>(i) + 0.5) * scale - 0.5, 0.0, double(from - 1));
  const int64_t first = std::min(static_cast<int64_t>(at), std::max<int64_t>(from - 2, 0));
  const auto part = static_cast<float>(at - static_cast<double>(first));
  if (from == 1) return {0, {1.0f}};
  return {first, {1.0f - part, part}};
}

std::vector<Taps> taps_of(int64_t from, int64_t to) {
  const double scale = static_cast<double>(from) / static_cast<double>(to);
  std::vector<Taps> all;
  for (int64_t i = 0; i < to; ++i) {
    all.push_back(scale > 1 ? mean_over(i, scale, from) : line_through(i, scale, from));
  }
  return all;
}

// x as `outer` blocks of `from` rows of `inner` numbers.
std::vector<float> along(const std::vector<float>& x, size_t outer, int64_t from, int64_t to,
                         size_t inner) {
  const std::vector<Taps> taps = taps_of(from, to);
  std::vector<float> y(outer * static_cast<size_t>(to) * inner, 0.0f);
  for (size_t o = 0; o < outer; ++o) {
    for (size_t i = 0; i < taps.size(); ++i) {
      float* row = &y[(o * taps.size() + i) * inner];
      for (size_t k = 0; k < taps[i].weights.size(); ++k) {
        const size_t at = o * static_cast<size_t>(from) + static_cast<size_t>(taps[i].first) + k;
        for (size_t n = 0; n < inner; ++n) row[n] += taps[i].weights[k] * x[at * inner + n];
      }
    }
  }
  return y;
}

}  // namespace

Image resized(const Image& x, int64_t height, int64_t width) {
  if (height < 1 || width < 1 || x.height < 1 || x.width < 1) {
    throw Error("resized", fmt::format("{} × {} pixels to {} × {}; sides must be 1 or more",
                                       x.height, x.width, height, width));
  }
  Image y{height, width, x.channels, x.pixels};
  const auto channels = static_cast<size_t>(x.channels);
  if (height != x.height) {
    y.pixels = along(y.pixels, 1, x.height, height, static_cast<size_t>(x.width) * channels);
  }
  if (width != x.width) {
    y.pixels = along(y.pixels, static_cast<size_t>(height), x.width, width, channels);
  }
  return y;
}

Image cropped(const Image& x, const Place& p) {
  if (p.y < 0 || p.x < 0 || p.height < 1 || p.width < 1 || p.height > x.height - p.y ||
      p.width > x.width - p.x) {
    throw Error("cropped", fmt::format("{} × {} pixels at ({}, {}) do not lie inside {} × {}",
                                       p.height, p.width, p.y, p.x, x.height, x.width));
  }
  Image y{p.height, p.width, x.channels, {}};
  for (int64_t row = p.y; row < p.y + p.height; ++row) {
    const auto from = x.pixels.begin() + (row * x.width + p.x) * x.channels;
    y.pixels.insert(y.pixels.end(), from, from + p.width * x.channels);
  }
  return y;
}

Image fitted(const Image& x, int64_t height, int64_t width) {
  const double scale = std::max(double(height) / double(std::max<int64_t>(x.height, 1)),
                                double(width) / double(std::max<int64_t>(x.width, 1)));
  const auto side = [&](int64_t size, int64_t least) {
    return std::max(least, static_cast<int64_t>(std::lround(scale * static_cast<double>(size))));
  };
  const Image y = resized(x, side(x.height, height), side(x.width, width));
  return cropped(y, {(y.height - height) / 2, (y.width - width) / 2, height, width});
}

Image mirrored(const Image& x) {
  Image y = x;
  const int64_t C = x.channels;
  for (int64_t row = 0; row < x.height; ++row) {
    for (int64_t column = 0; column < x.width; ++column) {
      const auto from = x.pixels.begin() + (row * x.width + x.width - 1 - column) * C;
      std::copy(from, from + C, y.pixels.begin() + (row * x.width + column) * C);
    }
  }
  return y;
}

namespace {

// A place between pixels: `first` and `next`, which are within the side, and how far it is on.
struct Between {
  int64_t first, next;
  float part;
};
Between around(double at, int64_t side) {
  const double inside = std::clamp(at, 0.0, static_cast<double>(side - 1));
  const auto first = static_cast<int64_t>(inside);
  return {first, std::min(first + 1, side - 1),
          static_cast<float>(inside - static_cast<double>(first))};
}

Image moved(const Image& x, int64_t down, int64_t right) {
  Image y = x;
  const int64_t C = x.channels;
  for (int64_t row = 0; row < x.height; ++row) {
    const int64_t from_row = std::clamp<int64_t>(row - down, 0, x.height - 1);
    for (int64_t column = 0; column < x.width; ++column) {
      const int64_t from_column = std::clamp<int64_t>(column - right, 0, x.width - 1);
      const auto from = x.pixels.begin() + (from_row * x.width + from_column) * C;
      std::copy(from, from + C, y.pixels.begin() + (row * x.width + column) * C);
    }
  }
  return y;
}

}  // namespace

// y(m + d) = x(m + Rᵀd/scale), R the rotation by so many degrees, m the middle.
Image turned(const Image& x, double degrees, double scale) {
  Image y = x;
  const double angle = degrees * std::numbers::pi / 180;
  const double along = std::cos(angle) / scale, across = std::sin(angle) / scale;
  const double middle_y = 0.5 * static_cast<double>(x.height - 1),
               middle_x = 0.5 * static_cast<double>(x.width - 1);
  const int64_t C = x.channels;
  auto to = y.pixels.begin();
  for (int64_t row = 0; row < x.height; ++row) {
    const double down = static_cast<double>(row) - middle_y;
    for (int64_t column = 0; column < x.width; ++column) {
      const double right = static_cast<double>(column) - middle_x;
      const Between v = around(middle_y + along * down - across * right, x.height),
                    h = around(middle_x + across * down + along * right, x.width);
      for (int64_t c = 0; c < C; ++c) {
        const auto at = [&](int64_t yy, int64_t xx) {
          return x.pixels[static_cast<size_t>((yy * x.width + xx) * C + c)];
        };
        const float above = at(v.first, h.first) +
                            h.part * (at(v.first, h.next) - at(v.first, h.first)),
                    below =
                        at(v.next, h.first) + h.part * (at(v.next, h.next) - at(v.next, h.first));
        *to++ = above + v.part * (below - above);
      }
    }
  }
  return y;
}

Image augmented(const Image& x, const Augmentation& a, uint64_t seed) {
  const RandomKey key = random_key(seed, Purpose::data);
  const auto between = [&](uint64_t i, double most) {
    return most * (2 * unit_open(bits32(key, i)) - 1);
  };
  Image y = a.mirror && unit_open(bits32(key, 0)) < 0.5 ? mirrored(x) : x;
  if (a.turn > 0 || a.zoom > 0) y = turned(y, between(4, a.turn), 1 + between(5, a.zoom));
  if (a.shift > 0) {
    y = moved(y, std::lround(between(1, a.shift) * static_cast<double>(x.height)),
              std::lround(between(2, a.shift) * static_cast<double>(x.width)));
  }
  if (a.light > 0) {
    const auto light = static_cast<float>(between(3, a.light));
    for (float& v : y.pixels) v = std::clamp(v + light, 0.0f, 1.0f);
  }
  return y;
}

}  // namespace fovea::image
