#include "kernels/recurrent.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <vector>

#include "core/random.h"
#include "core/threads.h"
#include "fovea/runtime.h"

namespace fovea::kernels {
namespace {

using Numbers = std::vector<double>;
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr int64_t kRows = 4, kHidden = 37, kStep = 40;  // rows of h have a margin
const std::vector<uint8_t> kActive = {1, 0, 1, 1};

double logistic(double x) { return 1.0 / (1.0 + std::exp(-x)); }

// What a cell reads and writes, dense, and its formula for one row in double.
struct Model {
  const char* name;
  int64_t gates;
  bool has_x, has_c;
  // (x, u, h, c) of one row, H = kHidden → (h', c')
  std::function<void(const double* x, const double* u, const double* h, const double* c,
                     double* h_next, double* c_next)>
      row;
};

const Model kModels[] = {
    {"rnn", 1, false, false,
     [](auto*, auto* u, auto*, auto*, double* h_next, double*) {
       for (int64_t j = 0; j < kHidden; ++j) h_next[j] = std::tanh(u[j]);
     }},
    {"gru", 3, true, false,
     [](auto* x, auto* u, auto* h, auto*, double* h_next, double*) {
       for (int64_t j = 0; j < kHidden; ++j) {
         const double r = logistic(x[j] + u[j]);
         const double z = logistic(x[j + kHidden] + u[j + kHidden]);
         const double n = std::tanh(x[j + 2 * kHidden] + r * u[j + 2 * kHidden]);
         h_next[j] = (1.0 - z) * n + z * h[j];
       }
     }},
    {"lstm", 4, false, true,
     [](auto*, auto* u, auto*, auto* c, double* h_next, double* c_next) {
       for (int64_t j = 0; j < kHidden; ++j) {
         const double i = logistic(u[j]), f = logistic(u[j + kHidden]);
         const double g = std::tanh(u[j + 2 * kHidden]), o = logistic(u[j + 3 * kHidden]);
         c_next[j] = f * c[j] + i * g;
         h_next[j] = o * std::tanh(c_next[j]);
       }
     }},
};

Numbers draw(int64_t n, uint64_t seed) {
  const RandomKey key = random_key(seed, Purpose::tensor);
  Numbers x(n);
  for (int64_t i = 0; i < n; ++i) {
    x[i] = static_cast<float>(4.0 * unit_open(bits32(key, i)) - 2.0);
  }
  return x;
}

struct Inputs {
  Numbers x, u, h, c;
};
struct Outputs {
  Numbers h = Numbers(kRows * kHidden), c = Numbers(kRows * kHidden);
};

Inputs inputs_of(const Model& m) {
  return {draw(kRows * m.gates * kHidden, 1), draw(kRows * m.gates * kHidden, 2),
          draw(kRows * kHidden, 3), draw(kRows * kHidden, 4)};
}

Outputs formula(const Model& m, const Inputs& in) {
  Outputs out;
  for (int64_t r = 0; r < kRows; ++r) {
    const int64_t at = r * kHidden, gates = r * m.gates * kHidden;
    if (kActive[r] != 0) {
      m.row(&in.x[gates], &in.u[gates], &in.h[at], &in.c[at], &out.h[at], &out.c[at]);
    } else {
      std::copy_n(&in.h[at], kHidden, &out.h[at]);
      std::copy_n(&in.c[at], kHidden, &out.c[at]);
    }
  }
  return out;
}

// Σ dh'·h' + dc'·c', where the output's part of dh' counts for active rows alone.
struct Weighting {
  Numbers d_out = draw(kRows * kHidden, 5), dh = draw(kRows * kHidden, 6);
  Numbers dc = draw(kRows * kHidden, 7);
  double operator()(const Model& m, const Inputs& in) const {
    const Outputs out = formula(m, in);
    double sum = 0.0;
    for (int64_t i = 0; i < kRows * kHidden; ++i) {
      sum += out.h[i] * (dh[i] + (kActive[i / kHidden] != 0 ? d_out[i] : 0.0));
      if (m.has_c) sum += out.c[i] * dc[i];
    }
    return sum;
  }
};

Numbers slope(const Model& m, Inputs in, Numbers Inputs::*which, const Weighting& loss) {
  constexpr double kDelta = 1e-5;
  Numbers d;
  for (double& e : in.*which) {
    const double before = e;
    e = before + kDelta;
    const double up = loss(m, in);
    e = before - kDelta;
    d.push_back((up - loss(m, in)) / (2.0 * kDelta));
    e = before;
  }
  return d;
}

std::vector<float> floats(const Numbers& x) { return {x.begin(), x.end()}; }

// In rows kStep apart, NaN between them.
std::vector<float> spread(const Numbers& x) {
  std::vector<float> y(kRows * kStep, kNaN);
  for (int64_t r = 0; r < kRows; ++r) {
    std::copy_n(x.begin() + r * kHidden, kHidden, y.begin() + r * kStep);
  }
  return y;
}
Numbers gathered(const std::vector<float>& y) {
  Numbers x;
  for (int64_t r = 0; r < kRows; ++r) {
    x.insert(x.end(), y.begin() + r * kStep, y.begin() + r * kStep + kHidden);
  }
  return x;
}

// Gates of rows that are not active hold NaN: nobody reads them.
std::vector<float> gates(const Model& m, const Numbers& x) {
  std::vector<float> y = floats(x);
  const int64_t width = m.gates * kHidden;
  for (int64_t r = 0; r < kRows; ++r) {
    if (kActive[r] == 0) std::fill_n(y.begin() + r * width, width, kNaN);
  }
  return y;
}

struct Found {
  std::vector<float> h_next, c_next, dx, du, dh, dc;
};

Found run(const Model& m, const Inputs& in, const Weighting& w) {
  const int64_t state = kRows * kHidden, width = m.gates * state;
  const CellRows rows{kRows, kHidden, kActive.data(), kStep};
  const auto x = gates(m, in.x), u = gates(m, in.u), h = spread(in.h), c = floats(in.c);
  const auto d_out = spread(w.d_out), dh_next = floats(w.dh), dc_next = floats(w.dc);
  std::vector<float> kept(5 * state, kNaN);
  Found f;
  f.h_next.assign(kRows * kStep, kNaN);
  f.c_next.assign(state, 0.0f);
  f.dx.assign(width, kNaN);
  f.du.assign(width, kNaN);
  f.dh = dh_next;  // written over
  f.dc = dc_next;
  if (m.gates == 1) {
    rnn_forward(rows, {u.data(), h.data(), f.h_next.data()});
    rnn_backward(rows, {f.h_next.data(), d_out.data(), f.dh.data(), f.du.data(), f.dh.data()});
  } else if (m.gates == 3) {
    gru_forward(rows, {x.data(), u.data(), h.data(), f.h_next.data(), kept.data()});
    gru_backward(rows, {kept.data(), h.data(), d_out.data(), f.dh.data(), f.dx.data(), f.du.data(),
                        f.dh.data()});
  } else {
    lstm_forward(rows,
                 {u.data(), h.data(), c.data(), f.h_next.data(), f.c_next.data(), kept.data()});
    lstm_backward(rows, {kept.data(), c.data(), d_out.data(), f.dh.data(), f.dc.data(), f.du.data(),
                         f.dh.data(), f.dc.data()});
  }
  return f;
}

template <class T>
void expect_near(const std::vector<T>& found, const Numbers& expected, const char* what) {
  ASSERT_EQ(found.size(), expected.size()) << what;
  for (size_t i = 0; i < found.size(); ++i) {
    ASSERT_NEAR(found[i], expected[i], 2e-6 + 1e-5 * std::abs(expected[i])) << what << " at " << i;
  }
}

TEST(RecurrentKernels, ValuesAndSlopes) {
  const Weighting w;
  for (const Model& m : kModels) {
    const Inputs in = inputs_of(m);
    const Outputs out = formula(m, in);
    const Numbers du = slope(m, in, &Inputs::u, w), dx = slope(m, in, &Inputs::x, w);
    const Numbers dh = slope(m, in, &Inputs::h, w), dc = slope(m, in, &Inputs::c, w);
    for (const std::string& set : isas()) {
      SCOPED_TRACE(std::string(m.name) + " " + set);
      use_isa(set);
      const Found f = run(m, in, w);
      expect_near(gathered(f.h_next), out.h, "h'");
      expect_near(f.du, du, "du");
      expect_near(f.dh, dh, "dh");
      if (m.has_x) expect_near(f.dx, dx, "dx");
      if (m.has_c) expect_near(f.c_next, out.c, "c'");
      if (m.has_c) expect_near(f.dc, dc, "dc");
      for (int64_t r = 0; r < kRows; ++r) {
        for (int64_t j = kHidden; j < kStep; ++j) {
          ASSERT_TRUE(std::isnan(f.h_next[r * kStep + j])) << "wrote into the margin";
        }
      }
    }
  }
  use_isa("");
}

TEST(RecurrentKernels, AbsentGradientsAreZero) {
  Weighting w;
  const Model& m = kModels[2];
  const Inputs in = inputs_of(m);
  const int64_t state = kRows * kHidden;
  const CellRows rows{kRows, kHidden, kActive.data(), kHidden};
  const auto u = gates(m, in.u), h = floats(in.h), c = floats(in.c);
  std::vector<float> h_next(state), c_next(state), kept(5 * state), du(4 * state), dc(state);
  lstm_forward(rows, {u.data(), h.data(), c.data(), h_next.data(), c_next.data(), kept.data()});
  const auto d_next = floats(w.dc);
  lstm_backward(rows, {kept.data(), c.data(), nullptr, nullptr, d_next.data(), du.data(), nullptr,
                       dc.data()});
  w.d_out.assign(state, 0.0);
  w.dh.assign(state, 0.0);
  expect_near(du, slope(m, in, &Inputs::u, w), "du");
  expect_near(dc, slope(m, in, &Inputs::c, w), "dc");
}

TEST(RecurrentKernels, SameAtAnyThreadCount) {
  const int before = threads();
  constexpr int64_t rows = 50, hidden = 301;
  const auto x = floats(draw(rows * 3 * hidden, 1)), u = floats(draw(rows * 3 * hidden, 2));
  const auto h = floats(draw(rows * hidden, 3));
  std::vector<std::vector<float>> all;
  for (const int n : {1, 3}) {
    set_threads(n);
    all.emplace_back(rows * hidden);
    gru_forward({rows, hidden, nullptr, hidden},
                {x.data(), u.data(), h.data(), all.back().data(), nullptr});
  }
  EXPECT_EQ(all[0], all[1]);
  set_threads(before);
}

}  // namespace
}  // namespace fovea::kernels
