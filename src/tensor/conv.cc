#include "kernels/conv.h"

#include <algorithm>

#include "core/memory.h"
#include "core/threads.h"
#include "fovea/ops.h"
#include "kernels/gemm.h"
#include "tensor/impl.h"
#include "tensor/tape.h"

namespace fovea {
namespace {

// One convolution's sizes: each of the G groups of an image is W [O,K] times columns [K,P].
struct Sizes {
  kernels::Window window;  // of one group
  int64_t N, G, O, K, P;
  bool plain;  // 1×1, one by one, no margin: the columns are x itself
  int64_t x_size() const { return window.C * window.Y * window.X; }
  int64_t work() const {
    return K * P * (1 + O / 16);
  }  // numbers touched by one group of one image
};

int64_t places(const char* call, int64_t size, int64_t pad, int64_t reach, int64_t stride) {
  if (size + 2 * pad < reach) {
    throw Error(call, "the window reaches over " + std::to_string(reach) + ", x with margins has " +
                          std::to_string(size + 2 * pad));
  }
  return (size + 2 * pad - reach) / stride + 1;
}

Sizes sizes_of(const Tensor& x, const Tensor& weight, const Conv2d& how) {
  const auto shapes = [&] {
    return "x is " + to_string(x.shape()) + ", weight is " + to_string(weight.shape()) +
           ", groups " + std::to_string(how.groups);
  };
  if (x.rank() != 4 || weight.rank() != 4) {
    throw Error("conv2d", "expected [N,C,Y,X] and [O,C/groups,KY,KX]: " + shapes());
  }
  if (how.groups < 1 || weight.size(0) % how.groups != 0 ||
      x.size(1) != weight.size(1) * how.groups) {
    throw Error("conv2d", "channels do not fit: " + shapes());
  }
  if (std::min({how.stride_y, how.stride_x, how.dilation_y, how.dilation_x}) < 1 ||
      std::min(how.pad_y, how.pad_x) < 0 || weight.size(2) < 1 || weight.size(3) < 1) {
    throw Error("conv2d", "strides, dilations and the window must be 1 or more, margins 0 or more");
  }
  const int64_t KY = weight.size(2), KX = weight.size(3);
  const int64_t OY =
      places("conv2d", x.size(2), how.pad_y, (KY - 1) * how.dilation_y + 1, how.stride_y);
  const int64_t OX =
      places("conv2d", x.size(3), how.pad_x, (KX - 1) * how.dilation_x + 1, how.stride_x);
  Sizes s{{weight.size(1), x.size(2), x.size(3), KY, KX, how.stride_y, how.stride_x, how.pad_y,
           how.pad_x, how.dilation_y, how.dilation_x, OY, OX},
          x.size(0),
          how.groups,
          weight.size(0) / how.groups,
          weight.size(1) * KY * KX,
          OY * OX,
          KY * KX == 1 && how.stride_y * how.stride_x == 1 && how.pad_y + how.pad_x == 0};
  return s;
}

// y[n,g] = W[g]·columns(x[n,g])
void forward(const Sizes& s, const float* x, const float* w, float* y) {
  parallel_for(s.N * s.G, s.work(), [&](int64_t i) {
    const float* from = x + i * s.x_size();
    Buffer<float> columns;
    if (!s.plain) {
      columns = Buffer<float>(s.K * s.P);
      kernels::unfold(s.window, from, columns.data());
    }
    kernels::gemm({.m = s.O,
                   .n = s.P,
                   .k = s.K,
                   .a = w + i % s.G * s.O * s.K,
                   .a_row = s.K,
                   .b = s.plain ? from : columns.data(),
                   .b_row = s.P,
                   .c = y + i * s.O * s.P,
                   .c_row = s.P});
  });
}

// dx[n,g] = fold(W[g]ᵀ·dy[n,g])
void backward_x(const Sizes& s, const float* w, const float* dy, float* dx) {
  parallel_for(s.N * s.G, s.work(), [&](int64_t i) {
    const Buffer<float> columns(s.plain ? 0 : s.K * s.P);
    float* to = dx + i * s.x_size();
    kernels::gemm({.m = s.K,
                   .n = s.P,
                   .k = s.O,
                   .a = w + i % s.G * s.O * s.K,
                   .a_row = 1,
                   .a_col = s.K,
                   .b = dy + i * s.O * s.P,
                   .b_row = s.P,
                   .c = s.plain ? to : columns.data(),
                   .c_row = s.P});
    if (!s.plain) {
      std::fill_n(to, s.x_size(), 0.0f);
      kernels::fold(s.window, columns.data(), to);
    }
  });
}

// dW[g] = Σ_n dy[n,g]·columns(x[n,g])ᵀ, at most 16 partial sums of neighbouring images.
void backward_w(const Sizes& s, const float* x, const float* dy, float* dw) {
  const int64_t each = (s.N + 15) / 16, parts = (s.N + each - 1) / each, size = s.G * s.O * s.K;
  const Buffer<float> partial(parts * size);
  parallel_for(parts * s.G, each * s.work(), [&](int64_t task) {
    const int64_t part = task / s.G, g = task % s.G;
    const Buffer<float> columns(s.plain ? 0 : s.K * s.P);
    float* to = partial.data() + part * size + g * s.O * s.K;
    for (int64_t n = part * each; n < std::min(s.N, (part + 1) * each); ++n) {
      const int64_t i = n * s.G + g;
      const float* from = x + i * s.x_size();
      if (!s.plain) kernels::unfold(s.window, from, columns.data());
      kernels::gemm({.m = s.O,
                     .n = s.K,
                     .k = s.P,
                     .a = dy + i * s.O * s.P,
                     .a_row = s.P,
                     .b = s.plain ? from : columns.data(),
                     .b_row = 1,
                     .b_col = s.P,
                     .c = to,
                     .c_row = s.K,
                     .beta = n == part * each ? 0.0f : 1.0f});
    }
  });
  std::fill_n(dw, size, 0.0f);
  for (int64_t part = 0; part < parts; ++part) {
    for (int64_t i = 0; i < size; ++i) dw[i] += partial[part * size + i];
  }
}

}  // namespace

Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias, const Conv2d& how) {
  expect_dtype("conv2d", "x", x, DType::f32);
  expect_dtype("conv2d", "weight", weight, DType::f32);
  const Sizes s = sizes_of(x, weight, how);
  if (bias && bias.shape() != Shape{weight.size(0)}) {
    throw Error("conv2d", "bias is " + to_string(bias.shape()) + ", expected [" +
                              std::to_string(weight.size(0)) + "]");
  }
  const Tensor xd = x.detach().contiguous(), wd = weight.detach().contiguous();
  Tensor y = Tensor::empty({s.N, weight.size(0), s.window.OY, s.window.OX});
  forward(s, raw(xd), raw(wd), raw(y));
  const bool want_dx = x.requires_grad(), want_dw = weight.requires_grad();
  const std::vector<Tensor> inputs{x, weight};
  if (needs_grad(inputs)) {
    y = record("conv2d", inputs, y, [=, x = Saved(xd), w = Saved(wd)](const Tensor& d) {
      const Tensor dy = d.contiguous();
      Grads grads(2);
      if (want_dx) {
        grads[0] = Tensor::empty(x.get("conv2d").shape());
        backward_x(s, raw(w.get("conv2d")), raw(dy), raw(grads[0]));
      }
      if (want_dw) {
        grads[1] = Tensor::zeros(w.get("conv2d").shape());
        if (s.N > 0) backward_w(s, raw(x.get("conv2d")), raw(dy), raw(grads[1]));
      }
      return grads;
    });
  }
  return bias ? y + bias.reshape({-1, 1, 1}) : y;
}

