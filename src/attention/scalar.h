#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "attention/rows.h"
#include "attention/var.h"

// The reference's vocabulary: formulas written once, as generic lambdas, for double and for Var
// (a double that remembers how it was made, so that its gradient needs no second formula).
namespace fovea {

template <class T>
struct ScalarParameter {
  std::vector<int64_t> shape;
  std::vector<T> data;
  bool present() const { return !shape.empty() || !data.empty(); }
  int64_t size() const { return static_cast<int64_t>(data.size()); }
  T operator[](int64_t i) const { return data[i]; }
  std::span<const T> row(int64_t r) const {  // of a matrix
    return std::span<const T>(data).subspan(r * shape[1], shape[1]);
  }
  T of_head(int64_t h) const { return data[data.size() == 1 ? 0 : h]; }
};
template <class T>
using ScalarParameters = std::map<std::string, ScalarParameter<T>>;

// One query q [Dq] and one key k [Dk], of head h, at key position j.
template <class T>
struct Pair {
  std::span<const T> q, k;
  int64_t h, j;
  const ScalarParameters<T>& p;
};

// One row of permitted scores, already divided by the temperature.
template <class T>
struct Row {
  std::span<const T> scores;
  std::span<const double> gumbel;   // noise of each permitted key; given to hard weightings
  std::span<const double> numbers;  // as declared
  std::span<T> weights;             // to be written
};

// The same captureless lambda on both number types:
//   .reference = []<class T>(const Pair<T>& x) -> T { return dot(x.q, x.k); }
struct ScalarScore {
  double (*on_double)(const Pair<double>&) = nullptr;
  Var (*on_var)(const Pair<Var>&) = nullptr;
  ScalarScore() = default;
  template <class F>
  ScalarScore(F)  // NOLINT: a formula converts to itself on every number type
      : on_double([](const Pair<double>& x) -> double { return F{}(x); }),
        on_var([](const Pair<Var>& x) -> Var { return F{}(x); }) {}
  double operator()(const Pair<double>& x) const { return on_double(x); }
  Var operator()(const Pair<Var>& x) const { return on_var(x); }
};

// p(q), the centre of a predicted window; `length` is the source length.
template <class T>
struct CenterArgs {
  std::span<const T> q;
  double length;
  const ScalarParameters<T>& p;
};
struct ScalarCenter {
  double (*on_double)(const CenterArgs<double>&) = nullptr;
  Var (*on_var)(const CenterArgs<Var>&) = nullptr;
  ScalarCenter() = default;
  template <class F>
  ScalarCenter(F)  // NOLINT
      : on_double([](const CenterArgs<double>& x) -> double { return F{}(x); }),
        on_var([](const CenterArgs<Var>& x) -> Var { return F{}(x); }) {}
  double operator()(const CenterArgs<double>& x) const { return on_double(x); }
  Var operator()(const CenterArgs<Var>& x) const { return on_var(x); }
};

struct ScalarWeighting {
  void (*on_double)(const Row<double>&) = nullptr;
  void (*on_var)(const Row<Var>&) = nullptr;
  ScalarWeighting() = default;
  template <class F>
  ScalarWeighting(F)  // NOLINT
      : on_double([](const Row<double>& x) { F{}(x); }),
        on_var([](const Row<Var>& x) { F{}(x); }) {}
  void operator()(const Row<double>& x) const { on_double(x); }
  void operator()(const Row<Var>& x) const { on_var(x); }
};

}  // namespace fovea
