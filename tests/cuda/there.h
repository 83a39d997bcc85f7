#pragma once

#include <cmath>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

#include "kernels/open.h"

// Numbers of a test and the same in the GPU's memory.
namespace fovea::test {

class There {
 public:
  explicit There(std::vector<float> values) : here_(std::move(values)) {
    block_ = cuda::open_module().allocate(here_.size() * sizeof(float));
    cuda::open_module().upload(block_, here_.data(), here_.size() * sizeof(float));
  }
  // Of standard deviation `wide`.
  static There random(int64_t n, uint64_t seed, float wide = 1.0f) {
    std::mt19937_64 bits(seed);
    std::normal_distribution<float> normal(0.0f, wide);
    std::vector<float> values(static_cast<size_t>(n));
    for (float& v : values) v = normal(bits);
    return There(std::move(values));
  }
  // What nobody writes stays as it is.
  static There unwritten(int64_t n) {
    return There(std::vector<float>(static_cast<size_t>(n), kUnwritten));
  }
  static constexpr float kUnwritten = 1.2345e33f;

  There(const There&) = delete;
  There& operator=(const There&) = delete;
  ~There() { cuda::open_module().give_back(block_); }

  float* data() const { return static_cast<float*>(block_); }
  const std::vector<float>& here() const { return here_; }
  std::vector<float> now() const {
    std::vector<float> values(here_.size());
    cuda::open_module().download(values.data(), block_, values.size() * sizeof(float));
    return values;
  }

 private:
  std::vector<float> here_;
  void* block_ = nullptr;
};

// ‖x − y‖ / ‖y‖
inline double distance(const std::vector<float>& x, const std::vector<double>& y) {
  double off = 0.0, all = 0.0;
  for (size_t i = 0; i < y.size(); ++i) {
    off += (x[i] - y[i]) * (x[i] - y[i]);
    all += y[i] * y[i];
  }
  return std::sqrt(off / (all > 0.0 ? all : 1.0));
}

}  // namespace fovea::test
