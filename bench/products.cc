// Times gemm() on the shapes of docs/kernels.md: products SHAPES... with shapes as
// 1920x512x10000:NN (m×n×k; T where columns lie in memory; :NT:bf16, f16 or i8 where B is kept so),
// or those below. GFLOP/s beside what the cores can do at best; of few rows bytes/s of B, which is
// not in a cache, beside a plain read.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "core/allocator.h"
#include "core/threads.h"
#include "kernels/gemm.h"
#include "machine.h"

namespace {

using fovea::Buffer;
using fovea::kernels::Gemm;
using fovea::kernels::Number;

struct Shape {
  int64_t m, n, k;
  char a, b;
  Number type = Number::f32;
};

constexpr int64_t kFewRows = 4;
constexpr int64_t kOutOfCache = int64_t{96} << 20;  // bytes
constexpr const char* kTypes[] = {"f32", "bf16", "f16", "i8"};
constexpr double kSeconds = 0.4;

const std::vector<Shape> kShapes = {
    {1920, 10000, 512, 'N', 'T'},
    {1920, 512, 10000, 'N', 'N'},
    {10000, 512, 1920, 'T', 'N'},
    {1920, 1536, 512, 'N', 'T'},
    {1920, 512, 1536, 'N', 'N'},
    {1536, 512, 1920, 'T', 'N'},
    {4096, 1536, 384, 'N', 'T'},
    {4096, 384, 1536, 'N', 'N'},
    {1536, 384, 4096, 'T', 'N'},
    {384, 384, 8192, 'T', 'N'},
    {64, 1536, 512, 'N', 'N'},
    {64, 1536, 512, 'N', 'T'},
    {110, 768, 256, 'N', 'N'},
    {900, 256, 512, 'N', 'T'},
    {16, 1536, 512, 'N', 'T'},
    {8, 1536, 512, 'N', 'T'},
    {1024, 1024, 1024, 'T', 'T'},
    {1, 768, 768, 'N', 'T'},
    {1, 3072, 768, 'N', 'T'},
    {1, 50257, 768, 'N', 'T'},
    {2, 3072, 768, 'N', 'T'},
    {4, 3072, 768, 'N', 'T'},
    {1, 3072, 768, 'N', 'N'},
    {1, 3072, 768, 'N', 'T', Number::bf16},
    {1, 3072, 768, 'N', 'T', Number::f16},
    {1, 3072, 768, 'N', 'T', Number::i8},
    {512, 3072, 768, 'N', 'T'},
    {512, 3072, 768, 'N', 'T', Number::bf16},
    {512, 3072, 768, 'N', 'T', Number::i8},
};

// Seconds of a call: the first quartile of many.
double seconds(const Shape& s) {
  const int64_t weights = s.n * s.k * size_of(s.type);  // bytes
  const int64_t copies = s.m > kFewRows ? 1 : std::max<int64_t>(1, kOutOfCache / weights);
  const Buffer<float> a(s.m * s.k), c(s.m * s.n), scale(s.n);
  const Buffer<uint8_t> b(weights * copies);
  for (int64_t i = 0; i < a.size(); ++i) a[i] = static_cast<float>(i % 7) - 3.0f;
  for (int64_t i = 0; i < b.size(); ++i) b[i] = i % 2 == 0 ? 0 : static_cast<uint8_t>(60 + i % 5);
  std::fill_n(scale.data(), s.n, 1.0f);
  Gemm g{.m = s.m, .n = s.n, .k = s.k, .a = a.data(), .c = c.data(), .c_row = s.n};
  (s.a == 'N' ? g.a_row : g.a_col) = s.a == 'N' ? s.k : s.m;
  (s.a == 'N' ? g.a_col : g.a_row) = 1;
  (s.b == 'N' ? g.b_row : g.b_col) = s.b == 'N' ? s.n : s.k;
  (s.b == 'N' ? g.b_col : g.b_row) = 1;
  g.b_type = s.type;
  if (s.type == Number::i8) {
    g.b_scale = scale.data();
    (s.b == 'T' ? g.scale_col : g.scale_row) = 1;
  }
  std::vector<double> times;
  const double start = fovea::bench::now_seconds();
  for (double last = start; last < start + kSeconds || times.size() < 5;) {
    g.b = b.data() + static_cast<int64_t>(times.size()) % copies * weights;
    fovea::kernels::gemm(g);
    const double stop = fovea::bench::now_seconds();
    times.push_back(stop - last);
    last = stop;
  }
  const auto quartile = times.begin() + static_cast<int64_t>(times.size()) / 4;
  std::nth_element(times.begin(), quartile, times.end());
  return *quartile;
}

Shape parse(const char* text) {
  Shape s{};
  long long m = 0, n = 0, k = 0;
  char type[8] = "f32";
  if (std::sscanf(text, "%lldx%lldx%lld:%c%c:%7s", &m, &n, &k, &s.a, &s.b, type) < 5) {
    fmt::print(stderr, "products: {}, expected MxNxK:NN or MxNxK:NN:TYPE\n", text);
    std::exit(2);
  }
  for (int t = 0; t < 4; ++t) {
    if (std::string(type) == kTypes[t]) s.type = static_cast<Number>(t);
  }
  s.m = m, s.n = n, s.k = k;
  return s;
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<Shape> shapes = argc > 1 ? std::vector<Shape>() : kShapes;
  for (int i = 1; i < argc; ++i) shapes.push_back(parse(argv[i]));
  const int team = fovea::threads();
  const double flops = fovea::bench::fma_peak(team).best;
  const double bytes = fovea::bench::read_bandwidth(team, kOutOfCache).best;
  fmt::print("{} threads: {:.0f} GFLOP/s, {:.1f} GB/s at best\n", team, flops / 1e9, bytes / 1e9);
  for (const Shape& s : shapes) {
    const double t = seconds(s);
    const double work = 2.0 * static_cast<double>(s.m * s.n * s.k);
    const auto read = static_cast<double>(s.n * s.k * size_of(s.type));
    fmt::print("{:>5} {:>5} {:>5} {}{} {:>4} {:8.1f} GFLOP/s {:4.0f} %", s.m, s.n, s.k, s.a, s.b,
               kTypes[static_cast<int>(s.type)], work / t / 1e9, 100 * work / t / flops);
    if (s.m <= kFewRows)
      fmt::print(" {:8.1f} GB/s {:4.0f} %", read / t / 1e9, 100 * read / t / bytes);
    fmt::print("\n");
    std::fflush(stdout);
  }
}
