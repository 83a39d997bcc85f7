#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/recurrent.cc"
#include <hwy/foreach_target.h>
#include "kernels/scalar_size.h"
// Highway's headers follow the line above.
#include <hwy/highway.h>

#include <algorithm>

#include "core/threads.h"
#include "kernels/math-inl.h"
#include "kernels/recurrent.h"

HWY_BEFORE_NAMESPACE();
namespace fovea::kernels {
namespace HWY_NAMESPACE {

using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

// Lanes i … i+n−1 of a row: a whole vector, or what is left at its end.
struct Whole {
  int64_t i;
  HWY_INLINE V operator[](const float* x) const { return hn::LoadU(D(), x + i); }
  HWY_INLINE void put(V v, float* y) const { hn::StoreU(v, D(), y + i); }
};
struct Tail {
  int64_t i, n;
  HWY_INLINE V operator[](const float* x) const {
    HWY_ALIGN float lanes[HWY_MAX_BYTES / sizeof(float)] = {};
    std::copy(x + i, x + i + n, lanes);
    return hn::Load(D(), lanes);
  }
  HWY_INLINE void put(V v, float* y) const {
    HWY_ALIGN float lanes[HWY_MAX_BYTES / sizeof(float)];
    hn::Store(v, D(), lanes);
    std::copy(lanes, lanes + n, y + i);
  }
};

template <class F>
HWY_INLINE void OverRow(int64_t n, const F& f) {
  const int64_t N = static_cast<int64_t>(hn::Lanes(D()));
  int64_t i = 0;
  for (; i + N <= n; i += N) f(Whole{i});
  if (i < n) f(Tail{i, n - i});
}

HWY_INLINE V OneMinus(V x) { return hn::Sub(hn::Set(D(), 1.0f), x); }
// dy·(1 − y²) and dy·y·(1 − y): through tanh and σ, by their values.
HWY_INLINE V ThroughTanh(V dy, V y) { return hn::Mul(dy, hn::NegMulAdd(y, y, hn::Set(D(), 1.0f))); }
HWY_INLINE V ThroughSigmoid(V dy, V y) { return hn::Mul(dy, hn::NegMulAdd(y, y, y)); }

// dh' of these lanes; either part may be absent.
template <class At>
HWY_INLINE V Sum(At at, const float* a, const float* b) {
  if (a == nullptr) return b == nullptr ? hn::Zero(D()) : at[b];
  return b == nullptr ? at[a] : hn::Add(at[a], at[b]);
}

void RnnRow(const RnnStep& s, int64_t H) {
  OverRow(H, [&](auto at) HWY_ATTR { at.put(Tanh(D(), at[s.u]), s.h_next); });
}

void DRnnRow(const RnnGradient& g, int64_t H) {
  OverRow(H, [&](auto at) HWY_ATTR {
    at.put(ThroughTanh(Sum(at, g.d_out, g.dh_next), at[g.h_next]), g.du);
    if (g.dh != nullptr) at.put(hn::Zero(D()), g.dh);
  });
}

void GruRow(const GruStep& s, int64_t H) {
  const D d;
  OverRow(H, [&](auto at) HWY_ATTR {
    const V r = Sigmoid(d, hn::Add(at[s.x], at[s.u]));
    const V z = Sigmoid(d, hn::Add(at[s.x + H], at[s.u + H]));
    const V u_n = at[s.u + 2 * H];
    const V n = Tanh(d, hn::MulAdd(r, u_n, at[s.x + 2 * H]));
    at.put(hn::MulAdd(z, at[s.h], hn::Mul(OneMinus(z), n)), s.h_next);
    if (s.kept == nullptr) return;
    at.put(r, s.kept);
    at.put(z, s.kept + H);
    at.put(n, s.kept + 2 * H);
    at.put(u_n, s.kept + 3 * H);
  });
}

// ds_n = dh'·(1 − z)·tanh′, ds_z = dh'·(h − n)·σ′, ds_r = ds_n·u_n·σ′;  du_n = ds_n·r
void DGruRow(const GruGradient& g, int64_t H) {
  OverRow(H, [&](auto at) HWY_ATTR {
    const V r = at[g.kept], z = at[g.kept + H], n = at[g.kept + 2 * H];
    const V u_n = at[g.kept + 3 * H], dh_next = Sum(at, g.d_out, g.dh_next);
    const V dn = ThroughTanh(hn::Mul(dh_next, OneMinus(z)), n);
    const V dz = ThroughSigmoid(hn::Mul(dh_next, hn::Sub(at[g.h], n)), z);
    const V dr = ThroughSigmoid(hn::Mul(dn, u_n), r);
    at.put(dr, g.dx);
    at.put(dz, g.dx + H);
    at.put(dn, g.dx + 2 * H);
    at.put(dr, g.du);
    at.put(dz, g.du + H);
    at.put(hn::Mul(dn, r), g.du + 2 * H);
    at.put(hn::Mul(dh_next, z), g.dh);
  });
}

void LstmRow(const LstmStep& s, int64_t H) {
  const D d;
  OverRow(H, [&](auto at) HWY_ATTR {
    const V i = Sigmoid(d, at[s.u]), f = Sigmoid(d, at[s.u + H]);
    const V g = Tanh(d, at[s.u + 2 * H]), o = Sigmoid(d, at[s.u + 3 * H]);
    const V c = hn::MulAdd(f, at[s.c], hn::Mul(i, g));
    const V t = Tanh(d, c);
    at.put(c, s.c_next);
    at.put(hn::Mul(o, t), s.h_next);
    if (s.kept == nullptr) return;
    at.put(i, s.kept);
    at.put(f, s.kept + H);
    at.put(g, s.kept + 2 * H);
    at.put(o, s.kept + 3 * H);
    at.put(t, s.kept + 4 * H);
  });
}

// dc = dc' + dh'·o·tanh′;  the gates' from there, and c's is dc·f
void DLstmRow(const LstmGradient& g, int64_t H) {
  const V zero = hn::Zero(D());
  OverRow(H, [&](auto at) HWY_ATTR {
    const V i = at[g.kept], f = at[g.kept + H], n = at[g.kept + 2 * H], o = at[g.kept + 3 * H];
    const V t = at[g.kept + 4 * H];
    const V dh_next = Sum(at, g.d_out, g.dh_next);
    const V dc_next = Sum(at, g.dc_next, nullptr);
    const V dc = hn::Add(dc_next, ThroughTanh(hn::Mul(dh_next, o), t));
    at.put(ThroughSigmoid(hn::Mul(dc, n), i), g.du);
    at.put(ThroughSigmoid(hn::Mul(dc, at[g.c]), f), g.du + H);
    at.put(ThroughTanh(hn::Mul(dc, i), n), g.du + 2 * H);
    at.put(ThroughSigmoid(hn::Mul(dh_next, t), o), g.du + 3 * H);
    if (g.dh != nullptr) at.put(zero, g.dh);
    at.put(hn::Mul(dc, f), g.dc);
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace fovea::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace fovea::kernels {

HWY_EXPORT(RnnRow);
HWY_EXPORT(DRnnRow);
HWY_EXPORT(GruRow);
HWY_EXPORT(DGruRow);
HWY_EXPORT(LstmRow);
HWY_EXPORT(DLstmRow);

namespace {

// An exponential costs about ten of the numbers parallel_for() counts in.
constexpr int64_t kExp = 10;

template <class Active, class Idle>
void for_rows(const CellRows& rows, int64_t cost, const Active& active, const Idle& idle) {
  if (rows.hidden == 0) return;
  parallel_for(rows.count, cost * rows.hidden, [&](int64_t r) {
    if (rows.active == nullptr || rows.active[r] != 0) {
      active(r);
    } else {
      idle(r);
    }
  });
}

// Row r of a tensor whose rows have `width` numbers; absent ones stay so.
template <class T>
T* row_of(T* x, int64_t r, int64_t width) {
  return x == nullptr ? nullptr : x + r * width;
}

// The state's gradient of an idle row: to = from, an absent one being 0.
void pass_on(const float* from, int64_t r, int64_t n, float* to) {
  if (to == nullptr || to == from) return;
  if (from == nullptr) {
    std::fill_n(to + r * n, n, 0.0f);
  } else {
    std::copy_n(from + r * n, n, to + r * n);
  }
}

}  // namespace

void rnn_forward(const CellRows& rows, const RnnStep& s) {
  const auto row = HWY_DYNAMIC_DISPATCH(RnnRow);
  const int64_t H = rows.hidden, step = rows.step;
  for_rows(
      rows, kExp,
      [&](int64_t r) {
        row({s.u + r * H, s.h + r * step, s.h_next + r * step}, H);
      },
      [&](int64_t r) { std::copy_n(s.h + r * step, H, s.h_next + r * step); });
}

void rnn_backward(const CellRows& rows, const RnnGradient& g) {
  const auto row = HWY_DYNAMIC_DISPATCH(DRnnRow);
  const int64_t H = rows.hidden, step = rows.step;
  for_rows(
      rows, 4,
      [&](int64_t r) {
        row({g.h_next + r * step, row_of(g.d_out, r, step), row_of(g.dh_next, r, H), g.du + r * H,
             row_of(g.dh, r, H)},
            H);
      },
      [&](int64_t r) {
        std::fill_n(g.du + r * H, H, 0.0f);
        pass_on(g.dh_next, r, H, g.dh);
      });
}

void gru_forward(const CellRows& rows, const GruStep& s) {
  const auto row = HWY_DYNAMIC_DISPATCH(GruRow);
  const int64_t H = rows.hidden, step = rows.step;
  for_rows(
      rows, 3 * kExp,
      [&](int64_t r) {
        row({s.x + r * 3 * H, s.u + r * 3 * H, s.h + r * step, s.h_next + r * step,
             row_of(s.kept, r, 4 * H)},
            H);
      },
      [&](int64_t r) { std::copy_n(s.h + r * step, H, s.h_next + r * step); });
}

void gru_backward(const CellRows& rows, const GruGradient& g) {
  const auto row = HWY_DYNAMIC_DISPATCH(DGruRow);
  const int64_t H = rows.hidden, step = rows.step;
  for_rows(
      rows, 13,
      [&](int64_t r) {
        row({g.kept + r * 4 * H, g.h + r * step, row_of(g.d_out, r, step), row_of(g.dh_next, r, H),
             g.dx + r * 3 * H, g.du + r * 3 * H, g.dh + r * H},
            H);
      },
      [&](int64_t r) {
        std::fill_n(g.dx + r * 3 * H, 3 * H, 0.0f);
        std::fill_n(g.du + r * 3 * H, 3 * H, 0.0f);
        pass_on(g.dh_next, r, H, g.dh);
      });
}

void lstm_forward(const CellRows& rows, const LstmStep& s) {
  const auto row = HWY_DYNAMIC_DISPATCH(LstmRow);
  const int64_t H = rows.hidden, step = rows.step;
  for_rows(
      rows, 5 * kExp,
      [&](int64_t r) {
        row({s.u + r * 4 * H, s.h + r * step, s.c + r * H, s.h_next + r * step, s.c_next + r * H,
             row_of(s.kept, r, 5 * H)},
            H);
      },
      [&](int64_t r) {
        std::copy_n(s.h + r * step, H, s.h_next + r * step);
        std::copy_n(s.c + r * H, H, s.c_next + r * H);
      });
}

void lstm_backward(const CellRows& rows, const LstmGradient& g) {
  const auto row = HWY_DYNAMIC_DISPATCH(DLstmRow);
  const int64_t H = rows.hidden, step = rows.step;
  for_rows(
      rows, 15,
      [&](int64_t r) {
        row({g.kept + r * 5 * H, g.c + r * H, row_of(g.d_out, r, step), row_of(g.dh_next, r, H),
             row_of(g.dc_next, r, H), g.du + r * 4 * H, row_of(g.dh, r, H), g.dc + r * H},
            H);
      },
      [&](int64_t r) {
        std::fill_n(g.du + r * 4 * H, 4 * H, 0.0f);
        pass_on(g.dh_next, r, H, g.dh);
        pass_on(g.dc_next, r, H, g.dc);
      });
}

}  // namespace fovea::kernels
#endif  // HWY_ONCE
