// Weighting none by associativity: Σ_j (q_i·k_j) v_j = q_i·(Σ_j k_j v_jᵀ), a state that grows with
// the keys a query may see. O(L·D·Dv) instead of O(L²·D).
#if defined(FOVEA_ATTENTION_LINEAR_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FOVEA_ATTENTION_LINEAR_INL_H_
#undef FOVEA_ATTENTION_LINEAR_INL_H_
#else
#define FOVEA_ATTENTION_LINEAR_INL_H_
#endif

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "kernels/attention/backward-inl.h"
#include "kernels/attention/blocks-inl.h"
#include "kernels/attention/forward-inl.h"

HWY_BEFORE_NAMESPACE();
namespace fovea::kernels::HWY_NAMESPACE {

// out_i = factor·Σ_{j < end_i} (x_i·y_j)·z_j, end never falling. Both gradients have this form too:
//   dq: x = d_context, y = v, z = k;   and with queries and keys in reverse order
//   dk: x = v, y = d_context, z = q;   dv: x = k, y = q, z = d_context.
struct Prefix {
  Rows x, y, z;
  int64_t n_x, n_y;
  int64_t inner, outer;  // widths of x·y and of z
  const int32_t* end;    // [n_x]
  bool finite;           // y and z
};

struct PrefixScratch {
  float *state, *x, *y, *z, *s,
      *out;  // [inner][ldz], [64][ldx], packed y and z of 64, [64][64+], [64][ldz]
  int64_t ldx, ldz;
  static constexpr int64_t kRows = 64;

