#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

// What this machine can do at best, measured: the floors that results are held against.
namespace fovea::bench {

#if defined(__x86_64__)
#define FOVEA_BENCH_CLONES __attribute__((target_clones("avx512f", "fma", "default")))
#else
#define FOVEA_BENCH_CLONES
#endif

using Lanes = float __attribute__((vector_size(64)));
inline constexpr int kChains = 16;  // enough to hide the latency of a fused multiply-add
inline constexpr int64_t kFmasPerBlock = 20'000;

inline double now_seconds() {
  using Clock = std::chrono::steady_clock;
  return std::chrono::duration<double>(Clock::now().time_since_epoch()).count();
}

// kChains independent chains x ← x·m + a, held in registers.
FOVEA_BENCH_CLONES inline float fma_block(float m, float a) {
  const Lanes mm = m - Lanes{}, aa = a - Lanes{};
  Lanes x[kChains];
  for (int c = 0; c < kChains; ++c) x[c] = aa * static_cast<float>(c);
  for (int64_t i = 0; i < kFmasPerBlock; ++i) {
#pragma GCC unroll 16
    for (int c = 0; c < kChains; ++c) x[c] = x[c] * mm + aa;
  }
  float sum = 0;
  for (int c = 0; c < kChains; ++c) sum += x[c][c];
  return sum;
}

// Reads every cache line of n bytes (a multiple of 512).
FOVEA_BENCH_CLONES inline float read_block(const float* data, int64_t bytes) {
  Lanes sum[8] = {};
  const int64_t stride = static_cast<int64_t>(sizeof(Lanes) / sizeof(float));
  for (int64_t i = 0; i < bytes / static_cast<int64_t>(sizeof(float)); i += 8 * stride) {
#pragma GCC unroll 8
    for (int c = 0; c < 8; ++c) {
      Lanes x;
      std::memcpy(&x, data + i + c * stride, sizeof x);
      sum[c] += x;
    }
  }
  float total = 0;
  for (int c = 0; c < 8; ++c) total += sum[c][c];
  return total;
}

// Units a second: of the bursts at the end, which are as good as the best or nearly, and of the
// worst. `stable`: there was such an end.
struct Rate {
  double best = 0, lowest = 0;
  bool stable = false;
};

inline constexpr int kAlike = 5, kMostBursts = 60;  // bursts
inline constexpr double kNear = 0.02;               // of the best

// Units a second of work(thread), summed over threads that start together: bursts until the last
// few are near the best, since a clock takes a while to rise and another program may take a core.
// `work` returns how many units it did; it is repeated for `seconds`.
template <class Work>
Rate best_rate(int threads, double seconds, Work work) {
  Rate rate;
  int alike = 0;
  for (int burst = 0; burst < kMostBursts && alike < kAlike; ++burst) {
    std::atomic<int> ready{0};
    std::vector<double> rates(static_cast<size_t>(threads));
    const auto body = [&](int t) {
      ++ready;
      while (ready < threads) {
      }
      const double start = now_seconds();
      double units = 0, stop = start;
      while (stop - start < seconds) {
        units += work(t);
        stop = now_seconds();
      }
      rates[static_cast<size_t>(t)] = units / (stop - start);
    };
    std::vector<std::thread> team;
    for (int t = 1; t < threads; ++t) team.emplace_back(body, t);
    body(0);
    for (std::thread& t : team) t.join();
    double sum = 0;
    for (double of_thread : rates) sum += of_thread;
    if (sum > rate.best * (1 + kNear)) alike = 0;  // what seemed the best was not
    rate.best = std::max(rate.best, sum);
    rate.lowest = burst == 0 ? sum : std::min(rate.lowest, sum);
    alike = sum >= rate.best * (1 - kNear) ? alike + 1 : 0;
  }
  rate.stable = alike >= kAlike;
  return rate;
}

// fp32 FLOP a second of all threads together; an FMA counts two.
inline Rate fma_peak(int threads) {
  volatile float sink = 0;
  return best_rate(threads, 0.02, [&sink](int) {
    sink = fma_block(0.999f, 1e-3f);
    return 2.0 * kChains * static_cast<double>(sizeof(Lanes) / sizeof(float)) *
           static_cast<double>(kFmasPerBlock);
  });
}

// Bytes a second when `bytes` are read again and again by all threads, each its own part: memory
// bandwidth, or that of whichever cache they fit in.
inline Rate read_bandwidth(int threads, int64_t bytes) {
  const int64_t part = std::max<int64_t>(4096, bytes / threads / 4096 * 4096);
  std::vector<float> data(static_cast<size_t>(part * threads) / sizeof(float), 1.0f);
  volatile float sink = 0;
  return best_rate(threads, 0.05, [&](int t) {
    sink = read_block(data.data() + t * part / static_cast<int64_t>(sizeof(float)), part);
    return static_cast<double>(part);
  });
}

// A line of /proc/self/status in bytes: "VmRSS", "VmHWM"; 0 where there is no such file.
inline int64_t status_bytes(const std::string& field) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.rfind(field + ":", 0) == 0) return std::stoll(line.substr(field.size() + 1)) * 1024;
  return 0;
}

inline void reset_resident_peak() { std::ofstream("/proc/self/clear_refs") << "5"; }

}  // namespace fovea::bench
