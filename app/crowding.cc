#include "app/crowding.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <mutex>
#include <utility>

namespace fovea::app {
namespace {

constexpr auto kWhile = std::chrono::milliseconds(20);
constexpr double kCrowded = 0.3;  // the share of a while that threads stood in the queue
constexpr auto kShortest = std::chrono::milliseconds(50), kLongest = std::chrono::milliseconds(800);

// "ns on a CPU, ns in its queue, times on one"
class QueueTime {
 public:
  ~QueueTime() {
    if (file_ >= 0) ::close(file_);
  }
  int64_t since_last() {
    if (const pid_t here = ::getpid(); here != process_) {  // a forked child has its own
      if (file_ >= 0) ::close(file_);
      file_ = ::open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
      process_ = here;
      last_ = read();
    }
    const int64_t before = last_;
    last_ = read();
    return last_ - before;
  }

 private:
  int64_t read() const {
    char text[96];
    const ssize_t n = file_ < 0 ? -1 : ::pread(file_, text, sizeof text - 1, 0);
    if (n <= 0) return 0;
    text[n] = '\0';
    long long running = 0, queued = 0;
    return std::sscanf(text, "%lld %lld", &running, &queued) == 2 ? queued : 0;
  }

  int file_ = -1;
  pid_t process_ = -1;
  int64_t last_ = 0;
};

// A crowd that any thread looks at.
class Watch {
 public:
  // What the calling thread stood in the queue, now and then.
  void note() {
    constexpr auto kBetween = std::chrono::milliseconds(2);
    thread_local Crowding::Time noted{};
    const Crowding::Time now = std::chrono::steady_clock::now();
    if (now - noted < kBetween) return;
    crowding_.note(queued_since_last());
    noted = now;
  }
  int allowed(int team) {
    const std::lock_guard lock(asking_);
    return crowding_.allowed(team, std::chrono::steady_clock::now());
  }

 private:
  std::mutex asking_;
  Crowding crowding_;
};

}  // namespace

int64_t queued_since_last() {
  thread_local QueueTime time;
  return time.since_last();
}

int Crowding::allowed(int team, Time now) {
  const auto used = [&] { return limit_ > 0 ? std::min(team, limit_) : team; };
  if (now - since_ < kWhile) return used();
  const auto queued = static_cast<double>(queued_.exchange(0, std::memory_order_relaxed));
  const std::chrono::duration<double, std::nano> passed = now - since_;
  const bool crowded = used() > 1 && queued > kCrowded * used() * passed.count();
  since_ = now;
  if (crowded && limit_ == 0) {
    limited_for_ = std::clamp(limited_for_ * 2, kShortest, kLongest);
    limited_until_ = now + limited_for_;
  }
  if (crowded) {
    limit_ = used() / 2;
  } else if (limit_ == 0) {
    limited_for_ = {};
  } else if (now >= limited_until_) {
    limit_ = 0;
  }
  return used();
}

Executor considerate(Executor own) {
  const auto watch = std::make_shared<Watch>();
  const auto run = [watch, of_own = own.run](int64_t n, const std::function<void(int64_t)>& body) {
    watch->note();
    const int64_t team = watch->allowed(static_cast<int>(n));
    if (team > 1) {
      of_own(team, [&](int64_t i) {
        watch->note();
        body(i);
      });
    }
    for (int64_t i = team > 1 ? team : 0; i < n; ++i) body(i);
  };
  return {std::move(own.threads), run};
}

}  // namespace fovea::app
