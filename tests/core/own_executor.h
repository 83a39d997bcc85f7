#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <thread>
#include <utility>
#include <vector>

#include "fovea/runtime.h"

namespace fovea {

// While it lives, work is run by threads that a program makes: n of them for each piece, which take
// what is next.
class OwnExecutor {
 public:
  explicit OwnExecutor(int n) {
    set_executor({[n] { return n; },
                  [this, n](int64_t pieces, const std::function<void(int64_t)>& body) {
                    ++runs;
                    std::atomic<int64_t> next{0};
                    const auto work = [&] {
                      for (int64_t i = next++; i < pieces; i = next++) body(i);
                    };
                    std::vector<std::thread> others;
                    for (int t = 1; t < n; ++t) others.emplace_back(work);
                    work();
                    for (std::thread& thread : others) thread.join();
                  }});
  }
  ~OwnExecutor() { set_executor({}); }
  OwnExecutor(const OwnExecutor&) = delete;
  OwnExecutor& operator=(const OwnExecutor&) = delete;

  std::atomic<int64_t> runs{0};
};

}  // namespace fovea
