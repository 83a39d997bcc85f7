// One query (or a few rows that share keys, as grouped heads do) against many keys: every key and
// value is read once, in place, and long key ranges are split so that all threads share the read.
#if defined(FOVEA_ATTENTION_DECODE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FOVEA_ATTENTION_DECODE_INL_H_
#undef FOVEA_ATTENTION_DECODE_INL_H_
#else
#define FOVEA_ATTENTION_DECODE_INL_H_
#endif

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "kernels/attention/blocks-inl.h"
#include "kernels/attention/decode-words-inl.h"

HWY_BEFORE_NAMESPACE();
namespace fovea::kernels::HWY_NAMESPACE {

constexpr int64_t kDecodeRows = 8;    // heads of the group × queries
constexpr int64_t kDecodeKeys = 512;  // keys of one part; fixed, so that threads change nothing
constexpr int64_t kDecodeHead = std::max<int64_t>(kLanes, 2);  // {m, l} before a part's sum

inline bool DecodeSuits(const AttentionProblem& p, const AttentionResult& out) {
  return p.Lk >= 8 * p.Lq && p.family == Family::dot && out.context && p.weigh == Weigh::softmax &&
         p.Lq * p.group() <= kDecodeRows && !out.weights && !out.kept && !p.bias && !p.allowed &&
         !p.conditions && !p.center && !p.noisy && p.dropout == 0.0f && KeysOf(p, 0, 0).c == 1 &&
         ValuesOf(p, 0, 0).c == 1 && p.D % kLanes == 0 && p.Dv % kLanes == 0 && p.D > 0;
}

struct DotProducts {
  const float* q;  // [rows][D], ldq apart
  int64_t ldq, D;
  const float* k;
  int64_t ldk, n;  // keys
  DenseRows s;
};

// s[r] ← q[r]·k for rows first … first + R and 2 keys at a time; lanes along the width.
template <int R>
HWY_INLINE void DotRows(const DotProducts& x, int64_t first) {
  const F d;
  const int64_t D = x.D, ldq = x.ldq, ldk = x.ldk, n = x.n, lds = x.s.ld;
  const float* HWY_RESTRICT q = x.q + first * ldq;
  const float* HWY_RESTRICT k = x.k;
  float* HWY_RESTRICT s = x.s.data + first * lds;
  const int64_t ahead = RowsAhead(D * kFloat);
  int64_t j = 0;
  for (; j + 2 <= n; j += 2) {
    if (first == 0) {
      FetchRow(k + (j + ahead) * ldk, D * kFloat);
      FetchRow(k + (j + ahead + 1) * ldk, D * kFloat);
    }
    Vec a[R], b[R];
    for (int r = 0; r < R; ++r) a[r] = b[r] = hn::Zero(d);
    for (int64_t c = 0; c < D; c += kLanes) {
      const Vec k0 = hn::LoadU(d, k + j * ldk + c), k1 = hn::LoadU(d, k + (j + 1) * ldk + c);
      for (int r = 0; r < R; ++r) {
        const Vec row = hn::LoadU(d, q + r * ldq + c);
        a[r] = hn::MulAdd(row, k0, a[r]);
        b[r] = hn::MulAdd(row, k1, b[r]);
      }
    }
    for (int r = 0; r < R; ++r) {
      s[r * lds + j] = SumOf(a[r]);
      s[r * lds + j + 1] = SumOf(b[r]);
    }
  }
  for (; j < n; ++j) {
    for (int r = 0; r < R; ++r) {
      Vec a = hn::Zero(d);
      for (int64_t c = 0; c < D; c += kLanes) {
        a = hn::MulAdd(hn::LoadU(d, q + r * ldq + c), hn::LoadU(d, k + j * ldk + c), a);
      }
      s[r * lds + j] = SumOf(a);
    }
  }
}

HWY_NOINLINE void DotRowsOf(const DotProducts& x, int64_t rows) {
  int64_t r = 0;
  for (; rows - r >= 4; r += 4) DotRows<4>(x, r);
  if (rows - r >= 2) {
    DotRows<2>(x, r);
    r += 2;
  }
  if (rows - r == 1) DotRows<1>(x, r);
}

struct DecodePart {  // of each row: its maximum, sum and weighted values [Dv]
  float* m;
  float* l;
  float* sum;
  int64_t stride;  // from a row to the next
};

// Rows of (b, hk): row r is head hk·group + r / Lq, query r % Lq.
struct DecodeRow {
  int64_t b, h, i, begin, end;
};

HWY_INLINE DecodeRow DecodeRowOf(const AttentionProblem& p, int64_t b, int64_t hk, int64_t r) {
  const int64_t h = hk * p.group() + r / p.Lq, i = r % p.Lq;
  const int64_t begin = p.begin ? std::max<int64_t>(*p.begin.row(b, h, i), 0) : 0;
  const int64_t end = p.end ? std::min<int64_t>(*p.end.row(b, h, i), p.Lk) : p.Lk;
  return {b, h, i, begin, std::max(begin, end)};
}

// Queries of (b, hk), times a factor, as floats [rows][D].
HWY_INLINE void DecodeQueries(const AttentionProblem& p, int64_t b, int64_t hk, float factor,
                              float* to) {
  for (int64_t r = 0; r < p.Lq * p.group(); ++r) {
    const DecodeRow row = DecodeRowOf(p, b, hk, r);
    PackRows(QueriesOf(p, b, row.h, row.i), 1, p.D, factor, {to + r * p.D, p.D});
  }
}

// s[r] ← scores of n keys from `first` on.
HWY_NOINLINE void DecodeScores(const AttentionProblem& p, int64_t b, int64_t hk, int64_t first,
                               int64_t n, DenseRows s) {
  const int64_t rows = p.Lq * p.group();
  const Rows keys = KeysOf(p, b, hk, first);
  const bool words = KeysInPairs(p) && p.D % (2 * kLanes) == 0;
  const bool dots = words && MultipliesWords(p);
  const float factor = p.scale / p.temperature;
  Buffer<float> queries(rows * p.D);
  DecodeQueries(p, b, hk, dots ? 1.0f : factor, queries.data());
  if (words) {
    WordRows in_pairs{keys.halves, keys.row, n};
    if (dots && p.matrix_unit && UnitReads(in_pairs, p.D)) {
      const int64_t done = WordScoresByUnit(queries.data(), rows, p.D, in_pairs, s, factor);
      if (done == n) return;
      in_pairs = {keys.halves + done * keys.row, keys.row, n - done};
      s.data += done;
    }
    return WordScores(queries.data(), rows, p.D, in_pairs, dots, s, dots ? factor : 1.0f);
  }
  if (!keys.halves) {
    return DotRowsOf({queries.data(), p.D, p.D, keys.data, keys.row, n, s}, rows);
  }
  Buffer<float> wide(n * p.D);
  PackRows(keys, n, p.D, 1.0f, {wide.data(), p.D});
  DotRowsOf({queries.data(), p.D, p.D, wide.data(), p.D, n, s}, rows);
}

// to[r] ← Σ weights·values of n keys from `first` on. `careful`: weights of 0 skip what is there.
HWY_NOINLINE void DecodeValues(const AttentionProblem& p, const Rows& values, int64_t n,
                               bool careful, DenseRows s, DenseRows to) {
  const int64_t rows = p.Lq * p.group();
  if (ValuesInPairs(p) && p.Dv % (2 * kLanes) == 0 && !careful) {
    const WordRows in_pairs{values.halves, values.row, n};
    if (p.matrix_unit && UnitReads(in_pairs, p.Dv)) {
      return WordValuesByUnit(s, rows, in_pairs, p.Dv, to);
    }
    return WordValues(s, rows, in_pairs, p.Dv, MultipliesWords(p), to);
  }
  Buffer<float> wide(values.halves ? n * p.Dv : 0);
  if (values.halves) PackRows(values, n, p.Dv, 1.0f, {wide.data(), p.Dv});
  MatMul({.a = {s.data, s.ld, 1},
          .b = values.halves ? wide.data() : values.data,
          .ldb = values.halves ? p.Dv : values.row,
          .c = to.data,
          .ldc = to.ld,
          .m = rows,
          .n = p.Dv,
          .K = n,
          .accumulate = false},
         careful);
}

HWY_NOINLINE void DecodeKeys(const AttentionProblem& p, int64_t b, int64_t hk, int64_t j0,
                             const DecodePart& part) {
  const int64_t stride = part.stride;
  const int64_t rows = p.Lq * p.group();
  int64_t first = p.Lk, last = 0;
  for (int64_t r = 0; r < rows; ++r) {
    const DecodeRow row = DecodeRowOf(p, b, hk, r);
    if (row.begin < row.end) first = std::min(first, row.begin), last = std::max(last, row.end);
  }
  first = std::max(first, j0);
  last = std::min({last, j0 + kDecodeKeys, p.Lk});
  const unit::Registers registers(p.matrix_unit);
  HWY_ALIGN float s[kDecodeRows * (kDecodeKeys + kLanes)];
  constexpr int64_t lds = kDecodeKeys + kLanes;
  for (int64_t r = 0; r < rows; ++r) part.m[r * stride] = -kInf, part.l[r * stride] = 0.0f;
  if (first >= last) return;

  const int64_t n = last - first;
  DecodeScores(p, b, hk, first, n, {s, lds});
  if (p.softcap > 0.0f) CapRows(p, {s, lds}, rows, RoundUp(n, kLanes));
  bool cut = false;
  for (int64_t r = 0; r < rows; ++r) {
    const DecodeRow row = DecodeRowOf(p, b, hk, r);
    float* at = s + r * lds;
    const int64_t begin = std::clamp(row.begin - first, int64_t{0}, n);
    const int64_t end = std::clamp(row.end - first, begin, n);
    cut |= begin > 0 || end < n;
    FillRow(at, 0, begin, -kInf);
    FillRow(at, end, RoundUp(n, kLanes), -kInf);
    const float m = RowMax(at, RoundUp(n, kLanes));
    part.m[r * stride] = m;
    part.l[r * stride] = ExpRow(at, RoundUp(n, kLanes), m == -kInf ? 0.0f : m);
  }
  const Rows values = ValuesOf(p, b, hk, first);
  const bool careful = cut && !p.finite && !AllFinite(values, n, p.Dv);
  DecodeValues(p, values, n, careful, {s, lds}, {part.sum, stride});
}

// {m, l, …, sum[Dv]} of each of n parts, `step` apart.
struct RowParts {
  const float* data;
  int64_t n, step;
};

// Merges the parts of a row in the order of their keys.
HWY_NOINLINE void MergeParts(const AttentionProblem& p, const AttentionResult& out,
                             const DecodeRow& row, const RowParts& parts) {
  const auto part = [&](int64_t c) { return parts.data + c * parts.step; };
  const float sink = SinkOf(p, row.h);
  float m = sink;
  for (int64_t c = 0; c < parts.n; ++c) m = std::max(m, part(c)[0]);
  const float base = m == -kInf ? 0.0f : m;
  float l = std::exp(sink - base);
  for (int64_t c = 0; c < parts.n; ++c) l += part(c)[1] * std::exp(part(c)[0] - base);
  float* to = out.context.row(row.b, row.h, row.i);
  for (int64_t d = 0; d < p.Dv; ++d) to[d * out.context.c] = 0.0f;
  for (int64_t c = 0; c < parts.n; ++c) {
    const float* from = part(c);
    if (from[1] == 0.0f) continue;
    const float factor = std::exp(from[0] - base) / l;
    for (int64_t d = 0; d < p.Dv; ++d) to[d * out.context.c] += factor * from[kDecodeHead + d];
  }
  if (out.stat) {
    out.stat[(row.b * p.H + row.h) * p.Lq + row.i] = l == 0.0f ? -kInf : m + std::log(l);
  }
}

void Decode(const AttentionProblem& p, const AttentionResult& out) {
  const int64_t parts = std::max<int64_t>(1, (p.Lk + kDecodeKeys - 1) / kDecodeKeys);
  const int64_t rows = p.Lq * p.group();
  const int64_t stride = kDecodeHead + RoundUp(p.Dv, kLanes);  // {m, l, …, sum[Dv]}
  const Buffer<float> store(p.B * p.Hk * parts * rows * stride);
  const auto at = [&](int64_t unit) { return store.data() + unit * rows * stride; };
  const auto part = [&](int64_t unit) {
    float* to = at(unit);
    const int64_t bh = unit / parts;
    DecodeKeys(p, bh / p.Hk, bh % p.Hk, (unit % parts) * kDecodeKeys,
               {to, to + 1, to + kDecodeHead, stride});
  };
  const auto merge = [&](int64_t bh) {
    for (int64_t r = 0; r < rows; ++r) {
      MergeParts(p, out, DecodeRowOf(p, bh / p.Hk, bh % p.Hk, r),
                 {at(bh * parts) + r * stride, parts, rows * stride});
    }
  };
  parallel_for(p.B * p.Hk * parts, part);
  if (parts > 1 && p.B * p.Hk * parts > 64) {
    parallel_for(p.B * p.Hk, merge);
  } else {
    for (int64_t bh = 0; bh < p.B * p.Hk; ++bh) merge(bh);
  }
}

}  // namespace fovea::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // FOVEA_ATTENTION_DECODE_INL_H_
