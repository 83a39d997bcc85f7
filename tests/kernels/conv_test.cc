#include "kernels/conv.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "core/random.h"
#include "fovea/runtime.h"
#include "tests/reduced.h"

namespace fovea::kernels {
namespace {

using Planes = std::vector<float>;
using Sums = std::vector<double>;

Planes random_planes(int64_t n, uint64_t seed) {
  const RandomKey key = random_key(seed, Purpose::tensor);
  Planes x(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i) {
    x[static_cast<size_t>(i)] = static_cast<float>(2.0 * unit_open(bits32(key, i)) - 1.0);
  }
  return x;
}

struct ConvLayer {
  const char* name;
  int64_t N, C, Y, X, O;  // C and O of one group
  int64_t KY = 3, KX = 3, stride = 1, pad = 1, dilation = 1, G = 1;

  Convolution sizes() const {
    const int64_t OY = (Y + 2 * pad - (KY - 1) * dilation - 1) / stride + 1;
    const int64_t OX = (X + 2 * pad - (KX - 1) * dilation - 1) / stride + 1;
    return {{C, Y, X, KY, KX, stride, stride, pad, pad, dilation, dilation, OY, OX}, N, G, O};
  }
  int64_t x_size() const { return N * G * C * Y * X; }
  int64_t w_size() const { return G * O * C * KY * KX; }
  int64_t y_size() const { return N * G * O * sizes().P(); }
};

// All three by the definition, in float64.
struct Expected {
  Sums y, dx, dw;
};
Expected by_definition(const ConvLayer& l, const Planes& x, const Planes& w, const Planes& dy) {
  const Convolution c = l.sizes();
  Expected e{Sums(dy.size()), Sums(x.size()), Sums(w.size())};
  for (int64_t at = 0; at < l.y_size(); ++at) {
    const int64_t ox = at % c.window.OX, oy = at / c.window.OX % c.window.OY;
    const int64_t o = at / c.P() % (l.G * l.O), n = at / c.P() / (l.G * l.O);
    for (int64_t k = 0; k < c.K(); ++k) {
      const int64_t channel = o / l.O * l.C + k / (l.KY * l.KX);
      const int64_t y = oy * l.stride + k / l.KX % l.KY * l.dilation - l.pad;
      const int64_t xx = ox * l.stride + k % l.KX * l.dilation - l.pad;
      if (y < 0 || y >= l.Y || xx < 0 || xx >= l.X) continue;
      const auto i = static_cast<size_t>(((n * l.G * l.C + channel) * l.Y + y) * l.X + xx);
      const auto j = static_cast<size_t>(o * c.K() + k), to = static_cast<size_t>(at);
      e.y[to] += double(x[i]) * w[j];
      e.dx[i] += double(w[j]) * dy[to];
      e.dw[j] += double(x[i]) * dy[to];
    }
  }
  return e;
}

double largest_of(const Sums& x) {
  double most = 0.0;
  for (const double v : x) most = std::max(most, std::abs(v));
  return most;
}

void expect_close(const Planes& got, const Sums& wanted, double tolerance) {
  ASSERT_EQ(got.size(), wanted.size());
  const double bound = tolerance * largest_of(wanted);
  for (size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], wanted[i], bound) << i;
}

// What a way writes, over NaN.
Planes written_by(const ConvWay& way, const Convolution& c, const Planes& a, const Planes& b,
                  int64_t size) {
  Planes to(static_cast<size_t>(size), std::numeric_limits<float>::quiet_NaN());
  way.run(c, a.data(), b.data(), to.data());
  return to;
}

// Every implementation that can, of all three.
void check_layer(const ConvLayer& l) {
  SCOPED_TRACE(l.name);
  const Convolution c = l.sizes();
  const Planes x = random_planes(l.x_size(), 1), w = random_planes(l.w_size(), 2),
               dy = random_planes(l.y_size(), 3);
  const Expected e = by_definition(l, x, w, dy);
  const auto all = [&](ConvPass pass, const Planes& a, const Planes& b, const Sums& wanted) {
    for (const ConvWay& way : conv_ways(pass)) {
      if (!way.can(c)) continue;
      SCOPED_TRACE(std::string(way.name) + " " + std::to_string(static_cast<int>(pass)));
      const double tolerance = std::string(way.name) == "winograd" ? 1e-5 : 4e-6;
      expect_close(written_by(way, c, a, b, static_cast<int64_t>(wanted.size())), wanted,
                   tolerance);
    }
  };
  all(ConvPass::y, x, w, e.y);
  all(ConvPass::dx, w, dy, e.dx);
  all(ConvPass::dw, x, dy, e.dw);
}

const ConvLayer kConvLayers[] = {
    {"one tile", 1, 16, 4, 4, 16},
    {"less than a tile", 1, 16, 2, 1, 16},
    {"odd", 2, 17, 7, 9, 19},
    {"no margin", 1, 16, 9, 21, 35, 3, 3, 1, 0},
    {"wide margin", 2, 24, 6, 5, 16, 3, 3, 1, 2},
    {"more outputs than a panel", 1, 16, 5, 18, 67},
    {"several blocks of channels", 1, 70, 8, 9, 66},
    {"groups", 2, 16, 5, 6, 17, 3, 3, 1, 1, 1, 3},
    {"many rows of tiles", 3, 16, 70, 33, 16},
    {"apart", 2, 16, 9, 8, 18, 3, 3, 2},
    {"apart, one tile", 1, 16, 3, 3, 16, 3, 3, 2},
    {"apart, even", 3, 21, 14, 40, 65, 3, 3, 2},
    {"apart, a place that nobody reads", 1, 16, 8, 6, 16, 3, 3, 2},
    {"apart, groups", 1, 17, 7, 7, 16, 3, 3, 2, 1, 1, 2},
    {"apart, no margin", 2, 16, 9, 9, 16, 3, 3, 2, 0},
    {"one by one", 2, 5, 6, 7, 9, 1, 1, 1, 0},
    {"one by one, long", 1, 20, 17, 17, 70, 1, 1, 1, 0},
    {"one by one, every third", 2, 5, 10, 11, 9, 1, 1, 3, 0},
    {"one by one, margin", 1, 5, 6, 7, 9, 1, 1, 1, 1},
    {"rows of whole vectors", 2, 3, 12, 64, 20, 5, 5, 1, 2},
    {"few outputs", 2, 18, 8, 70, 3, 5, 5, 1, 2},
    {"one output", 1, 30, 9, 70, 1},
    {"one channel", 2, 1, 11, 13, 33},
    {"apart, few outputs", 1, 4, 9, 11, 3, 5, 3, 2},
    {"holes", 1, 6, 12, 11, 10, 3, 2, 1, 2, 2},
    {"margin beyond the window", 1, 4, 5, 6, 9, 2, 3, 1, 3},
    {"depth by depth", 2, 1, 9, 17, 1, 3, 3, 1, 1, 1, 20},
    {"seven, apart", 1, 3, 20, 22, 12, 7, 7, 2, 3},
};

TEST(ConvWays, AgreeWithTheDefinition) {
  for (const ConvLayer& l : kConvLayers) check_layer(l);
}

TEST(ConvWays, AgreeOnEveryInstructionSet) {
  for (const std::string& isa : isas()) {
    SCOPED_TRACE(isa);
    use_isa(isa);
    for (const ConvLayer& l : kConvLayers) {
      if (l.x_size() < 4000) check_layer(l);
    }
  }
  use_isa("");
}

TEST(ConvWays, TheFirstThatCan) {
  const auto name = [](ConvPass pass, const ConvLayer& l) {
    return std::string(conv_way(pass, l.sizes()).name);
  };
  for (const ConvPass pass : {ConvPass::y, ConvPass::dx, ConvPass::dw}) {
    EXPECT_EQ(name(pass, {"", 1, 64, 56, 56, 64}), "winograd");
    EXPECT_EQ(name(pass, {"", 1, 64, 56, 56, 64, 3, 3, 2}), "winograd");
    EXPECT_NE(name(pass, {"", 1, 3, 56, 56, 64}), "winograd");
  }
  EXPECT_EQ(name(ConvPass::y, {"", 1, 64, 7, 7, 64, 1, 1, 1, 0}), "direct");
  EXPECT_EQ(name(ConvPass::y, {"", 1, 64, 7, 70, 2}), "few outputs");
  EXPECT_EQ(name(ConvPass::dx, {"", 1, 64, 7, 7, 64, 1, 1, 1, 0}), "turned");
  EXPECT_EQ(name(ConvPass::dx, {"", 1, 64, 7, 7, 64, 5, 5, 2}), "unfolded");
  EXPECT_EQ(name(ConvPass::dx, {"", 1, 1, 28, 28, 32}), "unfolded");
}

const ConvLayer kLargerLayers[] = {{"by tiles", 3, 20, 30, 31, 70},
                                   {"apart", 3, 20, 30, 31, 70, 3, 3, 2},
                                   {"small", 40, 16, 7, 7, 16},
                                   {"direct", 3, 20, 30, 31, 30, 5, 5, 1, 2},
                                   {"one by one", 3, 64, 30, 31, 70, 1, 1, 1, 0}};

TEST(ConvWays, ThreadsDoNotMatter) {
  const int before = threads();
  for (const ConvLayer& l : kLargerLayers) {
    SCOPED_TRACE(l.name);
    const Planes x = random_planes(l.x_size(), 1), w = random_planes(l.w_size(), 2),
                 dy = random_planes(l.y_size(), 3);
    std::vector<Planes> results;
    for (const int t : {1, 2, 5}) {
      set_threads(t);
      Planes y(dy.size()), dx(x.size()), dw(w.size());
      conv(l.sizes(), x.data(), w.data(), y.data());
      d_conv_x(l.sizes(), w.data(), dy.data(), dx.data());
      d_conv_w(l.sizes(), x.data(), dy.data(), dw.data());
      y.insert(y.end(), dx.begin(), dx.end());
      y.insert(y.end(), dw.begin(), dw.end());
      results.push_back(y);
    }
    EXPECT_EQ(results[0], results[1]);
    EXPECT_EQ(results[0], results[2]);
  }
  set_threads(before);
}

// Image i of a tensor that holds N of them.
Planes image_of(const Planes& all, int64_t N, int64_t i) {
  const auto size = static_cast<int64_t>(all.size()) / N;
  return {all.begin() + i * size, all.begin() + (i + 1) * size};
}

TEST(ConvWays, AnImageIsTheSameInAnyBatch) {
  for (const ConvLayer& l : kLargerLayers) {
    SCOPED_TRACE(l.name);
    const Planes x = random_planes(l.x_size(), 1), w = random_planes(l.w_size(), 2),
                 dy = random_planes(l.y_size(), 3);
    Planes y(dy.size()), dx(x.size());
    conv(l.sizes(), x.data(), w.data(), y.data());
    d_conv_x(l.sizes(), w.data(), dy.data(), dx.data());
    ConvLayer one = l;
    one.N = 1;
    for (int64_t i = 0; i < l.N; ++i) {
      Planes yi(static_cast<size_t>(one.y_size())), dxi(static_cast<size_t>(one.x_size()));
      conv(one.sizes(), image_of(x, l.N, i).data(), w.data(), yi.data());
      d_conv_x(one.sizes(), w.data(), image_of(dy, l.N, i).data(), dxi.data());
      ASSERT_EQ(yi, image_of(y, l.N, i)) << i;
      ASSERT_EQ(dxi, image_of(dx, l.N, i)) << i;
    }
  }
}

// A number that is not finite reaches what meets it and nothing else, though tiles are shared.
TEST(ConvWays, WhatIsNotFiniteReachesWhatMeetsIt) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float infinity = std::numeric_limits<float>::infinity();
  for (const int64_t stride : {1, 2}) {
    for (const float odd : {nan, infinity, -infinity}) {
      const ConvLayer l{"", 3, 16, 11, 12, 17, 3, 3, stride};
      Planes x = random_planes(l.x_size(), 1), w = random_planes(l.w_size(), 2),
             dy = random_planes(l.y_size(), 3);
      const auto all = [&] {
        Planes y(dy.size()), dx(x.size()), dw(w.size());
        conv(l.sizes(), x.data(), w.data(), y.data());
        d_conv_x(l.sizes(), w.data(), dy.data(), dx.data());
        d_conv_w(l.sizes(), x.data(), dy.data(), dw.data());
        return std::vector<Planes>{y, dx, dw};
      };
      const std::vector<Planes> clean = all();
      x[static_cast<size_t>(l.x_size() / 3)] = odd;  // a corner of the second image: four taps
      dy[static_cast<size_t>(l.y_size() / 3 + 2 * l.sizes().window.OX + 3)] = odd;
      const std::vector<Planes> got = all();
      const Expected e = by_definition(l, x, w, dy);
      const Sums* wanted[] = {&e.y, &e.dx, &e.dw};
      for (size_t k = 0; k < 3; ++k) {
        for (size_t i = 0; i < got[k].size(); ++i) {
          const double v = (*wanted[k])[i];
          ASSERT_EQ(std::isfinite(got[k][i]), std::isfinite(v)) << k << " " << i;
          ASSERT_EQ(std::isnan(got[k][i]), std::isnan(v)) << k << " " << i;
          if (!std::isfinite(v)) continue;
          ASSERT_NEAR(got[k][i], v, 2e-4) << k << " " << i;
        }
      }
      for (const int64_t i : {0, 2}) {  // the other images, to the bit
        EXPECT_EQ(image_of(got[0], 3, i), image_of(clean[0], 3, i));
        EXPECT_EQ(image_of(got[1], 3, i), image_of(clean[1], 3, i));
      }
    }
  }
}

