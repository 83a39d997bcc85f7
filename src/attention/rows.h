#pragma once

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "attention/var.h"

// What the formulas of weightings share, on either number type.
namespace fovea {

template <class T>
concept Number = std::same_as<T, double> || std::same_as<T, Var>;

// 1/(1 + e^−x), by the side on which the exponential cannot overflow.
template <Number T>
T sigmoid(const T& x) {
  if (x < 0) {
    const T e = exp(x);
    return e / (1 + e);
  }
  return 1 / (1 + exp(-x));
}

template <Number T>
double max_value(std::span<const T> row) {
  double max = -std::numeric_limits<double>::infinity();
  for (const T& x : row) max = std::max(max, value_of(x));
  return max;
}

// Whether weights that sum to 1 exist: a NaN or +inf, which is what overflows, leaves none.
template <Number T>
bool has_weights(std::span<const T> row) {
  return std::all_of(row.begin(), row.end(), [](const T& x) {
    return value_of(x) < std::numeric_limits<double>::infinity();
  });
}

// log Σ e^x; −inf of an empty row.
template <Number T>
T log_sum_exp(std::span<const T> row) {
  if (row.empty()) return -std::numeric_limits<double>::infinity();
  const double max = max_value(row);
  T sum = 0;
  for (const T& x : row) sum += exp(x - max);
  return log(sum) + max;
}

template <Number T>
void softmax(std::span<const T> row, std::span<T> out) {
  const double max = max_value(row);
  T sum = 0;
  for (size_t j = 0; j < row.size(); ++j) sum += out[j] = exp(row[j] - max);
  for (T& x : out) x /= sum;
}

template <Number T>
std::vector<double> values_of(std::span<const T> row) {
  std::vector<double> values;
  for (const T& x : row) values.push_back(value_of(x));
  return values;
}

// The first of equals.
inline int64_t index_of_max(std::span<const double> row) {
  return std::max_element(row.begin(), row.end()) - row.begin();
}

template <Number T>
void onehot(int64_t index, std::span<T> out) {
  for (size_t j = 0; j < out.size(); ++j) out[j] = static_cast<int64_t>(j) == index ? 1 : 0;
}

// Scores less their largest, largest first (NaN before all).
template <Number T>
std::vector<T> sorted_below_max(std::span<const T> row) {
  const double max = max_value(row);
  std::vector<T> sorted;
  for (const T& x : row) sorted.push_back(x - max);
  std::stable_sort(sorted.begin(), sorted.end(), [](const T& a, const T& b) {
    const double x = value_of(a), y = value_of(b);
    return x > y || (std::isnan(x) && !std::isnan(y));
  });
  return sorted;
}

}  // namespace fovea
