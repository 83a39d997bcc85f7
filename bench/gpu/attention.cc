// One attention on the GPU, timed: inputs and outputs are files of float32 in a folder.
// bench/gpu.py runs it.
//
//   attention FOLDER additive|dot|bf16 B Lq Lk A Dv none|causal|lengths ROUNDS
//
// q.f32, k.f32, v.f32, d_context.f32 and, additive, u.f32 are read, context.f32, dq.f32, dk.f32,
// dv.f32 and du.f32 written; dot products are over √A, with bf16 of tensors of bf16; lengths of
// batch element b are Lk − (b·Lk/2)/B. Prints one line of JSON.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "fovea/error.h"
#include "kernels/open.h"

namespace fovea {
namespace {

struct Sizes {
  kernels::Family family;
  bool bf16;
  int64_t B, Lq, Lk, A, Dv;
};

class Bench {
 public:
  Bench(std::string folder, const Sizes& s, std::string mask)
      : folder_(std::move(folder)), s_(s), mask_(std::move(mask)) {
    p_ = {.B = s.B, .H = 1, .Hk = 1, .Lq = s.Lq, .Lk = s.Lk, .D = s.A, .Dv = s.Dv};
    p_.family = s.family;
    if (!additive()) p_.scale = 1.0f / std::sqrt(static_cast<float>(s.A));
    const float* const q = read("q", s.B * s.Lq * s.A);
    const float* const k = read("k", s.B * s.Lk * s.A);
    const float* const v = read("v", s.B * s.Lk * s.Dv);
    const float* const d_context = read("d_context", s.B * s.Lq * s.Dv);
    if (additive()) p_.u = read("u", s.A);
    context_ = empty(s.B * s.Lq * s.Dv);
    stat_ = empty(s.B * s.Lq);
    dq_ = empty(s.B * s.Lq * s.A);
    dk_ = empty(s.B * s.Lk * s.A);
    dv_ = empty(s.B * s.Lk * s.Dv);
    if (additive()) du_ = empty(s.A);
    out_.stat = stat_;
    g_.stat = stat_;
    g_.du = du_;
    if (s.bf16) {
      p_.q16 = {rows(narrow(q, s.B * s.Lq * s.A), s.Lq, s.A)};
      p_.k16 = {rows(narrow(k, s.B * s.Lk * s.A), s.Lk, s.A)};
      p_.v16 = {rows(narrow(v, s.B * s.Lk * s.Dv), s.Lk, s.Dv)};
      g_.d_context16 = rows(narrow(d_context, s.B * s.Lq * s.Dv), s.Lq, s.Dv);
      out_.context16 = rows(halves(context_), s.Lq, s.Dv);
      g_.context16 = rows(const_cast<const uint16_t*>(halves(context_)), s.Lq, s.Dv);
      g_.dq16 = rows(halves(dq_), s.Lq, s.A);
      g_.dk16 = rows(halves(dk_), s.Lk, s.A);
      g_.dv16 = rows(halves(dv_), s.Lk, s.Dv);
    } else {
      p_.q = rows(q, s.Lq, s.A), p_.k = rows(k, s.Lk, s.A), p_.v = rows(v, s.Lk, s.Dv);
      g_.d_context = rows(d_context, s.Lq, s.Dv);
      out_.context = rows(context_, s.Lq, s.Dv);
      g_.context = rows(const_cast<const float*>(context_), s.Lq, s.Dv);
      g_.dq = rows(dq_, s.Lq, s.A);
      g_.dk = rows(dk_, s.Lk, s.A);
      g_.dv = rows(dv_, s.Lk, s.Dv);
    }
    make_mask();
  }

  void forward() { gpu_.attention_forward(p_, out_); }
  void both() {
    forward();
    gpu_.attention_backward(p_, g_);
  }

  // Bytes beyond inputs and outputs, at most at once.
  int64_t extra(const std::function<void()>& run) {
    gpu_.reset_peak();
    const int64_t before = gpu_.memory().in_use;
    run();
    gpu_.synchronize();
    return gpu_.memory().peak - before;
  }

  // The median time of one of several calls after one another, in microseconds.
  double time(const std::function<void()>& run, int rounds) {
    const auto seconds = [&](int n) {
      gpu_.synchronize();
      const auto start = std::chrono::steady_clock::now();
      for (int i = 0; i < n; ++i) run();
      gpu_.synchronize();
      return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    };
    seconds(3);
    const int n = std::clamp(static_cast<int>(0.02 / (seconds(10) / 10)), 3, 1000);
    std::vector<double> times;
    for (int r = 0; r < rounds; ++r) times.push_back(seconds(n) / n * 1e6);
    std::sort(times.begin(), times.end());
    return times[times.size() / 2];
  }

