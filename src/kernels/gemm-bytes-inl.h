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

#include "core/allocator.h"
#include "core/isa.h"
#include "core/threads.h"
#include "kernels/gemm-words-inl.h"
#include "kernels/gemm.h"
#include "kernels/narrow-inl.h"
#include "kernels/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace fovea::kernels::HWY_NAMESPACE {

bool HasBytes() { return HasByteDots(); }

#if FOVEA_DOTS
namespace {

constexpr int64_t kPart = 128;  // of k, with one scale

// A in 8 bits: q [rows,depth], and for each part of a row s and what its sums begin with: the
// weights are taken as w + 128, so −128·Σq. Rows are filled up with zeros to whole tiles.
template <bool kByUnit>
struct LeftBytes {
  Buffer<int8_t> q;
  Buffer<float> scale;
  Buffer<int32_t> begin;
  int64_t depth, parts;

  static constexpr bool kUnit = kByUnit;
  static constexpr int64_t kRows = kLeftRows<kByUnit>;
  static constexpr int64_t kSize = 1;
  static constexpr uint8_t kFlip = 0x80;  // w + 128
  void Tile(int64_t row, const uint8_t* panel, float* to) const;
};

template <class To>
void RowToBytes(const float* from, int64_t n, int64_t row, const To& to) {
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

template <class To>
To InBytes(const Gemm& g) {
  const int64_t rows = RoundUp(g.m, To::kRows), depth = RoundUp(g.k, kLine);
  const int64_t parts = DivCeil(depth, kPart);
  const To to{Buffer<int8_t>(rows * depth), Buffer<float>(rows * parts),
              Buffer<int32_t>(rows * parts), depth, parts};
  parallel_for(rows, 4 * depth, [&](int64_t i) HWY_ATTR {
    const bool there = i < g.m;
    RowToBytes(there ? g.a + i * g.a_row : nullptr, there ? g.k : 0, i, to);
  });
  return to;
}

template <bool kByUnit>
HWY_INLINE void LeftBytes<kByUnit>::Tile(int64_t row, const uint8_t* HWY_RESTRICT panel,
                                         float* HWY_RESTRICT to) const {
  const F d;
  const hn::Rebind<int32_t, F> di;
  for (int64_t p = 0; p < parts; ++p) {
    const int64_t k = p * kPart, bytes = std::min(kPart, depth - k), at = row * parts + p;
    const auto* left = reinterpret_cast<const int32_t*>(q.data() + row * depth + k);
    const auto* words = reinterpret_cast<const int32_t*>(panel + k * kPanel);
    const auto add_part = [&](int64_t i, int64_t j, DotInts sum) HWY_ATTR {
      const Vec s = hn::Set(d, scale[at + i * parts]);
      float* sums = to + i * kPanel + j * kLanes;
      const Vec before = p > 0 ? hn::Load(d, sums) : hn::Zero(d);
      hn::Store(hn::MulAdd(hn::ConvertTo(d, sum), s, before), d, sums);
    };
    if constexpr (kByUnit) {
      HWY_ALIGN int32_t ints[kRows * kPanel];
      unit::multiply<unit::Bytes>(
          unit::Product<int32_t>{.a = {reinterpret_cast<const uint32_t*>(left), depth / 4},
                                 .b = {reinterpret_cast<const uint32_t*>(words), kPanel},
                                 .c = ints,
                                 .ldc = kPanel,
                                 .m = kRows,
                                 .n = kPanel,
                                 .K = bytes / 4,
                                 .accumulate = false});
      for (int64_t i = 0; i < kRows; ++i) {
        const DotInts first = hn::Set(di, begin[at + i * parts]);
        for (int64_t j = 0; j < kPanelVecs; ++j) {
          const DotInts sum = hn::Load(di, ints + i * kPanel + j * kLanes);
          add_part(i, j, hn::Add(sum, first));
        }
      }
      continue;
    }
    DotInts sum[kTileRows][kPanelVecs];
    EachSum<kTileRows, kPanelVecs>(
        [&](int i, int j) HWY_ATTR { sum[i][j] = hn::Set(di, begin[at + i * parts]); });
    AddProducts<ByByteWords>({left, depth / 4, 1}, {words, kPanel}, bytes / 4, sum);
    EachSum<kTileRows, kPanelVecs>([&](int i, int j) HWY_ATTR { add_part(i, j, sum[i][j]); });
  }
}

}  // namespace

// `g`, not a batch; B's columns lie in memory, and so do A's rows.
void Bytes(const Gemm& g) {
  if (uses_matrix_unit()) return ByWords(g, InBytes<LeftBytes<true>>(g));
  ByWords(g, InBytes<LeftBytes<false>>(g));
}
#else
void Bytes(const Gemm&) {}
#endif

}  // namespace fovea::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // FOVEA_GEMM_BYTES_INL_H_
