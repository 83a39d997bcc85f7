#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/narrow.cc"
#include <hwy/foreach_target.h>
// Highway's headers follow the line above.
#include <hwy/highway.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <vector>

#include "core/allocator.h"
#include "core/threads.h"
#include "kernels/load-inl.h"
#include "kernels/narrow-inl.h"
#include "kernels/narrow.h"

#ifndef FOVEA_HALF_OF
#define FOVEA_HALF_OF
namespace fovea::kernels {
namespace {

// The nearest of 16 bits, of two the even one; too large: infinite.
uint16_t half_of(float x) {
  const auto bits = std::bit_cast<uint32_t>(x);
  const uint32_t sign = bits >> 16 & 0x8000u, size = bits & 0x7fffffffu;
  const auto value = std::bit_cast<float>(size);
  uint32_t half = 0;
  if (size > 0x7f800000u) {
    half = 0x7e00u;
  } else if (value >= 65520.0f) {
    half = 0x7c00u;
  } else if (value < 0x1p-14f) {
    half = static_cast<uint32_t>(std::nearbyint(value * 0x1p24f));
  } else {
    half = ((size + 0xfffu + (size >> 13 & 1u)) >> 13) - (112u << 10);
  }
  return static_cast<uint16_t>(sign | half);
}

}  // namespace
}  // namespace fovea::kernels
#endif

HWY_BEFORE_NAMESPACE();
namespace fovea::kernels {
namespace HWY_NAMESPACE {
namespace {

template <class T>
void Widen(const T* x, int64_t n, float factor, float* HWY_RESTRICT to) {
  const auto by = hn::Set(F(), factor);
  ForVectors(x, n, [&](int64_t i, hn::Vec<F> v, int64_t some) HWY_ATTR {
    StoreSome(hn::Mul(v, by), F(), to + i, some);
  });
}

}  // namespace

void WidenRow(const WeightRows& w, int64_t r, float* to) {
  const float factor = w.scale != nullptr ? w.scale[r] : 1.0f;
  as_type(w.type, w.data,
          [&](const auto* data) HWY_ATTR { Widen(data + r * w.row, w.cols, factor, to); });
}

float NarrowRow(const float* x, int64_t n, Number type, void* to) {
  if (type == Number::i8) return ToI8(x, n, static_cast<int8_t*>(to));
  if (type == Number::bf16) ToBf16(x, n, static_cast<uint16_t*>(to));
  if (type == Number::f16) std::transform(x, x + n, static_cast<uint16_t*>(to), half_of);
  if (type == Number::f32) std::copy_n(x, n, static_cast<float*>(to));
  return 1.0f;
}

// Σ(a − b)² and Σa²
Narrowed Compare(const float* a, const float* b, int64_t n) {
  auto lost = hn::Zero(F()), all = hn::Zero(F());
  ForVectors(a, n, [&](int64_t i, hn::Vec<F> v, int64_t some) HWY_ATTR {
    const auto other = some == kWhole ? Floats(F(), b + i) : FirstFloats(F(), b + i, some);
    const auto off = hn::Sub(v, other);
    lost = hn::MulAdd(off, off, lost);
    all = hn::MulAdd(v, v, all);
  });
  const auto sum = [](hn::Vec<F> v) HWY_ATTR {
    return static_cast<double>(hn::GetLane(hn::SumOfLanes(F(), v)));
  };
  return {sum(lost), sum(all)};
}

}  // namespace HWY_NAMESPACE
}  // namespace fovea::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace fovea::kernels {

HWY_EXPORT(WidenRow);
HWY_EXPORT(NarrowRow);
HWY_EXPORT(Compare);

void widen_rows(const WeightRows& w, const int64_t* ids, int64_t n, float* y) {
  const auto widen = HWY_DYNAMIC_DISPATCH(WidenRow);
  parallel_for(n, w.cols, [&](int64_t i) { widen(w, ids ? ids[i] : i, y + i * w.cols); });
}

void narrow_numbers(const float* x, int64_t n, Number type, void* to) {
  const auto narrow = HWY_DYNAMIC_DISPATCH(NarrowRow);
  constexpr int64_t kPart = 4096;
  parallel_for((n + kPart - 1) / kPart, kPart, [&](int64_t part) {
    const int64_t first = part * kPart;
    narrow(x + first, std::min(kPart, n - first), type,
           static_cast<char*>(to) + first * size_of(type));
  });
}

Narrowed narrow_rows(const WeightRows& w, int64_t n, Number type, void* to, float* scale) {
  const auto widen = HWY_DYNAMIC_DISPATCH(WidenRow);
  const auto narrow = HWY_DYNAMIC_DISPATCH(NarrowRow);
  const auto compare = HWY_DYNAMIC_DISPATCH(Compare);
  constexpr int64_t kRows = 16;  // to a task
  const int64_t tasks = (n + kRows - 1) / kRows;
  std::vector<Narrowed> costs(static_cast<size_t>(tasks));
  parallel_for(tasks, kRows * 8 * w.cols, [&](int64_t task) {
    const Buffer<float> row(2 * w.cols);
    float *was = row.data(), *is = was + w.cols;
    for (int64_t r = task * kRows; r < std::min(n, (task + 1) * kRows); ++r) {
      char* place = static_cast<char*>(to) + r * w.cols * size_of(type);
      widen(w, r, was);
      const float s = narrow(was, w.cols, type, place);
      if (type == Number::i8) scale[r] = s;
      widen({place, type, &s, w.cols, 0}, 0, is);
      const Narrowed one = compare(was, is, w.cols);
      costs[static_cast<size_t>(task)].lost += one.lost;
      costs[static_cast<size_t>(task)].all += one.all;
    }
  });
  Narrowed sum;
  for (const Narrowed& c : costs) sum.lost += c.lost, sum.all += c.all;
  return sum;
}

}  // namespace fovea::kernels
#endif  // HWY_ONCE
