// The one register tile of all matrix products: MR rows of NV vectors of sums stay in registers
// while k runs; each step loads NV vectors of B and multiplies them by a number of A for each row.
// Who builds on it says how many rows and vectors, how sums begin, and what becomes of them.
#if defined(FOVEA_TILE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FOVEA_TILE_INL_H_
#undef FOVEA_TILE_INL_H_
#else
#define FOVEA_TILE_INL_H_
#endif

#include <hwy/highway.h>

#include <cstdint>
#include <cstring>

#include "kernels/dots-inl.h"
#include "kernels/load-inl.h"

HWY_BEFORE_NAMESPACE();
namespace fovea::kernels::HWY_NAMESPACE {
namespace {

using F = hn::ScalableTag<float>;
using Vec = hn::Vec<F>;
constexpr int64_t kLanes = hn::MaxLanes(F());
constexpr bool kManyRegisters = HWY_TARGET <= HWY_AVX3;  // 32 of them; else 16

// ---- The tile ----------------------------------------------------------------------------------

// A is read one number at a time: number i of step k is step(k)[down(i)]. By strides here; who has
// a table for one of them says so by a type of its own.
template <class T>
struct Left {
  const T* data;
  int64_t row, col;
  HWY_INLINE const T* step(int64_t k) const { return data + k * col; }
  HWY_INLINE int64_t down(int64_t i) const { return i * row; }
};
// Rows of B are whole vectors, `row` numbers apart; the same holds for them.
template <class T>
struct Right {
  const T* data;
  int64_t row;
  HWY_INLINE const T* step(int64_t k) const { return data + k * row; }
};

// How a step multiplies: what A and B hold, what is summed, and how many products, one after the
// other, a step adds to each sum (kParts). Spread() gives part p of a number of A to all lanes,
// Load() that of a vector of B.
struct ByFloats {
  using A = float;
  using B = float;
  using Sum = Vec;
  static constexpr int kParts = 1;
  template <int p>
  static HWY_INLINE Vec Spread(const float* a) {
    return hn::Set(F(), *a);
  }
  template <int p>
  static HWY_INLINE Vec Load(const float* b) {
    return hn::LoadU(F(), b);
  }
  static HWY_INLINE Vec Add(Vec a, Vec b, Vec sum) { return hn::MulAdd(a, b, sum); }
};

// Words of B are bf16 of k = 2i and 2i + 1, A's are floats: two products, one after the other, so
// that only one vector of floats is made of a word at a time.
struct ByPairs {
  using A = float;
  using B = uint32_t;
  using Sum = Vec;
  static constexpr int kParts = 2;
  template <int p>
  static HWY_INLINE Vec Spread(const float* a) {
    return hn::Set(F(), a[p]);
  }
  template <int p>
  static HWY_INLINE Vec Load(const uint32_t* b) {
    const DotWords pair = hn::LoadU(hn::ScalableTag<uint32_t>(), b);
    return p == 0 ? FirstOf(pair) : SecondOf(pair);
  }
  static HWY_INLINE Vec Add(Vec a, Vec b, Vec sum) { return hn::MulAdd(a, b, sum); }
};

// Both sides are words, whose products one instruction adds: two of bf16, where HasBf16Dots(), or
// four of 8 bits, unsigned ones of B, where HasByteDots().
struct ByHalfWords {
  using A = uint32_t;
  using B = uint32_t;
  using Sum = DotSums;
  static constexpr int kParts = 1;
  template <int p>
  static HWY_INLINE DotWords Spread(const uint32_t* a) {
    uint32_t two = 0;
    std::memcpy(&two, a, sizeof two);  // what lies there are numbers of 16 bits
    return hn::Set(hn::ScalableTag<uint32_t>(), two);
  }
  template <int p>
  static HWY_INLINE DotWords Load(const uint32_t* b) {
    return hn::LoadU(hn::ScalableTag<uint32_t>(), b);
  }
  static HWY_INLINE DotSums Add(DotWords a, DotWords b, DotSums sum) { return AddDots(sum, a, b); }
};
struct ByByteWords {
  using A = int32_t;
  using B = int32_t;
  using Sum = DotInts;
  static constexpr int kParts = 1;
  template <int p>
  static HWY_INLINE DotInts Spread(const int32_t* a) {
    int32_t four = 0;
    std::memcpy(&four, a, sizeof four);
    return hn::Set(hn::ScalableTag<int32_t>(), four);
  }
  template <int p>
  static HWY_INLINE DotInts Load(const int32_t* b) {
    return hn::LoadU(hn::ScalableTag<int32_t>(), b);
  }
  static HWY_INLINE DotInts Add(DotInts a, DotInts b, DotInts sum) { return AddDots(sum, b, a); }
};

// body(i, j) for all sums of a tile.
template <int MR, int NV, class Body>
HWY_INLINE void EachSum(const Body& body) {
  HWY_UNROLL(8)
  for (int i = 0; i < MR; ++i) {
    HWY_UNROLL(4)
    for (int j = 0; j < NV; ++j) body(i, j);
  }
}

// sum[i][j] += part p of one step's products.
template <class By, int p, int MR, int NV, class LeftSide>
HWY_INLINE void AddPart(const LeftSide& a, const typename By::A* left, const typename By::B* right,
                        typename By::Sum (&sum)[MR][NV]) {
  decltype(By::template Load<p>(right)) b[NV];
  HWY_UNROLL(4)
  for (int j = 0; j < NV; ++j) b[j] = By::template Load<p>(right + j * kLanes);
  HWY_UNROLL(8)
  for (int i = 0; i < MR; ++i) {
    const auto number = By::template Spread<p>(left + a.down(i));
    HWY_UNROLL(4)
    for (int j = 0; j < NV; ++j) sum[i][j] = By::Add(number, b[j], sum[i][j]);
  }
}

// What is done before each step where there is nothing to do.
struct Nothing {
  HWY_INLINE void operator()() const {}
};

// sum[i][j] += Σ_k a[i][k]·b[k][j], depth steps of k. All that runs longest is in here; the sums
// are the caller's own variables, and stay in registers because this is always inlined.
template <class By, int MR, int NV, class LeftSide = Left<typename By::A>,
          class RightSide = Right<typename By::B>, class Before = Nothing>
HWY_INLINE void AddProducts(LeftSide a, RightSide b, int64_t depth, typename By::Sum (&sum)[MR][NV],
                            Before before = {}) {
  for (int64_t k = 0; k < depth; ++k) {
    const typename By::A* HWY_RESTRICT left = a.step(k);
    const typename By::B* HWY_RESTRICT right = b.step(k);
    before();
    AddPart<By, 0>(a, left, right, sum);
    if constexpr (By::kParts == 2) AddPart<By, 1>(a, left, right, sum);
  }
}

// ---- What tiles read and write -----------------------------------------------------------------

// The first n < kLanes lanes of v.
HWY_INLINE void StorePart(Vec v, float* to, int64_t n) {
#if FOVEA_MASKED
  hn::BlendedStore(v, hn::FirstN(F(), static_cast<size_t>(n)), F(), to);
#else
  HWY_ALIGN float lanes[kLanes];
  hn::Store(v, F(), lanes);
  std::memcpy(to, lanes, static_cast<size_t>(n) * sizeof(float));
#endif
}

// The first n lanes of v, or all of them.
HWY_INLINE void StoreUpTo(Vec v, float* to, int64_t n) {
  if (n >= kLanes) return hn::StoreU(v, F(), to);
  StorePart(v, to, n);
}

// to = factor·from, n numbers, filled up with 0 to a whole vector.
template <class T>
HWY_INLINE void PackRow(const T* HWY_RESTRICT from, int64_t n, Vec factor, float* HWY_RESTRICT to) {
  const F d;
  int64_t j = 0;
  for (; j + kLanes <= n; j += kLanes) {
    hn::StoreU(hn::Mul(Floats(d, from + j), factor), d, to + j);
  }
  if (j < n) hn::StoreU(hn::Mul(FirstFloats(d, from + j, n - j), factor), d, to + j);
}

HWY_INLINE float SumOf(Vec v) { return hn::GetLane(hn::SumOfLanes(F(), v)); }

#if HWY_TARGET != HWY_SCALAR
// Blocks of four lanes added up.
template <class D>
HWY_INLINE void StoreBlockSum(D d, hn::Vec<D> v, float* to) {
  if constexpr (hn::MaxLanes(D()) <= 4) {
    hn::StoreU(v, d, to);
  } else {
    const hn::Half<D> half;
    StoreBlockSum(half, hn::Add(hn::LowerHalf(half, v), hn::UpperHalf(half, v)), to);
  }
}
#endif

// to[j] = the sum of v[j]'s lanes: 4×4 transposed inside blocks while they are added.
HWY_INLINE void SumsOf(const Vec (&v)[4], float* to) {
#if HWY_TARGET == HWY_SCALAR
  for (int j = 0; j < 4; ++j) to[j] = SumOf(v[j]);
#else
  const F d;
  const hn::Repartition<uint64_t, F> d64;
  const auto pair = [&](Vec a, Vec b) HWY_ATTR {
    return hn::BitCast(d64, hn::Add(hn::InterleaveLower(d, a, b), hn::InterleaveUpper(d, a, b)));
  };
  const auto low = pair(v[0], v[1]), high = pair(v[2], v[3]);
  StoreBlockSum(d,
                hn::Add(hn::BitCast(d, hn::InterleaveLower(d64, low, high)),
                        hn::BitCast(d, hn::InterleaveUpper(d64, low, high))),
                to);
#endif
}

}  // namespace
}  // namespace fovea::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // FOVEA_TILE_INL_H_
