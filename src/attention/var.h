#pragma once

#include <cmath>
#include <compare>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <vector>

// Reverse-mode differentiation on scalars: a Var is a double that remembers how it was made.
//   VarScope scope;                        // cuts the tape back when it ends
//   const Var x = scope.leaf(2), y = x * exp(x);
//   scope.reverse(y, 1);                   // scope.adjoint(x) is now dy/dx
namespace fovea {

// Where a result came from: its inputs, and its derivative with respect to each.
struct VarEdge {
  int64_t input;
  double partial;
};

// One per thread. Node n owns the edges ends[n−1] … ends[n]−1; a leaf owns none.
struct VarTape {
  std::vector<VarEdge> edges;
  std::vector<int64_t> ends;
  std::vector<double> adjoints;

  static VarTape& here() {
    static thread_local VarTape tape;
    return tape;
  }
  int64_t size() const { return static_cast<int64_t>(ends.size()); }
  int64_t close_node() {
    ends.push_back(static_cast<int64_t>(edges.size()));
    return size() - 1;
  }
};

class Var {
 public:
  Var(double value = 0) : value_(value) {}  // NOLINT: a constant converts
  Var(double value, int64_t node) : value_(value), node_(node) {}

  double value() const { return value_; }
  int64_t node() const { return node_; }  // −1: a constant
  bool constant() const { return node_ < 0; }

  Var& operator+=(const Var& x) { return *this = *this + x; }
  Var& operator-=(const Var& x) { return *this = *this - x; }
  Var& operator*=(const Var& x) { return *this = *this * x; }
  Var& operator/=(const Var& x) { return *this = *this / x; }

  friend Var operator-(const Var& a) { return made(-a.value_, a, -1); }
  friend Var operator+(const Var& a, const Var& b) { return made(a.value_ + b.value_, a, 1, b, 1); }
  friend Var operator-(const Var& a, const Var& b) {
    return made(a.value_ - b.value_, a, 1, b, -1);
  }
  friend Var operator*(const Var& a, const Var& b) {
    return made(a.value_ * b.value_, a, b.value_, b, a.value_);
  }
  friend Var operator/(const Var& a, const Var& b) {
    const double ratio = a.value_ / b.value_;
    return made(ratio, a, 1 / b.value_, b, -ratio / b.value_);
  }
  friend std::partial_ordering operator<=>(const Var& a, const Var& b) {
    return a.value_ <=> b.value_;
  }
  friend bool operator==(const Var& a, const Var& b) { return a.value_ == b.value_; }

  static Var made(double value, const Var& a, double da) {
    if (a.constant()) return value;
    VarTape& tape = VarTape::here();
    tape.edges.push_back({a.node_, da});
    return {value, tape.close_node()};
  }
  static Var made(double value, const Var& a, double da, const Var& b, double db) {
    if (a.constant()) return made(value, b, db);
    if (b.constant()) return made(value, a, da);
    VarTape& tape = VarTape::here();
    tape.edges.push_back({a.node_, da});
    tape.edges.push_back({b.node_, db});
    return {value, tape.close_node()};
  }

 private:
  double value_ = 0;
  int64_t node_ = -1;
};

inline double value_of(double x) { return x; }
inline double value_of(const Var& x) { return x.value(); }

// Formulas say exp(x) for either number type.
inline double exp(double x) { return std::exp(x); }
inline double log(double x) { return std::log(x); }
inline double tanh(double x) { return std::tanh(x); }
inline double sqrt(double x) { return std::sqrt(x); }

inline Var exp(const Var& x) {
  const double y = std::exp(x.value());
  return Var::made(y, x, y);
}
inline Var log(const Var& x) { return Var::made(std::log(x.value()), x, 1 / x.value()); }
inline Var tanh(const Var& x) {
  const double y = std::tanh(x.value());
  return Var::made(y, x, 1 - y * y);
}
inline Var sqrt(const Var& x) {
  const double y = std::sqrt(x.value());
  return Var::made(y, x, 0.5 / y);
}

// Σ a_d·b_d: one node, however long.
inline double dot(std::span<const double> a, std::span<const double> b) {
  double sum = 0;
  for (size_t d = 0; d < a.size(); ++d) sum += a[d] * b[d];
  return sum;
}
inline Var dot(std::span<const Var> a, std::span<const Var> b) {
  VarTape& tape = VarTape::here();
  const size_t before = tape.edges.size();
  double sum = 0;
  for (size_t d = 0; d < a.size(); ++d) {
    sum += a[d].value() * b[d].value();
    if (!a[d].constant()) tape.edges.push_back({a[d].node(), b[d].value()});
    if (!b[d].constant()) tape.edges.push_back({b[d].node(), a[d].value()});
  }
  return tape.edges.size() == before ? Var(sum) : Var(sum, tape.close_node());
}

// A stretch of this thread's tape, cut off again at the end of the scope. Scopes nest: an inner
// reverse() adds to the adjoints of the outer scopes' leaves, which is how a gradient accumulates
// over rows while the tape holds one row at a time.
class VarScope {
 public:
  VarScope() : tape_(VarTape::here()), nodes_(tape_.size()), edges_(tape_.edges.size()) {}
  ~VarScope() {
    tape_.ends.resize(nodes_);
    tape_.edges.resize(edges_);
    if (static_cast<int64_t>(tape_.adjoints.size()) > nodes_) tape_.adjoints.resize(nodes_);
  }
  VarScope(const VarScope&) = delete;
  VarScope& operator=(const VarScope&) = delete;

  Var leaf(double value) { return {value, tape_.close_node()}; }

  // Adds seed·∂y/∂x to the adjoint of every x. Once a scope.
  void reverse(const Var& y, double seed) {
    tape_.adjoints.resize(tape_.size(), 0.0);
    if (y.constant()) return;
    tape_.adjoints[y.node()] += seed;
    for (int64_t n = y.node(); n >= nodes_; --n) {
      const double adjoint = tape_.adjoints[n];
      if (adjoint == 0) continue;
      const int64_t begin = n == 0 ? 0 : tape_.ends[n - 1];
      for (int64_t e = begin; e < tape_.ends[n]; ++e)
        tape_.adjoints[tape_.edges[e].input] += adjoint * tape_.edges[e].partial;
    }
  }

  double adjoint(const Var& x) const {
    const bool reached = !x.constant() && x.node() < static_cast<int64_t>(tape_.adjoints.size());
    return reached ? tape_.adjoints[x.node()] : 0.0;
  }

 private:
  VarTape& tape_;
  int64_t nodes_;
  size_t edges_;
};

}  // namespace fovea
