// Products, and a gru's steps with their products, against float64.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "there.h"

namespace fovea::test {
namespace {

using kernels::Gemm;
using kernels::GruWhole;
using kernels::GruWholeGradient;
using std::vector;

constexpr double kFloat32 = 2e-6;  // ‖x − y‖ / ‖y‖

const kernels::Kernels& gpu() { return *cuda::open_module().kernels; }
struct ProductCase {
  int64_t m, n, k;
  bool by_k;         // B as weights are kept, k next to each other
  int64_t more = 0;  // of each row, beside the matrix
  bool bias = true, plus = true;
  float alpha = 1.0f;
  bool a_by_row = false;  // A with rows next to each other
};
std::string name_of(const testing::TestParamInfo<ProductCase>& info) {
  const ProductCase& c = info.param;
  return std::to_string(c.m) + "x" + std::to_string(c.n) + "x" + std::to_string(c.k) +
         (c.by_k ? "_by_k" : "_by_column") + (c.a_by_row ? "_a_by_row" : "") +
         (c.more ? "_more" : "") + (c.bias ? "" : "_bare");
}

class Products : public testing::TestWithParam<ProductCase> {};

TEST_P(Products, LikeFloat64) {
  const ProductCase& c = GetParam();
  const int64_t a_row = c.a_by_row ? 1 : c.k + c.more, a_col = c.a_by_row ? c.m + c.more : 1;
  const int64_t b_row = c.by_k ? 1 : c.n + c.more;
  const int64_t b_col = c.by_k ? c.k + c.more : 1, c_row = c.n + c.more;
  const There a = There::random(c.a_by_row ? c.k * a_col : c.m * a_row, 1);
  const There b = There::random(c.by_k ? c.n * b_col : c.k * b_row, 2);
  const There bias = There::random(c.n, 3), out = There::random(c.m * c_row, 4);
  const Gemm g{.m = c.m,
               .n = c.n,
               .k = c.k,
               .a = a.data(),
               .a_row = a_row,
               .a_col = a_col,
               .b = b.data(),
               .b_row = b_row,
               .b_col = b_col,
               .c = out.data(),
               .c_row = c_row,
               .alpha = c.alpha,
               .bias = c.bias ? bias.data() : nullptr,
               .plus = c.plus ? out.data() : nullptr,
               .plus_row = c_row};
  gpu().gemm(g);
  const vector<float> is = out.now();
  vector<float> inside;
  vector<double> should;
  for (int64_t r = 0; r < c.m; ++r) {
    for (int64_t j = 0; j < c_row; ++j) {
      const float before = out.here()[r * c_row + j];
      if (j >= c.n) {
        ASSERT_EQ(is[r * c_row + j], before) << "beside the matrix, row " << r;
        continue;
      }
      double sum = 0.0;
      for (int64_t k = 0; k < c.k; ++k) {
        sum += double{a.here()[r * a_row + k * a_col]} * b.here()[k * b_row + j * b_col];
      }
      should.push_back(c.alpha * sum + (c.bias ? bias.here()[j] : 0.0f) + (c.plus ? before : 0.0f));
      inside.push_back(is[r * c_row + j]);
    }
  }
  EXPECT_LE(distance(inside, should), kFloat32);
}

INSTANTIATE_TEST_SUITE_P(
    Sizes, Products,
    testing::Values(ProductCase{64, 512, 512, true}, ProductCase{64, 512, 1536, false},
                    ProductCase{64, 1024, 1536, false}, ProductCase{64, 1536, 1024, true, 512},
                    ProductCase{16, 40, 128, true, 4}, ProductCase{17, 44, 144, false, 8},
                    ProductCase{65, 37, 160, true}, ProductCase{128, 100, 272, false},
                    ProductCase{33, 96, 2048, true, 0, false, false},
                    ProductCase{64, 2048, 512, true, 0, false, true, 0.5f},
                    ProductCase{63, 36, 1040, false, 4, true, false},
                    ProductCase{260, 132, 100, true}, ProductCase{300, 200, 516, false, 4},
                    ProductCase{128, 64, 2048, true, 0, false, false},
                    ProductCase{192, 100, 1924, false, 0, false, false, 1.0f, true},
                    ProductCase{516, 72, 320, false, 8, true, true, 0.5f, true},
                    ProductCase{1000, 640, 68, true, 4}),
    name_of);

TEST(ProductsOnce, TheSameBitsTwice) {
  for (const int64_t m : {64, 384}) {
    const There a = There::random(m * 1536, 1), b = There::random(1536 * 512, 2);
    const There one = There::unwritten(m * 512), two = There::unwritten(m * 512);
    for (const There* to : {&one, &two}) {
      gpu().gemm({.m = m,
                  .n = 512,
                  .k = 1536,
                  .a = a.data(),
                  .a_row = 1536,
                  .b = b.data(),
                  .b_row = 512,
                  .c = to->data(),
                  .c_row = 512});
    }
    EXPECT_EQ(one.now(), two.now()) << m;
  }
}

// ---- gru ----------------------------------------------------------------------------------------

double sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }

struct GruCase {
  int64_t B, H, F;  // F: width of what is fed; 0: nothing
  int64_t width;    // of the states' rows
  int directions = 1;
  bool first = false;   // no state's product
  bool active = false;  // some rows are not
};
std::string name_of_gru(const testing::TestParamInfo<GruCase>& info) {
  const GruCase& c = info.param;
  return std::to_string(c.B) + "x" + std::to_string(c.H) + "_fed" + std::to_string(c.F) + "_" +
         std::to_string(c.directions) + (c.first ? "_first" : "") + (c.active ? "_active" : "");
}

// [B,N]: a [B,k] by rows of `step`, times weights [N,k].
vector<double> times(const vector<float>& a, int64_t step, const vector<float>& w, int64_t B,
                     int64_t N, int64_t k) {
  vector<double> y(static_cast<size_t>(B * N));
  for (int64_t r = 0; r < B; ++r) {
    for (int64_t n = 0; n < N; ++n) {
      for (int64_t i = 0; i < k; ++i) y[r * N + n] += double{a[r * step + i]} * w[n * k + i];
    }
  }
  return y;
}

vector<uint8_t> activity(int64_t B) {
  vector<uint8_t> active(static_cast<size_t>(B));
  for (int64_t r = 0; r < B; ++r) active[r] = r % 3 != 1;
  return active;
}

class Bools {
 public:
  explicit Bools(const vector<uint8_t>& values)
      : block_(cuda::open_module().allocate(values.size())) {
    cuda::open_module().upload(block_, values.data(), values.size());
  }
  ~Bools() { cuda::open_module().give_back(block_); }
  Bools(const Bools&) = delete;
  Bools& operator=(const Bools&) = delete;
  const uint8_t* data() const { return static_cast<const uint8_t*>(block_); }

