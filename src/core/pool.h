#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>

namespace fovea {

// Threads that wait for work. They spin for some microseconds, as long as the gaps between two
// pieces of work are, then sleep: a core is never kept from whoever else has work for it. A caller
// waits only for those who have begun; who comes too late finds the door closed. Who finds itself
// on the caller's CPU moves to another: schedulers that pack light threads would leave both there.
class Pool {
 public:
  static Pool& instance();

  // Calls work(index) on the calling thread with index 0 and, meanwhile, on up to team − 1 others
  // with indices of their own, below team. work() must not throw. False, and nothing done, while it
  // serves another caller.
  bool run(int team, const std::function<void(int)>& work);

 private:
  void grow(int workers);
  void serve(int index);
  bool enter(int index, uint32_t& seen);
  void leave();
  void close_and_wait();

  std::atomic<bool> taken_{false};
  // What is going on: its number, how many threads it may have, whether one may still enter, and
  // how many workers are inside. One word, so that entering and closing exclude each other.
  std::atomic<uint64_t> door_{0};
  const std::function<void(int)>* work_ = nullptr;  // read inside only
  std::atomic<uint32_t> bell_{0};                   // rung for those who sleep
  std::atomic<uint32_t> last_out_{0};               // rung for a caller who sleeps
  std::atomic<int> caller_cpu_{-1};
  std::atomic<int> workers_{0};
  std::mutex growing_;
};

}  // namespace fovea
