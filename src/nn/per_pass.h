#pragma once

#include <map>
#include <mutex>

#include "tensor/impl.h"
#include "tensor/node.h"

namespace fovea::nn {

// What backward functions leave for one that runs after them in the same pass. That one is the
// backward of an empty tensor, recorded before they are and an input of each: it takes what was
// left, and has the true inputs. The first of a pass to leave something sends it a gradient. Where
// gradients() asks for none of those inputs, what was left stays as long as the graph.
template <class T>
class PerPass {
 public:
  // write(T&); true for the pass's first.
  template <class F>
  bool leave(const F& write) {
    const std::lock_guard lock(mutex_);
    const auto [it, first] = by_pass_.try_emplace(current_pass());
    write(it->second);
    return first;
  }
  T take() {
    const std::lock_guard lock(mutex_);
    return std::move(by_pass_.extract(current_pass()).mapped());
  }

 private:
  std::mutex mutex_;
  std::map<uint64_t, T> by_pass_;
};

inline Tensor nothing() { return Tensor::empty({0}); }

}  // namespace fovea::nn