  std::vector<char> outputs() {
    std::vector<char> all;
    for (const auto& [name, data, n] : results()) {
      const size_t at = all.size(), bytes = n * (s_.bf16 ? sizeof(uint16_t) : sizeof(float));
      all.resize(at + bytes);
      gpu_.download(all.data() + at, data, bytes);
    }
    return all;
  }
  void write() {
    for (const auto& [name, data, n] : results()) {
      const float* floats = data;
      if (s_.bf16) {
        float* const wide = empty(n);
        gpu_.kernels->bf16->widen(n, reinterpret_cast<const kernels::Bf16*>(data), wide);
        floats = wide;
      }
      std::vector<float> host(n);
      gpu_.download(host.data(), floats, n * sizeof(float));
      std::ofstream(folder_ + "/" + name + ".f32", std::ios::binary)
          .write(reinterpret_cast<const char*>(host.data()), n * sizeof(float));
    }
  }
  const char* device() { return gpu_.device_name(); }

 private:
  struct Result {
    const char* name;
    const float* data;
    int64_t n;
  };
  std::vector<Result> results() const {
    std::vector<Result> all = {{"context", context_, s_.B * s_.Lq * s_.Dv},
                               {"dq", dq_, s_.B * s_.Lq * s_.A},
                               {"dk", dk_, s_.B * s_.Lk * s_.A},
                               {"dv", dv_, s_.B * s_.Lk * s_.Dv}};
    if (additive()) all.push_back({"du", du_, s_.A});
    return all;
  }
  bool additive() const { return s_.family == kernels::Family::additive; }
  template <class T>
  static kernels::View<T> rows(T* data, int64_t L, int64_t width) {
    return {data, L * width, 0, width, 1};
  }
  static uint16_t* halves(float* x) { return reinterpret_cast<uint16_t*>(x); }
  const uint16_t* narrow(const float* x, int64_t n) {
    auto* const to = halves(empty(n));
    gpu_.kernels->bf16->narrow(n, x, reinterpret_cast<kernels::Bf16*>(to));
    return to;
  }
  float* empty(int64_t n) { return static_cast<float*>(gpu_.allocate(n * sizeof(float))); }
  const float* read(const std::string& name, int64_t n) {
    std::vector<float> host(n);
    std::ifstream file(folder_ + "/" + name + ".f32", std::ios::binary);
    file.read(reinterpret_cast<char*>(host.data()), n * sizeof(float));
    if (file.gcount() != n * static_cast<int64_t>(sizeof(float))) {
      throw Error("bench", folder_ + "/" + name + ".f32 has not " + std::to_string(n) + " floats");
    }
    float* const to = empty(n);
    gpu_.upload(to, host.data(), n * sizeof(float));
    return to;
  }
  void make_mask() {
    if (mask_ == "none") return;
    std::vector<int32_t> begin(s_.B * s_.Lq, 0), end;
    for (int64_t b = 0; b < s_.B; ++b) {
      for (int64_t i = 0; i < s_.Lq; ++i) {
        const int64_t length = s_.Lk - b * s_.Lk / 2 / s_.B;
        end.push_back(static_cast<int32_t>(mask_ == "causal" ? i + 1 : length));
      }
    }
    const auto bytes = begin.size() * sizeof(int32_t);
    auto* const from = static_cast<int32_t*>(gpu_.allocate(bytes));
    auto* const to = static_cast<int32_t*>(gpu_.allocate(bytes));
    gpu_.upload(from, begin.data(), bytes);
    gpu_.upload(to, end.data(), bytes);
    p_.begin = {from, s_.Lq, 0, 1, 0};
    p_.end = {to, s_.Lq, 0, 1, 0};
  }

  const cuda::Module& gpu_ = cuda::open_module();
  std::string folder_;
  Sizes s_;
  std::string mask_;
  kernels::AttentionProblem p_;
  kernels::AttentionResult out_;
  kernels::AttentionGradients g_;
  float *context_, *stat_, *dq_, *dk_, *dv_, *du_ = nullptr;
};

void run(char** argv) {
  const auto number = [&](int i) { return std::strtoll(argv[i], nullptr, 10); };
  const std::string asked = argv[2];
  const auto family = asked == "additive" ? kernels::Family::additive : kernels::Family::dot;
  Bench bench(argv[1],
              {family, asked == "bf16", number(3), number(4), number(5), number(6), number(7)},
              argv[8]);
  const int rounds = static_cast<int>(number(9));
  const auto forward = [&] { bench.forward(); };
  const auto both = [&] { bench.both(); };
  const int64_t extra_forward = bench.extra(forward), extra_both = bench.extra(both);
  const std::vector<char> once = bench.outputs();
  both();
  const bool same = once == bench.outputs();
  bench.write();
  const double f = bench.time(forward, rounds), fb = bench.time(both, rounds);
  std::printf(
      "{\"device\": \"%s\", \"forward_us\": %.2f, \"both_us\": %.2f, "
      "\"forward_bytes\": %lld, \"both_bytes\": %lld, \"same_bits\": %s}\n",
      bench.device(), f, fb, static_cast<long long>(extra_forward),
      static_cast<long long>(extra_both), same ? "true" : "false");
}

}  // namespace
}  // namespace fovea

int main(int argc, char** argv) {
  if (argc != 10) {
    std::fprintf(stderr,
                 "attention FOLDER additive|dot|bf16 B Lq Lk A Dv none|causal|lengths ROUNDS\n");
    return 2;
  }
  try {
    fovea::run(argv);
  } catch (const fovea::Error& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
  return 0;
}
