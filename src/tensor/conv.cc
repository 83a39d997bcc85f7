#include "kernels/conv.h"

#include <algorithm>

#include "fovea/ops.h"
#include "tensor/impl.h"
#include "tensor/tape.h"

namespace fovea {
namespace {

int64_t places(const char* call, int64_t size, int64_t pad, int64_t reach, int64_t stride) {
  if (size + 2 * pad < reach) {
    throw Error(call, "the window reaches over " + std::to_string(reach) + ", x with margins has " +
                          std::to_string(size + 2 * pad));
  }
  return (size + 2 * pad - reach) / stride + 1;
}

kernels::Convolution sizes_of(const Tensor& x, const Tensor& weight, const Conv2d& how) {
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
  return {.window = {weight.size(1), x.size(2), x.size(3), KY, KX, how.stride_y, how.stride_x,
                     how.pad_y, how.pad_x, how.dilation_y, how.dilation_x, OY, OX},
          .N = x.size(0),
          .G = how.groups,
          .O = weight.size(0) / how.groups};
}

}  // namespace

Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias, const Conv2d& how) {
  expect_dtype("conv2d", "x", x, DType::f32);
  expect_dtype("conv2d", "weight", weight, DType::f32);
  const kernels::Convolution s = sizes_of(x, weight, how);
  if (bias && bias.shape() != Shape{weight.size(0)}) {
    throw Error("conv2d", "bias is " + to_string(bias.shape()) + ", expected [" +
                              std::to_string(weight.size(0)) + "]");
  }
  expect_together("conv2d", {&x, &weight, &bias});
  const Tensor xd = x.detach().contiguous(), wd = weight.detach().contiguous();
  Tensor y = empty_at(x, {s.N, weight.size(0), s.window.OY, s.window.OX});
  on(y).conv(s, raw(xd), raw(wd), raw(y));
  const bool want_dx = x.requires_grad(), want_dw = weight.requires_grad();
  const std::vector<Tensor> inputs{x, weight};
  if (needs_grad(inputs)) {
    y = record("conv2d", inputs, y, [=, x = Saved(xd), w = Saved(wd)](const Tensor& d) {
      const Tensor dy = d.contiguous();
      Grads grads(2);
      if (want_dx) {
        grads[0] = empty_at(dy, x.get("conv2d").shape());
        on(dy).d_conv_x(s, raw(w.get("conv2d")), raw(dy), raw(grads[0]));
      }
      if (want_dw) {
        grads[1] = empty_at(dy, w.get("conv2d").shape());
        on(dy).d_conv_w(s, raw(x.get("conv2d")), raw(dy), raw(grads[1]));
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

kernels::Pooling pooling_of(const char* call, const Tensor& x, const Pool2d& how) {
  expect_dtype(call, "x", x, DType::f32);
  if (x.rank() != 4) throw Error(call, "x is " + to_string(x.shape()) + ", expected [N,C,Y,X]");
  if (std::min({how.size_y, how.size_x, how.stride_y, how.stride_x}) < 1 ||
      std::min(how.pad_y, how.pad_x) < 0 || 2 * how.pad_y > how.size_y ||
      2 * how.pad_x > how.size_x) {
    throw Error(call, "sizes and strides must be 1 or more, margins at most half the size");
  }
  if (x.size(2) * x.size(3) == 0) {
    throw Error(call, "x is " + to_string(x.shape()) + ", expected planes of 1 pixel or more");
  }
  const int64_t OY = places(call, x.size(2), how.pad_y, how.size_y, how.stride_y);
  const int64_t OX = places(call, x.size(3), how.pad_x, how.size_x, how.stride_x);
  return {.window = {1, x.size(2), x.size(3), how.size_y, how.size_x, how.stride_y, how.stride_x,
                     how.pad_y, how.pad_x, 1, 1, OY, OX},
          .planes = x.size(0) * x.size(1)};
}

}  // namespace

// dx at the winner's place += dy
Tensor max_pool2d(const Tensor& x, const Pool2d& how) {
  const kernels::Pooling p = pooling_of("max_pool2d", x, how);
  Tensor y = empty_at(x, {x.size(0), x.size(1), p.window.OY, p.window.OX});
  Tensor from = empty_at(x, y.shape(), DType::i64);
  on(y).max_pool(p, raw(x.detach().contiguous()), raw(y), raw_ids(from));
  return record("max_pool2d", {x}, y, [p, shape = x.shape(), from = Saved(from)](const Tensor& dy) {
    Tensor dx = zeros_at(dy, shape);
    on(dx).d_max_pool(p, raw_ids(from.get("max_pool2d")), raw(dy.contiguous()), raw(dx));
    return Grads{dx};
  });
}

Tensor avg_pool2d(const Tensor& x, const Pool2d& how) {
  const kernels::Pooling p = pooling_of("avg_pool2d", x, how);
  Tensor y = empty_at(x, {x.size(0), x.size(1), p.window.OY, p.window.OX});
  on(y).avg_pool(p, raw(x.detach().contiguous()), raw(y));
  return record("avg_pool2d", {x}, y, [p, shape = x.shape()](const Tensor& dy) {
    Tensor dx = zeros_at(dy, shape);
    on(dx).d_avg_pool(p, raw(dy.contiguous()), raw(dx));
    return Grads{dx};
  });
}

}  // namespace fovea