 private:
  void* block_;
};

class GruSteps : public testing::TestWithParam<GruCase> {};

TEST_P(GruSteps, ForwardLikeFloat64) {
  const GruCase& c = GetParam();
  const int64_t B = c.B, H = c.H, G = 3 * H;
  const vector<uint8_t> active = c.active ? activity(B) : vector<uint8_t>(B, 1);
  const Bools there(active);
  struct One {
    There x, w, w_fed, fed, bias, h, h_next, kept;
  };
  vector<std::unique_ptr<One>> all;
  vector<GruWhole> steps;
  for (int d = 0; d < c.directions; ++d) {
    const uint64_t s = 10 * d;
    all.emplace_back(new One{There::random(B * G, s + 1), There::random(G * H, s + 2, 0.05f),
                             There::random(G * std::max<int64_t>(c.F, 1), s + 3, 0.05f),
                             There::random(B * std::max<int64_t>(c.F, 1), s + 4),
                             There::random(G, s + 5), There::random(B * c.width, s + 6),
                             There::unwritten(B * c.width), There::unwritten(B * 4 * H)});
    const One& o = *all.back();
    steps.push_back(
        {.rows = {B, H, c.active ? there.data() : nullptr, c.width},
         .step = {o.x.data(), nullptr, o.h.data(), o.h_next.data(), o.kept.data()},
         .fed = {.a = o.fed.data(), .a_row = c.F, .k = c.F, .w = o.w_fed.data(), .w_row = c.F},
         .state =
             {.a = o.h.data(), .a_row = c.width, .k = c.first ? 0 : H, .w = o.w.data(), .w_row = H},
         .bias = o.bias.data()});
  }
  gpu().gru_whole(steps);
  for (const auto& one : all) {
    const One& o = *one;
    const vector<float>&x = o.x.here(), &h = o.h.here();
    const vector<double> fed = times(o.fed.here(), c.F, o.w_fed.here(), B, G, c.F);
    const vector<double> state = times(h, c.width, o.w.here(), B, G, c.first ? 0 : H);
    const vector<float> h_next = o.h_next.now(), kept = o.kept.now();
    vector<double> should, should_keep;
    vector<float> is, is_kept;
    for (int64_t r = 0; r < B; ++r) {
      for (int64_t i = 0; i < H; ++i) {
        const auto gate = [&](int64_t g) { return x[r * G + g * H + i] + fed[r * G + g * H + i]; };
        const auto own = [&](int64_t g) {
          return state[r * G + g * H + i] + o.bias.here()[g * H + i];
        };
        const double reset = sigmoid(gate(0) + own(0)), z = sigmoid(gate(1) + own(1));
        const double n = std::tanh(gate(2) + reset * own(2)), before = h[r * c.width + i];
        should.push_back(active[r] ? (1.0 - z) * n + z * before : before);
        is.push_back(h_next[r * c.width + i]);
        if (!active[r]) continue;
        const double by_gate[] = {reset, z, n, own(2)};
        for (int64_t g = 0; g < 4; ++g) {
          should_keep.push_back(by_gate[g]);
          is_kept.push_back(kept[r * 4 * H + g * H + i]);
        }
      }
      for (int64_t i = H; i < c.width; ++i) {
        ASSERT_EQ(h_next[r * c.width + i], There::kUnwritten) << "beside the state, row " << r;
      }
    }
    EXPECT_LE(distance(is, should), kFloat32);
    EXPECT_LE(distance(is_kept, should_keep), kFloat32);
  }
}

TEST_P(GruSteps, BackwardLikeFloat64) {
  const GruCase& c = GetParam();
  const int64_t B = c.B, H = c.H, G = 3 * H;
  const vector<uint8_t> active = c.active ? activity(B) : vector<uint8_t>(B, 1);
  const Bools there(active);
  struct One {
    There after, w, kept, h, d_out, dh, dx, du;
  };
  vector<std::unique_ptr<One>> all;
  vector<GruWholeGradient> steps;
  for (int d = 0; d < c.directions; ++d) {
    const uint64_t s = 10 * d;
    all.emplace_back(new One{There::random(B * G, s + 1), There::random(G * H, s + 2, 0.05f),
                             There::random(B * 4 * H, s + 3, 0.4f),
                             There::random(B * c.width, s + 4), There::random(B * c.width, s + 5),
                             There::random(B * H, s + 6), There::unwritten(B * G),
                             There::unwritten(B * G)});
    const One& o = *all.back();
    steps.push_back({.rows = {B, H, c.active ? there.data() : nullptr, c.width},
                     .after = c.first ? nullptr : o.after.data(),
                     .w = o.w.data(),
                     .w_row = H,
                     .step = {o.kept.data(), o.h.data(), o.d_out.data(), o.dh.data(), o.dx.data(),
                              o.du.data(), o.dh.data()}});
  }
  gpu().gru_whole_backward(steps);
  for (const auto& one : all) {
    const One& o = *one;
    vector<double> dx(B * G), du(B * G), dh(B * H);
    for (int64_t r = 0; r < B; ++r) {
      for (int64_t i = 0; i < H; ++i) {
        double up = o.dh.here()[r * H + i];
        for (int64_t k = 0; k < G && !c.first; ++k) {
          up += double{o.after.here()[r * G + k]} * o.w.here()[k * H + i];
        }
        dh[r * H + i] = up;
        if (!active[r]) continue;
        up += o.d_out.here()[r * c.width + i];
        const auto kept = [&](int64_t g) { return double{o.kept.here()[r * 4 * H + g * H + i]}; };
        const double reset = kept(0), z = kept(1), n = kept(2);
        const double dn = up * (1.0 - z) * (1.0 - n * n);
        const double dz = up * (o.h.here()[r * c.width + i] - n) * z * (1.0 - z);
        const double dr = dn * kept(3) * reset * (1.0 - reset);
        dx[r * G + i] = du[r * G + i] = dr;
        dx[r * G + H + i] = du[r * G + H + i] = dz;
        dx[r * G + 2 * H + i] = dn;
        du[r * G + 2 * H + i] = dn * reset;
        dh[r * H + i] = up * z;
      }
    }
    EXPECT_LE(distance(o.dx.now(), dx), kFloat32);
    EXPECT_LE(distance(o.du.now(), du), kFloat32);
    EXPECT_LE(distance(o.dh.now(), dh), kFloat32);
  }
}

INSTANTIATE_TEST_SUITE_P(Cells, GruSteps,
                         testing::Values(GruCase{64, 512, 1024, 512}, GruCase{64, 512, 0, 1024, 2},
                                         GruCase{64, 512, 0, 1024, 2, true},
                                         GruCase{5, 48, 32, 48, 1, false, true},
                                         GruCase{70, 64, 16, 80, 2, false, true},
                                         GruCase{1, 32, 0, 32}, GruCase{130, 40, 24, 40},
                                         GruCase{9, 20, 7, 23, 2, false, true}),
                         name_of_gru);

// ---- sums down columns, and copies --------------------------------------------------------------

TEST(Columns, SumLikeFloat64) {
  for (const auto& [rows, columns] : {std::pair{1920, 1000}, {65, 37}, {7, 4000}, {1000, 9}}) {
    const There x = There::random(int64_t{rows} * columns, 1), y = There::unwritten(columns);
    const int64_t kept = columns, reduced = rows, one = 1, step = columns;
    gpu().reduce(kernels::Reduce::sum, {{&kept, 1}, &one}, {{&reduced, 1}, &step}, x.data(),
                 y.data());
    vector<double> should(columns);
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t c = 0; c < columns; ++c) should[c] += x.here()[r * columns + c];
    }
    EXPECT_LE(distance(y.now(), should), 1e-7) << rows << " rows of " << columns;
  }
}

TEST(Copies, AllAtOnce) {
  const There x = There::random(10000, 1), y = There::unwritten(10000);
  vector<kernels::Copy> copies;
  int64_t at = 0;
  for (int64_t i = 0; i < 100; ++i) {
    const int64_t n = i % 7 * 9 + (i % 5 == 0 ? 64 : 1);
    copies.push_back({x.data() + at, y.data() + at, n * 4});
    at += n + i % 3;  // some lie between
  }
  gpu().copy_all(copies);
  vector<float> should(10000, There::kUnwritten);
  for (const kernels::Copy& c : copies) {
    const int64_t first = static_cast<const float*>(c.from) - x.data();
    std::copy_n(x.here().begin() + first, c.bytes / 4, should.begin() + first);
  }
  EXPECT_EQ(y.now(), should);
}

}  // namespace
}  // namespace fovea::test