  static int64_t Floats(int64_t inner, int64_t outer) {
    const int64_t x = RoundUp(inner, kLanes), z = RoundUp(outer, kLanes);
    return inner * z + 2 * kRows * (x + z) + PanelFloats(kRows, inner) + kRows * (kRows + kLanes) +
           8 * kLanes;
  }
  PrefixScratch(int64_t inner, int64_t outer, float* base)
      : ldx(RoundUp(inner, kLanes)), ldz(RoundUp(outer, kLanes)) {
    state = base;
    x = state + inner * ldz;
    y = x + kRows * ldx;
    z = y + std::max(PanelFloats(kRows, inner), kRows * ldx);
    s = z + kRows * ldz;
    out = s + kRows * (kRows + kLanes);
  }
};

// The state takes in keys [from, to).
HWY_INLINE void TakeKeys(const Prefix& p, const PrefixScratch& mem, int64_t from, int64_t to) {
  for (int64_t j = from; j < to; j += PrefixScratch::kRows) {
    const int64_t n = std::min(PrefixScratch::kRows, to - j);
    PackRows({p.y.data + j * p.y.row, p.y.row, p.y.c}, n, p.inner, 1.0f, {mem.y, mem.ldx});
    PackRows({p.z.data + j * p.z.row, p.z.row, p.z.c}, n, p.outer, 1.0f, {mem.z, mem.ldz});
    MatMul({.a = {mem.y, 1, mem.ldx},
            .b = mem.z,
            .ldb = mem.ldz,
            .c = mem.state,
            .ldc = mem.ldz,
            .m = p.inner,
            .n = p.outer,
            .K = n,
            .accumulate = true});
  }
}

// Rows i … i+n also see some of the keys from `from` on, each up to its own end.
HWY_INLINE void AddPartlySeen(const Prefix& p, const PrefixScratch& mem, int64_t i, int64_t n,
                              int64_t from) {
  constexpr int64_t lds = PrefixScratch::kRows + kLanes;
  const int64_t to = p.end[i + n - 1];
  for (int64_t j = from; j < to; j += PrefixScratch::kRows) {
    const int64_t m = std::min(PrefixScratch::kRows, to - j);
    PackPanels({p.y.data + j * p.y.row, p.y.row, p.y.c}, m, p.inner, {}, mem.y);
    PackRows({p.z.data + j * p.z.row, p.z.row, p.z.c}, m, p.outer, 1.0f, {mem.z, mem.ldz});
    for (int64_t k = 0; k < m; k += kPanelKeys) {
      MatMul({.a = {mem.x, mem.ldx, 1},
              .b = mem.y + k * PanelRows(p.inner),
              .ldb = kPanelKeys,
              .c = mem.s + k,
              .ldc = lds,
              .m = n,
              .n = m - k,
              .K = p.inner,
              .accumulate = false});
    }
    for (int64_t r = 0; r < n; ++r) {
      FillRow(mem.s + r * lds, std::clamp<int64_t>(p.end[i + r] - j, 0, m), m, 0.0f);
    }
    MatMul({.a = {mem.s, lds, 1},
            .b = mem.z,
            .ldb = mem.ldz,
            .c = mem.out,
            .ldc = mem.ldz,
            .m = n,
            .n = p.outer,
            .K = m,
            .accumulate = true},
           !p.finite);
  }
}

HWY_NOINLINE void RunPrefix(const Prefix& p, const PrefixScratch& mem, float factor, View<float> to,
                            bool accumulate) {
  FillRow(mem.state, 0, p.inner * mem.ldz, 0.0f);
  int64_t taken = 0;
  for (int64_t i = 0; i < p.n_x; i += PrefixScratch::kRows) {
    const int64_t n = std::min(PrefixScratch::kRows, p.n_x - i);
    PackRows({p.x.data + i * p.x.row, p.x.row, p.x.c}, n, p.inner, 1.0f, {mem.x, mem.ldx});
    TakeKeys(p, mem, taken, p.end[i]);
    taken = std::max<int64_t>(taken, p.end[i]);
    MatMul({.a = {mem.x, mem.ldx, 1},
            .b = mem.state,
            .ldb = mem.ldz,
            .c = mem.out,
            .ldc = mem.ldz,
            .m = n,
            .n = p.outer,
            .K = p.inner,
            .accumulate = false});
    AddPartlySeen(p, mem, i, n, taken);
    for (int64_t r = 0; r < n; ++r) {
      float* out = to.data + (i + r) * to.r;
      const float* from = mem.out + r * mem.ldz;
      for (int64_t d = 0; d < p.outer; ++d) {
        const float value = p.end[i + r] == 0 ? 0.0f : factor * from[d];
        out[d * to.c] = accumulate ? out[d * to.c] + value : value;
      }
    }
  }
}

inline Rows Reversed(Rows r, int64_t n) { return {r.data + (n - 1) * r.row, -r.row, r.c}; }
inline View<float> Reversed(View<float> v, int64_t n) {
  return {v.data + (n - 1) * v.r, 0, 0, -v.r, v.c};
}

// Ends of the queries of (b, h), and, in reverse order, how many queries see each key.
struct Ends {
  std::vector<int32_t> queries, keys;
};
inline Ends EndsOf(const AttentionProblem& p, int64_t b, int64_t h) {
  Ends ends;
  for (int64_t i = 0; i < p.Lq; ++i) {
    const int32_t end = p.end ? *p.end.row(b, h, i) : static_cast<int32_t>(p.Lk);
    ends.queries.push_back(std::clamp<int32_t>(end, 0, static_cast<int32_t>(p.Lk)));
  }
  int64_t first = p.Lq;  // the first query that sees key j
  for (int64_t j = p.Lk - 1; j >= 0; --j) {
    while (first > 0 && ends.queries[first - 1] > j) --first;
    ends.keys.push_back(static_cast<int32_t>(p.Lq - first));
  }
  return ends;
}

// Queries and keys are, where their scores fit.
HWY_NOINLINE bool HeadIsFinite(const AttentionProblem& p, int64_t b, int64_t h) {
  return !p.masked() || AllFinite(RowsOf(p.v, b, h / p.group()), p.Lk, p.Dv);
}

// Whether every score fits a float. The sums above hold none: where one is −inf, and its key
// forbidden, or +inf, they do not show it, and blocks of scores do.
inline bool ScoresFit(const AttentionProblem& p) {
  std::vector<uint8_t> fit(static_cast<size_t>(p.B * p.Hk));
  parallel_for(p.B * p.Hk, [&](int64_t i) {
    const int64_t b = i / p.Hk, hk = i % p.Hk;
    const double most = static_cast<double>(LargestQuery(p, b, hk)) *
                        LargestMagnitude(RowsOf(p.k, b, hk), p.Lk, p.D);
    fit[i] = most * static_cast<double>(p.D) * std::max(1.0f, std::fabs(p.scale / p.temperature)) <
             std::numeric_limits<float>::max();
  });
  return std::all_of(fit.begin(), fit.end(), [](uint8_t f) { return f != 0; });
}

inline int64_t LinearFloats(const AttentionProblem& p) {
  return std::max(PrefixScratch::Floats(p.D, p.Dv), PrefixScratch::Floats(p.Dv, p.D));
}

void LinearForward(const AttentionProblem& p, const AttentionResult& out) {
  if (!ScoresFit(p)) return Forward(p, out);
  const Crew crew;
  const Buffer<float> scratch(crew.size() * LinearFloats(p));
  crew.run(p.B * p.H, [&](int64_t unit, int place) {
    const int64_t b = unit / p.H, h = unit % p.H, hk = h / p.group();
    const Ends ends = EndsOf(p, b, h);
    const PrefixScratch mem(p.D, p.Dv, scratch.data() + place * LinearFloats(p));
    View<float> to = out.context;
    to.data = to.row(b, h, 0);
    RunPrefix({RowsOf(p.q, b, h), RowsOf(p.k, b, hk), RowsOf(p.v, b, hk), p.Lq, p.Lk, p.D, p.Dv,
               ends.queries.data(), HeadIsFinite(p, b, h)},
              mem, p.scale / p.temperature, to, false);
  });
}

void LinearBackward(const AttentionProblem& p, const AttentionGradients& g) {
  if (!ScoresFit(p)) return Backward(p, g);
  const Crew crew;
  const Buffer<float> scratch(crew.size() * LinearFloats(p));
  const float factor = p.scale / p.temperature;
  crew.run(p.B * p.Hk, [&](int64_t unit, int place) {
    const int64_t b = unit / p.Hk, hk = unit % p.Hk;
    float* base = scratch.data() + place * LinearFloats(p);
    const PrefixScratch mem(p.D, p.Dv, base), mem_t(p.Dv, p.D, base);
    const Rows k = RowsOf(p.k, b, hk), v = RowsOf(p.v, b, hk);
    for (int64_t h = hk * p.group(); h < (hk + 1) * p.group(); ++h) {
      const Ends ends = EndsOf(p, b, h);
      const bool finite = HeadIsFinite(p, b, h) &&
                          (!p.masked() || AllFinite(RowsOf(g.d_context, b, h), p.Lq, p.Dv));
      const Rows q = RowsOf(p.q, b, h), d_out = RowsOf(g.d_context, b, h);
      const bool more = h != hk * p.group();
      if (g.dq) {
        View<float> to = g.dq;
        to.data = to.row(b, h, 0);
        RunPrefix({d_out, v, k, p.Lq, p.Lk, p.Dv, p.D, ends.queries.data(), finite}, mem_t, factor,
                  to, false);
      }
      const auto reversed = [&](Rows x, Rows y, Rows z, int64_t inner, int64_t outer) {
        return Prefix{Reversed(x, p.Lk),
                      Reversed(y, p.Lq),
                      Reversed(z, p.Lq),
                      p.Lk,
                      p.Lq,
                      inner,
                      outer,
                      ends.keys.data(),
                      finite};
      };
      const auto output = [&](View<float> to) {
        to.data = to.row(b, hk, 0);
        return Reversed(to, p.Lk);
      };
      if (g.dk) RunPrefix(reversed(v, d_out, q, p.Dv, p.D), mem_t, factor, output(g.dk), more);
      if (g.dv) RunPrefix(reversed(k, q, d_out, p.D, p.Dv), mem, factor, output(g.dv), more);
    }
  });
}

}  // namespace fovea::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // FOVEA_ATTENTION_LINEAR_INL_H_
