#include <algorithm>
#include <limits>

#include "tests/tensor/check.h"

namespace fovea {
namespace {

// The definition, place by place.
Array convolved(const Array& x, const Array& w, const Array& b, const Conv2d& how) {
  const int64_t N = x.shape[0], Y = x.shape[2], X = x.shape[3];
  const int64_t O = w.shape[0], C = w.shape[1], KY = w.shape[2], KX = w.shape[3];
  const int64_t OY = (Y + 2 * how.pad_y - (KY - 1) * how.dilation_y - 1) / how.stride_y + 1;
  const int64_t OX = (X + 2 * how.pad_x - (KX - 1) * how.dilation_x - 1) / how.stride_x + 1;
  Array y({N, O, OY, OX});
  for (int64_t i = 0; i < y.size(); ++i) {
    const auto at = y.index(i);
    const int64_t first = at[1] / (O / how.groups) * C;
    y.v[i] = b.v[at[1]];
    for (int64_t c = 0; c < C; ++c) {
      for (int64_t ky = 0; ky < KY; ++ky) {
        for (int64_t kx = 0; kx < KX; ++kx) {
          const int64_t yy = at[2] * how.stride_y + ky * how.dilation_y - how.pad_y;
          const int64_t xx = at[3] * how.stride_x + kx * how.dilation_x - how.pad_x;
          if (yy < 0 || yy >= Y || xx < 0 || xx >= X) continue;
          y.v[i] += w({at[1], c, ky, kx}) * x({at[0], first + c, yy, xx});
        }
      }
    }
  }
  return y;
}

TEST(Conv, TwoDimensions) {
  struct Setting {
    std::vector<Shape> shapes;
    Conv2d how;
  };
  const Setting all[] = {
      {{{2, 2, 5, 4}, {3, 2, 3, 2}, {3}}, {}},
      {{{2, 2, 5, 4}, {3, 2, 3, 2}, {3}}, {.stride_y = 2, .pad_y = 1, .pad_x = 2}},
      {{{1, 4, 5, 5}, {2, 2, 2, 2}, {2}}, {.stride_x = 2, .dilation_y = 2, .groups = 2}},
      {{{2, 3, 4, 4}, {3, 1, 3, 3}, {3}}, {.pad_y = 1, .pad_x = 1, .groups = 3}},
      {{{2, 3, 2, 3}, {4, 3, 1, 1}, {4}}, {}},
      {{{35, 1, 3, 2}, {2, 1, 2, 2}, {2}}, {}},  // more images than partial sums
      {{{1, 1, 2, 2}, {1, 1, 3, 3}, {1}}, {.pad_y = 2, .pad_x = 2, .dilation_y = 2}}};
  for (const Setting& s : all) {
    check({"conv2d", s.shapes, [&](const Operands& x) { return conv2d(x[0], x[1], x[2], s.how); },
           [&](const Arrays& x) { return convolved(x[0], x[1], x[2], s.how); }});
  }
}

// dx and dw of the definition.
struct Slopes {
  Array dx, dw;
};
Slopes slopes_of(const Array& x, const Array& w, const Array& dy, const Conv2d& how) {
  Slopes d{Array(x.shape), Array(w.shape)};
  for (int64_t i = 0; i < dy.size(); ++i) {
    const auto at = dy.index(i);
    for (int64_t j = 0; j < w.size() / w.shape[0]; ++j) {
      auto k = w.index(j);
      k[0] = at[1];
      const int64_t yy = at[2] * how.stride_y + k[2] * how.dilation_y - how.pad_y;
      const int64_t xx = at[3] * how.stride_x + k[3] * how.dilation_x - how.pad_x;
      if (yy < 0 || yy >= x.shape[2] || xx < 0 || xx >= x.shape[3]) continue;
      d.dx({at[0], k[1], yy, xx}) += w(k) * dy.v[i];
      d.dw(k) += x({at[0], k[1], yy, xx}) * dy.v[i];
    }
  }
  return d;
}

// More columns than a strip has, so that there are several, the last one smaller.
TEST(Conv, InStrips) {
  for (const Conv2d& how :
       {Conv2d{.pad_y = 1, .pad_x = 1}, Conv2d{.stride_y = 1, .stride_x = 2, .pad_y = 1},
        Conv2d{.pad_y = 3, .pad_x = 3}}) {
    Tensor x = draw({2, 24, 25, 30}, 1, -1.0, 1.0).set_requires_grad();
    Tensor w = draw({3, 24, 3, 3}, 2, -0.1, 0.1).set_requires_grad();
    const Tensor y = conv2d(x, w, {}, how);
    const Array expected = convolved(to_array(x), to_array(w), Array({3}), how);
    expect_near(y.to_vector(), expected.v, 1e-5, 1e-5, "y");
    const Tensor dy = draw(y.shape(), 3, -1.0, 1.0);
    y.backward(dy);
    const Slopes d = slopes_of(to_array(x), to_array(w), to_array(dy), how);
    expect_near(x.grad().to_vector(), d.dx.v, 1e-5, 1e-5, "dx");
    expect_near(w.grad().to_vector(), d.dw.v, 1e-5, 1e-4, "dw");
  }
}

TEST(Conv, OneDimension) {
  const Conv1d how{.stride = 2, .pad = 2, .dilation = 2, .groups = 2};
  check({"conv1d",
         {{2, 4, 7}, {2, 2, 3}, {2}},
         [&](const Operands& x) { return conv1d(x[0], x[1], x[2], how); },
         [&](const Arrays& x) {
           Arrays a = x;
           a[0].shape = {2, 4, 1, 7};
           a[1].shape = {2, 2, 1, 3};
           Array y = convolved(a[0], a[1], a[2],
                               {.stride_x = 2, .pad_x = 2, .dilation_x = 2, .groups = 2});
           y.shape.erase(y.shape.begin() + 2);
           return y;
         }});
}

Array pooled(const Array& x, const Pool2d& how, bool maximum) {
  const int64_t Y = x.shape[2], X = x.shape[3];
  Array y({x.shape[0], x.shape[1], (Y + 2 * how.pad_y - how.size_y) / how.stride_y + 1,
           (X + 2 * how.pad_x - how.size_x) / how.stride_x + 1});
  for (int64_t i = 0; i < y.size(); ++i) {
    const auto at = y.index(i);
    double best = -std::numeric_limits<double>::infinity(), sum = 0.0;
    for (int64_t ky = 0; ky < how.size_y; ++ky) {
      for (int64_t kx = 0; kx < how.size_x; ++kx) {
        const int64_t yy = at[2] * how.stride_y + ky - how.pad_y;
        const int64_t xx = at[3] * how.stride_x + kx - how.pad_x;
        if (yy < 0 || yy >= Y || xx < 0 || xx >= X) continue;
        best = std::max(best, x({at[0], at[1], yy, xx}));
        sum += x({at[0], at[1], yy, xx});
      }
    }
    y.v[i] = maximum ? best : sum / double(how.size_y * how.size_x);
  }
  return y;
}

TEST(Conv, Pooling) {
  for (const Pool2d& how : {Pool2d{}, Pool2d{3, 2, 1, 2, 1, 1}, Pool2d{3, 3, 2, 2, 1, 0}}) {
    check({"max_pool2d",
           {{2, 2, 5, 6}},
           [&](const Operands& x) { return max_pool2d(x[0], how); },
           [&](const Arrays& x) { return pooled(x[0], how, true); }});
    check({"avg_pool2d",
           {{2, 2, 5, 6}},
           [&](const Operands& x) { return avg_pool2d(x[0], how); },
           [&](const Arrays& x) { return pooled(x[0], how, false); }});
  }
}

TEST(Conv, Empty) {
  Tensor w = Tensor::zeros({2, 1, 3, 3}).set_requires_grad();
  const Tensor y = conv2d(Tensor::zeros({0, 1, 4, 4}), w);
  EXPECT_EQ(y.shape(), (Shape{0, 2, 2, 2}));
  sum(y).backward();
  EXPECT_EQ(w.grad().to_vector(), std::vector<float>(18, 0.0f));
}

// No rows, no columns, no channels on either side: margins alone make places, and all sums are 0.
TEST(Conv, OfNothing) {
  struct Case {
    Shape x, w;
    int64_t pad;
  };
  for (const Case& c :
       {Case{{1, 8, 0, 5}, {4, 8, 2, 2}, 1}, Case{{1, 16, 0, 5}, {16, 16, 3, 3}, 2},
        Case{{1, 16, 5, 0}, {16, 16, 3, 3}, 2}, Case{{2, 8, 0, 64}, {8, 8, 3, 3}, 2},
        Case{{1, 0, 8, 8}, {0, 0, 3, 3}, 0}, Case{{1, 0, 64, 64}, {3, 0, 1, 1}, 0},
        Case{{1, 3, 8, 8}, {0, 3, 3, 3}, 1}}) {
    SCOPED_TRACE(to_string(c.x) + " " + to_string(c.w));
    Tensor x = Tensor::full(c.x, 1.0f).set_requires_grad();
    Tensor w = Tensor::full(c.w, 1.0f).set_requires_grad();
    Conv2d how;
    how.pad_y = how.pad_x = c.pad;
    const Tensor y = conv2d(x, w, {}, how);
    EXPECT_EQ(y.shape(), (Shape{c.x[0], c.w[0], c.x[2] + 2 * c.pad - c.w[2] + 1,
                                c.x[3] + 2 * c.pad - c.w[3] + 1}));
    sum(y).backward();
    for (const Tensor& t : {y, x.grad(), w.grad()}) {
      EXPECT_EQ(t.to_vector(), std::vector<float>(static_cast<size_t>(t.numel()), 0.0f));
    }
  }
  Pool2d pool;
  pool.pad_y = pool.pad_x = 1;
  EXPECT_TRUE(has(error_of([&] {
                    max_pool2d(Tensor::zeros({1, 1, 0, 5}), pool);
                  }),
                  "x is [1, 1, 0, 5], expected planes of 1 pixel or more"));
}

TEST(Conv, Errors) {
  EXPECT_EQ(error_of([] {
              conv2d(Tensor::zeros({1, 3, 4, 4}), Tensor::zeros({2, 2, 3, 3}));
            }),
            "[conv2d] channels do not fit: x is [1, 3, 4, 4], weight is [2, 2, 3, 3], groups 1");
  EXPECT_EQ(error_of([] {
              conv2d(Tensor::zeros({1, 2, 2, 4}), Tensor::zeros({2, 2, 3, 3}));
            }),
            "[conv2d] the window reaches over 3, x with margins has 2");
}

}  // namespace
}  // namespace fovea
