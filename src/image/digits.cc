#include "image/digits.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "image/random_numbers.h"

namespace fovea::image {
namespace {

struct Point {
  double x, y;
};
using Stroke = std::vector<Point>;  // a smooth line passes through them
using Shape = std::vector<Stroke>;

// Ways to write each digit, in a box of 1 × 1 with y downwards.
const std::vector<std::vector<Shape>>& shapes() {
  static const std::vector<std::vector<Shape>> all = {
      {{{{.5, .0},
         {.17, .15},
         {.06, .5},
         {.18, .86},
         {.5, 1},
         {.84, .85},
         {.94, .5},
         {.82, .14},
         {.5, .0}}}},
      {{{{.52, .0}, {.5, .5}, {.48, 1}}},
       {{{.3, .22}, {.52, .02}}, {{.52, .02}, {.51, .5}, {.5, 1}}},
       {{{.3, .22}, {.52, .02}}, {{.52, .02}, {.51, .5}, {.5, 1}}, {{.25, 1}, {.78, 1}}}},
      {{{{.1, .25}, {.25, .05}, {.55, .0}, {.82, .15}, {.82, .38}, {.55, .68}, {.1, 1}},
        {{.1, 1}, {.5, .98}, {.92, 1}}},
       {{{.12, .2},
         {.4, .0},
         {.78, .12},
         {.75, .42},
         {.4, .8},
         {.12, .95},
         {.1, .82},
         {.3, .8},
         {.6, .95},
         {.92, .92}}}},
      {{{{.12, .12}, {.45, .0}, {.8, .12}, {.78, .36}, {.42, .47}},
        {{.42, .47}, {.82, .56}, {.9, .78}, {.6, 1}, {.25, .98}, {.08, .86}}},
       {{{.12, .02}, {.48, .03}, {.85, .03}},
        {{.85, .03}, {.45, .42}},
        {{.45, .42}, {.85, .52}, {.88, .8}, {.5, 1}, {.1, .88}}}},
      {{{{.62, .0}, {.35, .35}, {.06, .66}},
        {{.06, .66}, {.5, .65}, {.95, .64}},
        {{.72, .32}, {.7, .65}, {.68, 1}}},
       {{{.14, .02}, {.1, .3}, {.2, .5}, {.5, .52}, {.84, .44}}, {{.84, .0}, {.82, .5}, {.8, 1}}}},
      {{{{.85, .02}, {.5, .02}, {.2, .04}},
        {{.2, .04}, {.17, .25}, {.15, .42}},
        {{.15, .42}, {.5, .36}, {.86, .5}, {.88, .78}, {.55, 1}, {.1, .9}}}},
      {{{{.72, .0},
         {.4, .16},
         {.16, .5},
         {.12, .8},
         {.4, 1},
         {.76, .92},
         {.84, .7},
         {.6, .52},
         {.3, .58},
         {.14, .78}}}},
      {{{{.08, .04}, {.5, .03}, {.92, .04}}, {{.92, .04}, {.62, .45}, {.42, 1}}},
       {{{.08, .04}, {.5, .03}, {.92, .04}},
        {{.92, .04}, {.62, .45}, {.42, 1}},
        {{.3, .52}, {.82, .5}}}},
      {{{{.52, .46},
         {.2, .3},
         {.24, .08},
         {.52, .0},
         {.8, .08},
         {.8, .3},
         {.5, .47},
         {.14, .68},
         {.18, .92},
         {.5, 1},
         {.84, .92},
         {.86, .68},
         {.52, .46}}}},
      {{{{.84, .2}, {.6, .02}, {.26, .08}, {.14, .3}, {.3, .5}, {.62, .46}, {.84, .22}},
        {{.86, .1}, {.82, .5}, {.66, 1}}},
       {{{.84, .2}, {.6, .02}, {.26, .08}, {.14, .3}, {.3, .5}, {.62, .46}, {.84, .22}},
        {{.86, .1}, {.84, .6}, {.7, .92}, {.42, 1}, {.2, .92}}}},
  };
  return all;
}

// Catmull and Rom's curve through the points, in short pieces.
Stroke smooth(const Stroke& through) {
  constexpr int kPieces = 5;
  const auto at = [&](int64_t i) {
    return through[static_cast<size_t>(
        std::clamp<int64_t>(i, 0, static_cast<int64_t>(through.size()) - 1))];
  };
  const auto blend = [](double a, double b, double c, double d, double t) {
    return 0.5 * (2 * b + (c - a) * t + (2 * a - 5 * b + 4 * c - d) * t * t +
                  (3 * b - a - 3 * c + d) * t * t * t);
  };
  Stroke line = {through[0]};
  for (int64_t i = 0; i + 1 < static_cast<int64_t>(through.size()); ++i) {
    const Point a = at(i - 1), b = at(i), c = at(i + 1), d = at(i + 2);
    for (int piece = 1; piece <= kPieces; ++piece) {
      const double t = static_cast<double>(piece) / kPieces;
      line.push_back({blend(a.x, b.x, c.x, d.x, t), blend(a.y, b.y, c.y, d.y, t)});
    }
  }
  return line;
}

// How a hand writes: from the box of a shape to pixels.
struct Hand {
  double width, height, slant, turn, bend, phase, pen;

