#pragma once

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "team/team.h"

// A team of threads of this process, for tests that need no launcher.
namespace fovea::team::tests {

class Threads {
 public:
  explicit Threads(int size) : posted_(static_cast<size_t>(size)) {}

  // work(team) on each rank; what each threw.
  std::vector<std::exception_ptr> run(const std::function<void(Team&)>& work) {
    std::vector<std::exception_ptr> thrown(posted_.size());
    std::vector<std::thread> threads;
    for (size_t r = 0; r < posted_.size(); ++r) {
      threads.emplace_back([&, r] {
        Member member(*this, static_cast<int>(r));
        try {
          work(member);
        } catch (...) {
          thrown[r] = std::current_exception();
        }
      });
    }
    for (std::thread& t : threads) t.join();
    return thrown;
  }

 private:
  class Member : public Team {
   public:
    Member(Threads& all, int rank) : Team(rank, static_cast<int>(all.posted_.size())), all_(all) {}
    void exchange(std::span<const ConstBytes> send, std::span<const Bytes> received) override {
      const size_t me = static_cast<size_t>(rank());
      all_.posted_[me].assign(send.begin(), send.end());
      all_.wait();
      for (size_t r = 0; r < received.size(); ++r) {
        const ConstBytes from = all_.posted_[r][me];
        if (from.size() != received[r].size()) std::terminate();  // the two sides disagree
        std::ranges::copy(from, received[r].begin());
      }
      all_.wait();
    }
    void abort(int) noexcept override { std::terminate(); }

   private:
    Threads& all_;
  };

  void wait() {
    std::unique_lock lock(mutex_);
    const int64_t turn = turn_;
    if (++here_ == static_cast<int64_t>(posted_.size())) {
      here_ = 0;
      ++turn_;
      come_.notify_all();
    } else {
      come_.wait(lock, [&] { return turn_ != turn; });
    }
  }

  std::vector<std::vector<ConstBytes>> posted_;
  std::mutex mutex_;
  std::condition_variable come_;
  int64_t here_ = 0, turn_ = 0;
};

// "Elsewhere 2", the message of an Error, or nothing.
inline std::string told(const std::exception_ptr& thrown) {
  if (!thrown) return "";
  try {
    std::rethrow_exception(thrown);
  } catch (const Elsewhere& e) {
    return "Elsewhere " + std::to_string(e.exit_code);
  } catch (const std::exception& e) {
    return e.what();
  }
}

}  // namespace fovea::team::tests