Tensor conv1d(const Tensor& x, const Tensor& weight, const Tensor& bias, const Conv1d& how) {
  expect_dtype("conv1d", "x", x, DType::f32);
  expect_dtype("conv1d", "weight", weight, DType::f32);
  if (x.rank() != 3 || weight.rank() != 3) {
    throw Error("conv1d", "x is " + to_string(x.shape()) + ", weight is " +
                              to_string(weight.shape()) + ", expected [N,C,L] and [O,C/groups,K]");
  }
  Conv2d two;
  two.stride_x = how.stride;
  two.pad_x = how.pad;
  two.dilation_x = how.dilation;
  two.groups = how.groups;
  return conv2d(x.unsqueeze(2), weight.unsqueeze(2), bias, two).squeeze(2);
}

namespace {

kernels::Window window_of(const char* call, const Tensor& x, const Pool2d& how) {
  expect_dtype(call, "x", x, DType::f32);
  if (x.rank() != 4) throw Error(call, "x is " + to_string(x.shape()) + ", expected [N,C,Y,X]");
  if (std::min({how.size_y, how.size_x, how.stride_y, how.stride_x}) < 1 ||
      std::min(how.pad_y, how.pad_x) < 0 || 2 * how.pad_y > how.size_y ||
      2 * how.pad_x > how.size_x) {
    throw Error(call, "sizes and strides must be 1 or more, margins at most half the size");
  }
  return {1,
          x.size(2),
          x.size(3),
          how.size_y,
          how.size_x,
          how.stride_y,
          how.stride_x,
          how.pad_y,
          how.pad_x,
          1,
          1,
          places(call, x.size(2), how.pad_y, how.size_y, how.stride_y),
          places(call, x.size(3), how.pad_x, how.size_x, how.stride_x)};
}

}  // namespace

