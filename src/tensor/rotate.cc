#include "kernels/rotate.h"
#include "fovea/ops.h"
#include "tensor/impl.h"
#include "tensor/tape.h"

namespace fovea {
namespace {

// Rows of a last dimension that lies densely.
Tensor with_dense_rows(const Tensor& x) {
  const Tensor t = x.detach();
  return t.strides()[3] == 1 ? t : t.contiguous();
}

kernels::HeadRows head_rows(const Tensor& x) {
  const Shape& s = x.strides();
  return {raw(x), s[0], s[1], s[2]};
}

// In memory [B,L,H,d], as a projection gives it.
Tensor turned(const Tensor& x, const Tensor& cos, const Tensor& sin, float turn) {
  const int64_t B = x.size(0), H = x.size(1), L = x.size(2), d = x.size(3);
  const Tensor from = with_dense_rows(x);
  const Tensor y = empty_at(x, {B, L, H, d}).transpose(1, 2);
  on(y).rotate({B, H, L, d}, head_rows(from), {raw(cos), raw(sin), turn}, head_rows(y));
  return y;
}

}  // namespace

// dx is dy turned back.
Tensor rotate(const Tensor& x, const Tensor& cos, const Tensor& sin) {
  if (x && is_bf16(x) && computes_in(x.device(), DType::bf16)) {
    return rotate(x.to(DType::f32), cos, sin).to(DType::bf16);
  }
  expect_dtype("rotate", "x", x, DType::f32);
  if (x.rank() != 4 || x.size(3) % 2 != 0) {
    throw Error("rotate", "x is " + to_string(x.shape()) + ", expected [B,H,L,D], D even");
  }
  const Shape angles{x.size(2), x.size(3) / 2};
  for (const Tensor& t : {cos, sin}) {
    expect_dtype("rotate", "angles", t, DType::f32);
    if (t.shape() != angles) {
      throw Error("rotate", "the angles are " + to_string(t.shape()) +
                                ", expected [L,D/2] = " + to_string(angles));
    }
  }
  expect_together("rotate", {&x, &cos, &sin});
  const Tensor c = cos.detach().contiguous(), s = sin.detach().contiguous();
  const Tensor y = turned(x, c, s, 1.0f);
  return record("rotate", {x}, y, [c = Saved(c), s = Saved(s)](const Tensor& dy) {
    return Grads{turned(dy, c.get("rotate"), s.get("rotate"), -1.0f)};
  });
}

}  // namespace fovea
