// Many rows against weights of 8 bits. Parts of A's rows become s·q of 8 bits as well, so that one
// instruction adds four products to each lane:
//   C[i][j] = t[j]·Σ_g s[i][g]·Σ_{k∈g} q[i][k]·w[k][j],  s[i][g] = max_{k∈g}|a[i][k]|/127,
// off by Σ_g s[i][g]/2·Σ_{k∈g}|t[j]·w[k][j]| at most. Sums of a part are exact.
#if defined(FOVEA_GEMM_BYTES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FOVEA_GEMM_BYTES_INL_H_
#undef FOVEA_GEMM_BYTES_INL_H_
#else
#define FOVEA_GEMM_BYTES_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "core/memory.h"
#include "core/threads.h"
#include "kernels/gemm-inl.h"
#include "kernels/gemm-tile-inl.h"
#include "kernels/gemm.h"
#include "kernels/narrow-inl.h"
#include "kernels/transpose-inl.h"

HWY_BEFORE_NAMESPACE();
namespace fovea::kernels::HWY_NAMESPACE {

#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3
bool HasBytes() { return __builtin_cpu_supports("avx512vnni") != 0; }

namespace {

using Ints = hn::Vec<hn::Rebind<int32_t, F>>;

constexpr int64_t kPart = 128;  // of k, with one scale
constexpr int64_t kLine = 64;   // k is filled up to a multiple of it, with zeros
constexpr int64_t kMostBytesRows = 512, kFewestBytesRows = 48;  // of C, to a task

// sum + Σ u·s over the four bytes of each lane, those of u unsigned. Highway 1.0 has no name for
// it, and the compilers' own wants a target that Highway has not either.
HWY_INLINE Ints AddDots(Ints sum, Ints u, Ints s) {
  asm("vpdpbusd %2, %1, %0" : "+v"(sum.raw) : "v"(u.raw), "v"(s.raw));
  return sum;
}

// A in 8 bits: q [rows,depth], and for each part of a row s and what its sums begin with: the
// weights are taken as w + 128, so −128·Σq. Rows are filled up with zeros to whole tiles.
struct LeftBytes {
  Buffer<int8_t> q;
  Buffer<float> scale;
  Buffer<int32_t> begin;
  int64_t depth, parts;
};

void RowToBytes(const float* from, int64_t n, int64_t row, const LeftBytes& to) {
  const hn::Rebind<int32_t, F> d;
  const auto ones = hn::Set(d, 0x01010101);
  int8_t* q = to.q.data() + row * to.depth;
  std::fill(q + n, q + to.depth, int8_t{0});
  for (int64_t p = 0; p < to.parts; ++p) {
    const int64_t k = p * kPart, last = std::min(to.depth, k + kPart);
    to.scale[row * to.parts + p] = ToI8(from + k, std::clamp<int64_t>(n - k, 0, kPart), q + k);
    auto sum = hn::Zero(d);
    for (int64_t i = k; i < last; i += kLine) {
      sum = AddDots(sum, ones, hn::LoadU(d, reinterpret_cast<const int32_t*>(q + i)));
    }
    to.begin[row * to.parts + p] = -128 * hn::GetLane(hn::SumOfLanes(d, sum));
  }
}

LeftBytes ToBytes(const Gemm& g) {
  const int64_t rows = RoundUp(g.m, kTileRows), depth = RoundUp(g.k, kLine);
  const int64_t parts = DivCeil(depth, kPart);
  const LeftBytes to{Buffer<int8_t>(rows * depth), Buffer<float>(rows * parts),
                     Buffer<int32_t>(rows * parts), depth, parts};
  parallel_for(rows, 4 * depth, [&](int64_t i) HWY_ATTR {
    const bool there = i < g.m;
    RowToBytes(there ? g.a + i * g.a_row : nullptr, there ? g.k : 0, i, to);
  });
  return to;
}

// kPanel columns of B, w + 128, as [k/4][kPanel][4]; columns that are not there are zeros. `lines`
// has room for kSquare of them.
void PackBytes(Strided<int8_t> b, int64_t cols, int64_t k, int64_t depth, uint8_t* lines,
               uint8_t* to) {
  const hn::Repartition<uint8_t, F> d;
  for (int64_t j = 0; j < kPanel; j += kSquare) {
    for (int64_t i = 0; i < kSquare; ++i) {
      uint8_t* line = lines + i * depth;
      if (j + i >= cols) {
        std::fill(line, line + depth, uint8_t{0});
        continue;
      }
      const auto* from = reinterpret_cast<const uint8_t*>(b.at(0, j + i));
      std::copy(from + k / kLine * kLine, from + k, line + k / kLine * kLine);
      std::fill(line + k, line + depth, uint8_t{0});
      for (int64_t at = 0; at < depth; at += kLine) {
        const bool whole = at + kLine <= k;
        const auto w = whole ? hn::LoadU(d, from + at) : hn::Load(d, line + at);
        hn::Store(hn::Xor(w, hn::Set(d, uint8_t{0x80})), d, line + at);
      }
    }
    for (int64_t at = 0; at < depth; at += 4 * kSquare) {
      TransposeSquare(reinterpret_cast<const float*>(lines + at), depth / 4, Unscaled(),
                      reinterpret_cast<float*>(to + at * kPanel) + j, kPanel);
    }
  }
}

// A tile of C without its columns' scales, rows from `row` on.
HWY_INLINE void BytesTile(const LeftBytes& a, int64_t row, const uint8_t* HWY_RESTRICT panel,
                          float* HWY_RESTRICT to) {
  const F d;
  const hn::Rebind<int32_t, F> di;
  for (int64_t p = 0; p < a.parts; ++p) {
    const int64_t last = std::min(a.depth, (p + 1) * kPart);
    const int8_t* HWY_RESTRICT left = a.q.data() + row * a.depth;
    const int64_t at = row * a.parts + p;
    Ints sum[kTileRows][kPanelVecs];
    HWY_UNROLL(8)
    for (int i = 0; i < kTileRows; ++i) {
      HWY_UNROLL(4)
      for (int j = 0; j < kPanelVecs; ++j) sum[i][j] = hn::Set(di, a.begin[at + i * a.parts]);
    }
    for (int64_t k = p * kPart; k < last; k += 4) {
      Ints right[kPanelVecs];
      const auto* words = reinterpret_cast<const int32_t*>(panel + k * kPanel);
      HWY_UNROLL(4)
      for (int j = 0; j < kPanelVecs; ++j) right[j] = hn::Load(di, words + j * kLanes);
      HWY_UNROLL(8)
      for (int i = 0; i < kTileRows; ++i) {
        int32_t four = 0;
        std::memcpy(&four, left + i * a.depth + k, sizeof four);
        const Ints x = hn::Set(di, four);
        HWY_UNROLL(4)
        for (int j = 0; j < kPanelVecs; ++j) sum[i][j] = AddDots(sum[i][j], right[j], x);
      }
    }
    HWY_UNROLL(8)
    for (int i = 0; i < kTileRows; ++i) {
      const Vec s = hn::Set(d, a.scale[at + i * a.parts]);
      HWY_UNROLL(4)
      for (int j = 0; j < kPanelVecs; ++j) {
        float* sums = to + i * kPanel + j * kLanes;
        const Vec before = p > 0 ? hn::Load(d, sums) : hn::Zero(d);
        hn::Store(hn::MulAdd(hn::ConvertTo(d, sum[i][j]), s, before), d, sums);
      }
    }
  }
}

// c = sums·scale + what is added, n ≤ kPanel numbers.
HWY_INLINE void PutBytes(const float* sums, const float* scale, Corner c, int64_t n) {
  const F d;
  for (int64_t j = 0; j < n; j += kLanes) {
    const int64_t some = std::min(kLanes, n - j);
    const auto load = [&](const float* x) HWY_ATTR {
      return some == kLanes ? hn::LoadU(d, x + j) : FirstFloats(d, x + j, some);
    };
    Vec y = hn::Mul(hn::Load(d, sums + j), hn::Load(d, scale + j));
    if (c.plus.bias != nullptr) y = hn::Add(y, load(c.plus.bias));
    if (c.plus.matrix != nullptr) y = hn::Add(y, load(c.plus.matrix));
    if (some == kLanes) {
      hn::StoreU(y, d, c.data + j);
    } else {
      StorePart(y, c.data + j, some);
    }
  }
}

// Rows of C from `first` to `last` of a panel of columns from j on.
HWY_NOINLINE void BytesPanel(const Gemm& g, const LeftBytes& a, Range rows, int64_t j,
                             uint8_t* scratch) {
  const int64_t cols = std::min(kPanel, g.n - j);
  uint8_t* panel = scratch + kSquare * a.depth;
  const Strided<int8_t> b = RightOf(g, static_cast<const int8_t*>(g.b)).from(0, j);
  PackBytes(b, cols, g.k, a.depth, scratch, panel);
  HWY_ALIGN float scale[kPanel] = {};
  for (int64_t i = 0; i < cols; ++i) scale[i] = g.alpha * b.scale.at(0, i);
  HWY_ALIGN float sums[kTileRows * kPanel];
  for (int64_t row = rows.first; row < rows.last; row += kTileRows) {
    BytesTile(a, row, panel, sums);
    for (int64_t i = row; i < std::min(rows.last, row + kTileRows); ++i) {
      PutBytes(sums + (i - row) * kPanel, scale, CornerOf(g).from(i, j), cols);
    }
  }
}

}  // namespace

// `g`, not a batch; B's columns lie in memory, and so do A's rows.
void Bytes(const Gemm& g) {
  const LeftBytes a = ToBytes(g);
  const Crew crew;
  const int64_t panels = DivCeil(g.n, kPanel);
  const int64_t down = std::max(DivCeil(g.m, kMostBytesRows),
                                std::min(DivCeil(2 * crew.size(), panels), g.m / kFewestBytesRows));
  const int64_t rows = RoundUp(DivCeil(g.m, down), kTileRows);
  const int64_t room = (kSquare + kPanel) * a.depth;
  const Buffer<uint8_t> scratch(crew.size() * room);
  crew.run(panels * DivCeil(g.m, rows), [&](int64_t t, int place) HWY_ATTR {
    const int64_t first = t / panels * rows;
    BytesPanel(g, a, {first, std::min(g.m, first + rows)}, t % panels * kPanel,
               scratch.data() + place * room);
  });
}
#else
bool HasBytes() { return false; }
void Bytes(const Gemm&) {}
#endif

}  // namespace fovea::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // FOVEA_GEMM_BYTES_INL_H_