// dx at the winner's place += dy
Tensor max_pool2d(const Tensor& x, const Pool2d& how) {
  const kernels::Window w = window_of("max_pool2d", x, how);
  const int64_t planes = x.size(0) * x.size(1), in = w.Y * w.X, out = w.OY * w.OX;
  const Tensor dense = x.detach().contiguous();
  Tensor y = Tensor::empty({x.size(0), x.size(1), w.OY, w.OX});
  Tensor from = Tensor::empty(y.shape(), DType::i64);
  parallel_for(planes, out * w.KY * w.KX, [&](int64_t p) {
    kernels::max_pool(w, raw(dense) + p * in, raw(y) + p * out, raw_ids(from) + p * out);
  });
  return record("max_pool2d", {x}, y, [=, shape = x.shape(), from = Saved(from)](const Tensor& d) {
    const Tensor dy = d.contiguous();
    Tensor dx = Tensor::zeros(shape);
    const int64_t* at = raw_ids(from.get("max_pool2d"));
    parallel_for(planes, out * w.KY * w.KX, [&](int64_t p) {
      for (int64_t i = p * out; i < (p + 1) * out; ++i) {
        raw(dx)[p * in + at[i]] += raw(dy)[i];
      }
    });
    return Grads{dx};
  });
}

Tensor avg_pool2d(const Tensor& x, const Pool2d& how) {
  const kernels::Window w = window_of("avg_pool2d", x, how);
  const int64_t planes = x.size(0) * x.size(1), in = w.Y * w.X, out = w.OY * w.OX;
  const Tensor dense = x.detach().contiguous();
  Tensor y = Tensor::empty({x.size(0), x.size(1), w.OY, w.OX});
  parallel_for(planes, out * w.KY * w.KX,
               [&](int64_t p) { kernels::avg_pool(w, raw(dense) + p * in, raw(y) + p * out); });
  return record("avg_pool2d", {x}, y, [=, shape = x.shape()](const Tensor& d) {
    const Tensor dy = d.contiguous();
    Tensor dx = Tensor::zeros(shape);
    parallel_for(planes, out * w.KY * w.KX,
                 [&](int64_t p) { kernels::d_avg_pool(w, raw(dy) + p * out, raw(dx) + p * in); });
    return Grads{dx};
  });
}

}  // namespace fovea
