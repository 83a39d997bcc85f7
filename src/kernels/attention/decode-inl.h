// One query (or a few rows that share keys, as grouped heads do) against many keys: every key and
// value is read once, in place, and long key ranges are split so that all threads share the read.
#if defined(FOVEA_ATTENTION_DECODE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FOVEA_ATTENTION_DECODE_INL_H_
#undef FOVEA_ATTENTION_DECODE_INL_H_
#else
#define FOVEA_ATTENTION_DECODE_INL_H_
#endif

#include <vector>

#include "kernels/attention/blocks-inl.h"

HWY_BEFORE_NAMESPACE();
namespace fovea::kernels::HWY_NAMESPACE {

constexpr int64_t kDecodeRows = 8;    // heads of the group × queries
constexpr int64_t kDecodeKeys = 512;  // keys of one part; fixed, so that threads change nothing
constexpr int64_t kDecodeHead = std::max<int64_t>(kLanes, 2);  // {m, l} before a part's sum

inline bool DecodeSuits(const AttentionProblem& p, const AttentionResult& out) {
  return p.Lk >= 8 * p.Lq && p.family == Family::dot && out.context && p.weigh == Weigh::softmax &&
         p.Lq * p.group() <= kDecodeRows && !out.weights && !p.bias && !p.allowed && !p.center &&
         p.dropout == 0.0f && p.k.c == 1 && p.v.c == 1 && p.D % kLanes == 0 && p.Dv % kLanes == 0 &&
         p.D > 0;
}

// s[r] ← q[r]·k for R rows and 4 keys at a time; lanes along the width.
template <int R>
HWY_INLINE void DotRows(const float* HWY_RESTRICT q, int64_t D, const float* HWY_RESTRICT k,
                        int64_t ldk, int64_t n, float* HWY_RESTRICT s, int64_t lds) {
  const F d;
  int64_t j = 0;
  for (; j + 2 <= n; j += 2) {
    Vec a[R], b[R];
    for (int r = 0; r < R; ++r) a[r] = b[r] = hn::Zero(d);
    for (int64_t c = 0; c < D; c += kLanes) {
      const Vec k0 = hn::LoadU(d, k + j * ldk + c), k1 = hn::LoadU(d, k + (j + 1) * ldk + c);
      for (int r = 0; r < R; ++r) {
        const Vec x = hn::LoadU(d, q + r * D + c);
        a[r] = hn::MulAdd(x, k0, a[r]);
        b[r] = hn::MulAdd(x, k1, b[r]);
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
        a = hn::MulAdd(hn::LoadU(d, q + r * D + c), hn::LoadU(d, k + j * ldk + c), a);
      }
      s[r * lds + j] = SumOf(a);
    }
  }
}

HWY_NOINLINE void DotRowsOf(int64_t rows, const float* q, int64_t D, const float* k, int64_t ldk,
                            int64_t n, float* s, int64_t lds) {
  for (; rows >= 4; rows -= 4, q += 4 * D, s += 4 * lds) DotRows<4>(q, D, k, ldk, n, s, lds);
  if (rows >= 2) {
    DotRows<2>(q, D, k, ldk, n, s, lds);
    rows -= 2, q += 2 * D, s += 2 * lds;
  }
  if (rows == 1) DotRows<1>(q, D, k, ldk, n, s, lds);
}

struct DecodePart {  // of one row: its maximum, sum and weighted values [Dv]
  float* m;
  float* l;
  float* sum;
};

// Rows of (b, hk): row r is head hk·group + r / Lq, query r % Lq.
struct DecodeRow {
  int64_t h, i, begin, end;
};

HWY_INLINE DecodeRow DecodeRowOf(const AttentionProblem& p, int64_t b, int64_t hk, int64_t r) {
  const int64_t h = hk * p.group() + r / p.Lq, i = r % p.Lq;
  const int64_t begin = p.begin ? std::max<int64_t>(*p.begin.row(b, h, i), 0) : 0;
  const int64_t end = p.end ? std::min<int64_t>(*p.end.row(b, h, i), p.Lk) : p.Lk;
  return {h, i, begin, std::max(begin, end)};
}

HWY_NOINLINE void DecodeKeys(const AttentionProblem& p, int64_t b, int64_t hk, int64_t j0,
                             const DecodePart& part, int64_t stride) {
  const int64_t rows = p.Lq * p.group();
  int64_t first = p.Lk, last = 0;
  for (int64_t r = 0; r < rows; ++r) {
    const DecodeRow row = DecodeRowOf(p, b, hk, r);
    if (row.begin < row.end) first = std::min(first, row.begin), last = std::max(last, row.end);
  }
  first = std::max(first, j0);
  last = std::min({last, j0 + kDecodeKeys, p.Lk});
  HWY_ALIGN float s[kDecodeRows * (kDecodeKeys + kLanes)];
  constexpr int64_t lds = kDecodeKeys + kLanes;
  for (int64_t r = 0; r < rows; ++r) part.m[r * stride] = -kInf, part.l[r * stride] = 0.0f;
  if (first >= last) return;

  const int64_t n = last - first;
  Buffer<float> packed(rows * p.D);
  for (int64_t r = 0; r < rows; ++r) {
    const DecodeRow row = DecodeRowOf(p, b, hk, r);
    PackRows(RowsOf(p.q, b, row.h, row.i), 1, p.D, p.scale / p.temperature, packed.data() + r * p.D,
             p.D);
  }
  DotRowsOf(rows, packed.data(), p.D, p.k.row(b, hk, first), p.k.r, n, s, lds);
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
  const bool careful = cut && !AllFinite(RowsOf(p.v, b, hk, first), n, p.Dv);
  auto* product = careful ? &MatMulSkippingZeros : &MatMul;
  product({s, lds, 1}, p.v.row(b, hk, first), p.v.r, part.sum, stride, rows, p.Dv, n, false);
}

// Merges the parts of a row in the order of their keys.
HWY_NOINLINE void MergeParts(const AttentionProblem& p, const AttentionResult& out, int64_t b,
                             int64_t hk, int64_t r, const float* parts, int64_t n,
                             int64_t part_step, int64_t Dv) {
  const DecodeRow row = DecodeRowOf(p, b, hk, r);
  float m = -kInf;
  for (int64_t c = 0; c < n; ++c) m = std::max(m, parts[c * part_step]);
  const float base = m == -kInf ? 0.0f : m;
  float l = 0.0f;
  for (int64_t c = 0; c < n; ++c)
    l += parts[c * part_step + 1] * std::exp(parts[c * part_step] - base);
  float* to = out.context.row(b, row.h, row.i);
  for (int64_t d = 0; d < Dv; ++d) to[d * out.context.c] = 0.0f;
  for (int64_t c = 0; c < n; ++c) {
    const float* part = parts + c * part_step;
    if (part[1] == 0.0f) continue;
    const float factor = std::exp(part[0] - base) / l;
    for (int64_t d = 0; d < Dv; ++d) to[d * out.context.c] += factor * part[kDecodeHead + d];
  }
  if (out.stat) out.stat[(b * p.H + row.h) * p.Lq + row.i] = l == 0.0f ? -kInf : m + std::log(l);
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
               {to, to + 1, to + kDecodeHead}, stride);
  };
  const auto merge = [&](int64_t bh) {
    for (int64_t r = 0; r < rows; ++r) {
      MergeParts(p, out, bh / p.Hk, bh % p.Hk, r, at(bh * parts) + r * stride, parts, rows * stride,
                 p.Dv);
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
