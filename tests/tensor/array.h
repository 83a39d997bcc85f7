#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <vector>

#include "fovea/tensor.h"

// Small arrays of doubles, in which the tests write each operation's formula a second time.
namespace fovea {

struct Array {
  Shape shape;
  std::vector<double> v;

  explicit Array(Shape s, double value = 0.0) : shape(std::move(s)) {
    int64_t n = 1;
    for (const int64_t d : shape) n *= d;
    v.assign(n, value);
  }
  int64_t size() const { return static_cast<int64_t>(v.size()); }
  int64_t flat(const std::vector<int64_t>& at) const {
    int64_t i = 0;
    for (size_t d = 0; d < shape.size(); ++d) i = i * shape[d] + at[d];
    return i;
  }
  double& operator()(const std::vector<int64_t>& at) { return v[flat(at)]; }
  double operator()(const std::vector<int64_t>& at) const { return v[flat(at)]; }
  // The index of element i, dimension by dimension.
  std::vector<int64_t> index(int64_t i) const {
    std::vector<int64_t> at(shape.size());
    for (size_t d = shape.size(); d-- > 0;) {
      at[d] = i % shape[d];
      i /= shape[d];
    }
    return at;
  }
};
using Arrays = std::vector<Array>;

inline Array each(Array x, const std::function<double(double)>& f) {
  for (double& e : x.v) e = f(e);
  return x;
}

// The element of x that broadcasts to index `at`.
inline double broadcast_at(const Array& x, const std::vector<int64_t>& at) {
  std::vector<int64_t> own(at.end() - static_cast<int64_t>(x.shape.size()), at.end());
  for (size_t d = 0; d < own.size(); ++d) own[d] = x.shape[d] == 1 ? 0 : own[d];
  return x(own);
}

inline Array zip(const Array& a, const Array& b, const std::function<double(double, double)>& f) {
  Shape shape(std::max(a.shape.size(), b.shape.size()), 1);
  for (const Array* x : {&a, &b}) {
    for (size_t d = 1; d <= x->shape.size(); ++d) {
      int64_t& s = shape[shape.size() - d];
      if (s == 1) s = x->shape[x->shape.size() - d];
    }
  }
  Array y(shape);
  for (int64_t i = 0; i < y.size(); ++i) {
    const auto at = y.index(i);
    y.v[i] = f(broadcast_at(a, at), broadcast_at(b, at));
  }
  return y;
}

// f over every row along the last dimension.
inline Array rows(Array x, const std::function<void(double*, int64_t)>& f) {
  const int64_t n = x.shape.back();
  for (int64_t r = 0; r * n < x.size(); ++r) f(x.v.data() + r * n, n);
  return x;
}

}  // namespace fovea