// Numbers whose sums are finite while those of a scheme's points are not.
TEST(ConvWays, LargeNumbersDoNotOverflowSooner) {
  const ConvLayer l{"", 1, 16, 9, 9, 16};
  Planes x = random_planes(l.x_size(), 1);
  const Planes w = random_planes(l.w_size(), 2), dy = random_planes(l.y_size(), 3);
  for (float& v : x) v *= 0x1p122f;
  const Expected e = by_definition(l, x, w, dy);
  Planes y(dy.size()), dw(w.size());
  conv(l.sizes(), x.data(), w.data(), y.data());
  d_conv_w(l.sizes(), x.data(), dy.data(), dw.data());
  expect_close(y, e.y, 1e-5);
  expect_close(dw, e.dw, 1e-5);
}

// Beside float64, root mean squares: 9e-7, 9e-7 and 5e-7. Sums one after another have half of it.
TEST(ConvWays, ErrorOfWinograd) {
  const ConvLayer l{"", 1, 64, 20, 20, 64};
  const Planes x = random_planes(l.x_size(), 1), w = random_planes(l.w_size(), 2),
               dy = random_planes(l.y_size(), 3);
  const Expected e = by_definition(l, x, w, dy);
  Planes y(dy.size()), dx(x.size()), dw(w.size());
  conv(l.sizes(), x.data(), w.data(), y.data());
  d_conv_x(l.sizes(), w.data(), dy.data(), dx.data());
  d_conv_w(l.sizes(), x.data(), dy.data(), dw.data());
  const auto error = [](const Planes& got, const Sums& wanted) {
    double off = 0.0, all = 0.0;
    for (size_t i = 0; i < got.size(); ++i) {
      off += (got[i] - wanted[i]) * (got[i] - wanted[i]);
      all += wanted[i] * wanted[i];
    }
    return std::sqrt(off / all);
  };
  EXPECT_LT(error(y, e.y), 1.5e-6);
  EXPECT_LT(error(dx, e.dx), 1.5e-6);
  EXPECT_LT(error(dw, e.dw), 1.5e-6);
}

}  // namespace
}  // namespace fovea::kernels