  Point operator()(Point p) const {
    double x = (p.x - 0.5) * width, y = (p.y - 0.5) * height;
    x += bend * std::sin(phase + 3 * p.y) - slant * y;
    y += bend * std::cos(phase + 3 * p.x);
    return {kDigitSide / 2.0 + x * std::cos(turn) - y * std::sin(turn),
            kDigitSide / 2.0 + x * std::sin(turn) + y * std::cos(turn)};
  }
};

double distance(double x, double y, Point a, Point b) {
  const double dx = b.x - a.x, dy = b.y - a.y, length = dx * dx + dy * dy;
  const double t =
      length > 0 ? std::clamp(((x - a.x) * dx + (y - a.y) * dy) / length, 0.0, 1.0) : 0.0;
  const double across = x - a.x - t * dx, down = y - a.y - t * dy;
  return std::sqrt(across * across + down * down);
}

// White within the pen's reach, grey over a pixel at its edge.
void draw(Image& image, Point a, Point b, double pen) {
  const auto low = [&](double v) {
    return std::max<int64_t>(0, static_cast<int64_t>(v - pen - 1));
  };
  const auto high = [&](double v) {
    return std::min<int64_t>(kDigitSide - 1, static_cast<int64_t>(v + pen + 1));
  };
  for (int64_t y = low(std::min(a.y, b.y)); y <= high(std::max(a.y, b.y)); ++y) {
    for (int64_t x = low(std::min(a.x, b.x)); x <= high(std::max(a.x, b.x)); ++x) {
      const double d = distance(static_cast<double>(x) + 0.5, static_cast<double>(y) + 0.5, a, b);
      float& pixel = image.pixels[static_cast<size_t>(y * kDigitSide + x)];
      pixel = std::max(pixel, static_cast<float>(std::clamp(pen + 0.5 - d, 0.0, 1.0)));
    }
  }
}

}  // namespace

LabelledImage draw_digit(uint64_t seed, uint64_t index) {
  RandomNumbers random(seed, index, hash_of("digits"));
  LabelledImage digit{{kDigitSide, kDigitSide, 1, std::vector<float>(kDigitSide * kDigitSide)},
                      random.below(10)};
  const std::vector<Shape>& ways = shapes()[static_cast<size_t>(digit.label)];
  const Shape& shape = ways[static_cast<size_t>(random.below(static_cast<int64_t>(ways.size())))];
  const Hand hand{.width = random.between(9, 17),
                  .height = random.between(15, 20),
                  .slant = 0.12 + 0.16 * random.normal(),
                  .turn = 0.1 * random.normal(),
                  .bend = random.between(0, 1.2),
                  .phase = random.between(0, 6.28),
                  .pen = random.between(0.7, 1.9)};
  const double wobble = random.between(0.01, 0.05);
  for (const Stroke& stroke : shape) {
    Stroke through;
    for (const Point p : stroke) {
      through.push_back({p.x + wobble * random.normal(), p.y + wobble * random.normal()});
    }
    const Stroke line = smooth(through);
    for (size_t i = 0; i + 1 < line.size(); ++i) {
      draw(digit.image, hand(line[i]), hand(line[i + 1]), hand.pen);
    }
  }
  return digit;
}

LabelledImages draw_digits(uint64_t seed, int64_t count) {
  LabelledImages all;
  for (int64_t k = 0; k < 10; ++k) all.classes.push_back(std::to_string(k));
  for (int64_t i = 0; i < count; ++i) {
    all.images.push_back(draw_digit(seed, static_cast<uint64_t>(i)));
  }
  return all;
}

}  // namespace fovea::image
