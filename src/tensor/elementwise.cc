#include "kernels/elementwise.h"

#include <optional>

#include "fovea/ops.h"
#include "tensor/broadcast.h"
#include "tensor/impl.h"
#include "tensor/tape.h"

namespace fovea {
namespace {

using kernels::Numbers;
using kernels::Op;
using kernels::Source;
using kernels::Target;

Source source(const Tensor& t) {
  return {t.impl()->data, t.strides().data(), element_of(t.dtype())};
}
Target target(const Tensor& t) {
  return {t.impl()->data, t.strides().data(), element_of(t.dtype())};
}

// Of bf16 bf16, else f32.
DType result_of(const Tensor& x) { return is_bf16(x) ? DType::bf16 : DType::f32; }

Tensor apply(Op op, const Tensor& x, Numbers numbers = {}) {
  Tensor y = empty_at(x, x.shape(), result_of(x));
  on(y).elementwise(op, x.shape(), {source(x)}, target(y), numbers);
  return y;
}

// a and b of one shape.
Tensor apply(Op op, const Tensor& a, const Tensor& b, Numbers numbers = {},
             std::optional<DType> out = {}) {
  Tensor y = empty_at(a, a.shape(), out.value_or(result_of(a)));
  on(y).elementwise(op, a.shape(), {source(a), source(b)}, target(y), numbers);
  return y;
}

Tensor apply(Op op, const Tensor& a, const Tensor& b, const Tensor& c) {
  Tensor y = empty_at(b, a.shape(), result_of(b));
  on(y).elementwise(op, a.shape(), {source(a), source(b), source(c)}, target(y), {});
  return y;
}

// Both as views of the shape they broadcast to, off the tape.
struct Pair {
  Tensor a, b;
};
Pair broadcast(const char* call, const Tensor& a, const Tensor& b) {
  expect_floats(call, "a", a);
  expect_dtype(call, "b", b, a.dtype());
  expect_together(call, {&a, &b});
  const NoGrad off;
  if (a.shape() == b.shape()) return {a, b};
  const Shape shape = broadcast_shape(call, a.shape(), b.shape());
  return {a.expand(shape), b.expand(shape)};
}

// y = op(x), whose gradient is d_op(dy, x or y).
enum class Keeps : uint8_t { x, y };
struct Unary {
  const char* name;
  Op op, d_op;
  Keeps keeps;
};
Tensor unary(const Unary& f, const Tensor& x, Numbers numbers = {}) {
  expect_floats(f.name, "x", x);
  Tensor y = apply(f.op, x, numbers);
  if (!needs_grad({&x, 1})) return y;
  return record(f.name, {x}, y,
                [f, numbers, kept = Saved(f.keeps == Keeps::x ? x : y)](const Tensor& dy) {
                  return Grads{apply(f.d_op, dy, kept.get(f.name), numbers)};
                });
}

// y = p·x + q
Tensor affine(const char* name, const Tensor& x, float p, float q) {
  expect_floats(name, "x", x);
  return record(name, {x}, apply(Op::affine, x, {p, q}),
                [p](const Tensor& dy) { return Grads{p == 1.0f ? dy : dy * p}; });
}

}  // namespace

Tensor add(const Tensor& a, const Tensor& b) {
  const Pair x = broadcast("add", a, b);
  const bool want_da = a.requires_grad(), want_db = b.requires_grad();
  return record(
      "add", {a, b}, apply(Op::add, x.a, x.b),
      [sa = a.shape(), sb = b.shape(), want_da, want_db](const Tensor& dy) {
        return Grads{want_da ? sum_to(dy, sa) : Tensor(), want_db ? sum_to(dy, sb) : Tensor()};
      });
}

Tensor sub(const Tensor& a, const Tensor& b) {
  const Pair x = broadcast("sub", a, b);
  const bool want_db = b.requires_grad();
  return record("sub", {a, b}, apply(Op::sub, x.a, x.b),
                [sa = a.shape(), sb = b.shape(), want_db](const Tensor& dy) {
                  return Grads{sum_to(dy, sa), want_db ? neg(sum_to(dy, sb)) : Tensor()};
                });
}

// da = dy·b, db = dy·a
Tensor mul(const Tensor& a, const Tensor& b) {
  const Pair x = broadcast("mul", a, b);
  const bool want_da = a.requires_grad(), want_db = b.requires_grad();
  Tensor y = apply(Op::mul, x.a, x.b);
  if (!grad_enabled() || !(want_da || want_db)) return y;
  return record("mul", {a, b}, y,
                [sa = a.shape(), sb = b.shape(), ka = want_db ? Saved(a) : Saved(),
                 kb = want_da ? Saved(b) : Saved(), want_da, want_db](const Tensor& dy) {
                  return Grads{want_da ? sum_to(dy * kb.get("mul"), sa) : Tensor(),
                               want_db ? sum_to(dy * ka.get("mul"), sb) : Tensor()};
                });
}

// da = dy/b, db = −dy·y/b
Tensor div(const Tensor& a, const Tensor& b) {
  const Pair x = broadcast("div", a, b);
  const bool want_db = b.requires_grad();
  Tensor y = apply(Op::div, x.a, x.b);
  if (!grad_enabled() || !(want_db || a.requires_grad())) return y;
  return record("div", {a, b}, y,
                [sa = a.shape(), sb = b.shape(), kb = Saved(b), want_db,
                 ky = want_db ? Saved(y) : Saved()](const Tensor& dy) {
                  const Tensor da = dy / kb.get("div");
                  if (!want_db) return Grads{sum_to(da, sa), {}};
                  return Grads{sum_to(da, sa), neg(sum_to(da * ky.get("div"), sb))};
                });
}

namespace {

// The larger (or smaller) of two; where they are equal the gradient is shared.
Tensor choose(const char* name, Op op, const Tensor& a, const Tensor& b) {
  const Pair x = broadcast(name, a, b);
  Tensor y = apply(op, x.a, x.b);
  const std::vector<Tensor> inputs{a, b};
  if (!needs_grad(inputs)) return y;
  return record(name, inputs, y,
                [name, op, sa = a.shape(), sb = b.shape(), ka = Saved(x.a),
                 kb = Saved(x.b)](const Tensor& dy) {
                  const Tensor& hi = (op == Op::maximum ? ka : kb).get(name);
                  const Tensor& lo = (op == Op::maximum ? kb : ka).get(name);
                  return Grads{sum_to(apply(Op::d_maximum, dy, hi, lo), sa),
                               sum_to(apply(Op::d_maximum, dy, lo, hi), sb)};
                });
}

}  // namespace

Tensor maximum(const Tensor& a, const Tensor& b) { return choose("maximum", Op::maximum, a, b); }
Tensor minimum(const Tensor& a, const Tensor& b) { return choose("minimum", Op::minimum, a, b); }

// d base = dy·e·b^(e−1), d exponent = dy·y·ln b (0 where b = 0)
Tensor pow(const Tensor& base, const Tensor& exponent) {
  const Pair x = broadcast("pow", base, exponent);
  Tensor y = apply(Op::pow, x.a, x.b);
  const std::vector<Tensor> inputs{base, exponent};
  if (!needs_grad(inputs)) return y;
  return record("pow", inputs, y,
                [sb = base.shape(), se = exponent.shape(), kb = Saved(x.a), ke = Saved(x.b),
                 ky = Saved(y), want_de = exponent.requires_grad()](const Tensor& dy) {
                  const Tensor &b = kb.get("pow"), &e = ke.get("pow");
                  Grads grads{sum_to(dy * e * apply(Op::pow, b, e - 1.0f), sb), {}};
                  if (want_de) {
                    const Tensor zero = full_at(b, {}, 0.0f);
                    const Tensor slope = ky.get("pow") * log(b);
                    grads[1] = sum_to(dy * where(equal(b, zero), zero, slope), se);
                  }
                  return grads;
                });
}

Tensor pow(const Tensor& base, float exponent) {
  return unary({"pow", Op::power, Op::d_power, Keeps::x}, base, {exponent});
}

Tensor operator+(const Tensor& a, const Tensor& b) { return add(a, b); }
Tensor operator-(const Tensor& a, const Tensor& b) { return sub(a, b); }
Tensor operator*(const Tensor& a, const Tensor& b) { return mul(a, b); }
Tensor operator/(const Tensor& a, const Tensor& b) { return div(a, b); }
Tensor operator-(const Tensor& a) { return neg(a); }
Tensor operator+(const Tensor& a, float b) { return affine("add", a, 1.0f, b); }
Tensor operator-(const Tensor& a, float b) { return affine("sub", a, 1.0f, -b); }
Tensor operator*(const Tensor& a, float b) { return affine("mul", a, b, 0.0f); }
Tensor operator/(const Tensor& a, float b) { return div(a, full_at(a, {}, b)); }
Tensor operator+(float a, const Tensor& b) { return b + a; }
Tensor operator-(float a, const Tensor& b) { return affine("sub", b, -1.0f, a); }
Tensor operator*(float a, const Tensor& b) { return b * a; }
Tensor operator/(float a, const Tensor& b) { return div(full_at(b, {}, a), b); }

Tensor neg(const Tensor& x) { return affine("neg", x, -1.0f, 0.0f); }
Tensor exp(const Tensor& x) { return unary({"exp", Op::exp, Op::mul, Keeps::y}, x); }
Tensor log(const Tensor& x) { return unary({"log", Op::log, Op::div, Keeps::x}, x); }
Tensor tanh(const Tensor& x) { return unary({"tanh", Op::tanh, Op::d_tanh, Keeps::y}, x); }
Tensor sigmoid(const Tensor& x) {
  return unary({"sigmoid", Op::sigmoid, Op::d_sigmoid, Keeps::y}, x);
}
Tensor relu(const Tensor& x) { return unary({"relu", Op::relu, Op::d_relu, Keeps::y}, x); }
Tensor gelu(const Tensor& x) { return unary({"gelu", Op::gelu, Op::d_gelu, Keeps::x}, x); }
Tensor gelu_tanh(const Tensor& x) {
  return unary({"gelu_tanh", Op::gelu_tanh, Op::d_gelu_tanh, Keeps::x}, x);
}
Tensor silu(const Tensor& x) { return unary({"silu", Op::silu, Op::d_silu, Keeps::x}, x); }
Tensor elu(const Tensor& x, float alpha) {
  return unary({"elu", Op::elu, Op::d_elu, Keeps::y}, x, {alpha});
}
Tensor sqrt(const Tensor& x) { return unary({"sqrt", Op::sqrt, Op::d_sqrt, Keeps::y}, x); }
Tensor square(const Tensor& x) { return unary({"square", Op::square, Op::d_square, Keeps::x}, x); }
Tensor abs(const Tensor& x) { return unary({"abs", Op::abs, Op::d_abs, Keeps::x}, x); }
Tensor clamp(const Tensor& x, float low, float high) {
  if (!(low <= high)) {
    throw Error("clamp", "low is " + std::to_string(low) + ", high is " + std::to_string(high));
  }
  return unary({"clamp", Op::clamp, Op::d_clamp, Keeps::x}, x, {low, high});
}

// da = cond ? dy : 0, db = cond ? 0 : dy
Tensor where(const Tensor& cond, const Tensor& a, const Tensor& b) {
  expect_dtype("where", "cond", cond, DType::boolean);
  expect_dtype("where", "a", a, DType::f32);
  expect_dtype("where", "b", b, DType::f32);
  Shape shape = broadcast_shape("where", a.shape(), b.shape());
  shape = broadcast_shape("where", cond.shape(), shape);
  expect_together("where", {&a, &b});
  const Tensor c = cond.to(a.device()).expand(shape);
  Tensor y = apply(Op::where, c, a.detach().expand(shape), b.detach().expand(shape));
  const std::vector<Tensor> inputs{a, b};
  if (!needs_grad(inputs)) return y;
  return record("where", inputs, y,
                [c = Saved(c), sa = a.shape(), sb = b.shape()](const Tensor& dy) {
                  const Tensor zero = full_at(dy, {}, 0.0f).expand(dy.shape());
                  return Grads{sum_to(apply(Op::where, c.get("where"), dy, zero), sa),
                               sum_to(apply(Op::where, c.get("where"), zero, dy), sb)};
                });
}

namespace {

Tensor compare(const char* name, Op op, const Tensor& a, const Tensor& b) {
  expect_defined(name, "a", a);
  expect_dtype(name, "b", b, a.dtype());
  const NoGrad off;
  const Shape shape = broadcast_shape(name, a.shape(), b.shape());
  if (a.dtype() != DType::i64) {
    if (a.dtype() != DType::boolean) {
      expect_floats(name, "a", a);
      expect_together(name, {&a, &b});
    }
    const Device there = a.device() == Device::cpu ? b.device() : a.device();
    return apply(op, a.to(there).expand(shape), b.to(there).expand(shape), {}, DType::boolean);
  }
  const Tensor x = a.to(Device::cpu).expand(shape).contiguous();
  const Tensor y = b.to(Device::cpu).expand(shape).contiguous();
  Tensor out = Tensor::empty(shape, DType::boolean, Device::cpu);
  kernels::compare_ids(op, out.numel(), raw_ids(x), raw_ids(y), raw_bools(out));
  return out;
}

}  // namespace

Tensor less(const Tensor& a, const Tensor& b) { return compare("less", Op::less, a, b); }
Tensor less_equal(const Tensor& a, const Tensor& b) {
  return compare("less_equal", Op::less_equal, a, b);
}
Tensor greater(const Tensor& a, const Tensor& b) { return compare("greater", Op::less, b, a); }
Tensor greater_equal(const Tensor& a, const Tensor& b) {
  return compare("greater_equal", Op::less_equal, b, a);
}
Tensor equal(const Tensor& a, const Tensor& b) { return compare("equal", Op::equal, a, b); }
Tensor not_equal(const Tensor& a, const Tensor& b) {
  return compare("not_equal", Op::not_equal, a, b);
}

}  // namespace fovea
