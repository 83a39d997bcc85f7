#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

namespace fovea::kernels {

// y[n,g] = W[g] over x[n,g] by a scheme of winograd-schemes-inl.h: C planes of Y×X read, O planes
// of OY×OX written. W[o][c] is nine taps at o·w_out + c·w_in, from the last one if turned.
struct WinogradProduct {
  enum Scheme { four_places, two_apart, spread } scheme;
  int64_t N, G, C, Y, X, O, OY, OX;
  int64_t pad;
  int64_t w_out, w_in;
  bool turned;
};

// dW[g] of the same, by four places where the window moves by one, else by two of every second.
struct WinogradWeights {
  bool by_one;
  int64_t N, G, C, Y, X, O, OY, OX, pad;
};

// Which of n things are not finite; tasks may add the same one.
class NotFinite {
 public:
  explicit NotFinite(int64_t n) : is_(new std::atomic<bool>[static_cast<size_t>(n)]()) {}
  void add(int64_t i) { is_[static_cast<size_t>(i)].store(true, std::memory_order_relaxed); }
  bool has(int64_t i) const { return is_[static_cast<size_t>(i)].load(std::memory_order_relaxed); }

 private:
  std::unique_ptr<std::atomic<bool>[]> is_;
};

}  // namespace fovea::kernels
