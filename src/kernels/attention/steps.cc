#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/attention/steps.cc"
#include <algorithm>
#include <cstring>

#include <hwy/foreach_target.h>
#include "kernels/scalar_size.h"
// Highway's headers follow the line above.
#include <hwy/highway.h>

#include "core/threads.h"
#include "kernels/attention/step_parts.h"
#include "kernels/attention/steps-additive-inl.h"
#include "kernels/attention/steps-rows-inl.h"
#include "kernels/attention/steps.h"

// One function for one batch row each; below, they are called for all of them.
HWY_BEFORE_NAMESPACE();
namespace fovea::kernels::HWY_NAMESPACE {

void PrepareRow(const StepMemory& m, int64_t b, StepExponentials& to) {
  float most = 0.0f;
  for (int64_t j = 0; j < m.ends[b]; ++j) {
    const float* row = m.keys.row(b, j);
    most = LargestOf(row, m.keys.width, most);
    PadRow(row, m.keys.width, m.ld(), true, to.keys.data() + (b * m.Lk + j) * m.ld());
  }
  to.largest_keys[b] = most;
}

void ForwardRow(const StepMemory& m, int64_t b, const StepForward& x, float* room) {
  const int64_t end = m.ends[b], ld = m.ld();
  float* s = x.p + b * m.Lk;
  if (m.u && end > 0) {
    const Sides side = SidesOf(m, b, &x.q, 1, room);
    ByReach(side.reach, [&](auto reach) HWY_ATTR {
      int64_t j = 0;
      for (; j + 4 <= end; j += 4) {
        AdditiveScores<reach(), 4>(side.q, side.k + j * ld, m.made->u.data(), ld, s + j);
      }
      for (; j < end; ++j) {
        AdditiveScores<reach(), 1>(side.q, side.k + j * ld, m.made->u.data(), ld, s + j);
      }
    });
  } else {
    DotWithRows(m.keys, b, end, x.q + b * m.keys.width, s);
  }
  SoftmaxInPlace(s, end, m.Lk, x.factor);
  SumRows(m.values, b, end, s, x.context + b * m.values.width);
}

void DWeightsRow(const StepMemory& m, int64_t b, const float* d_context, float* dp) {
  const int64_t end = m.ends[b];
  DotWithRows(m.values, b, end, d_context + b * m.values.width, dp + b * m.Lk);
  std::fill(dp + b * m.Lk + end, dp + (b + 1) * m.Lk, 0.0f);
}

void DQueryRow(const StepMemory& m, int64_t b, const StepGradient& x, float* room) {
  constexpr int kVecs = 4;
  const int64_t end = m.ends[b], at = b * m.Lk, width = m.keys.width;
  float mean = 0.0f;
  for (int64_t j = 0; j < end; ++j) mean += x.p[at + j] * x.dp[at + j];
  float* g = x.g + at;
  for (int64_t j = 0; j < end; ++j) g[j] = x.factor * x.p[at + j] * (x.dp[at + j] - mean);
  std::fill(g + end, g + m.Lk, 0.0f);
  float* dq = x.dq + b * width;
  if (!m.u || end == 0) return SumRows(m.keys, b, end, g, dq);
  const AdditiveSlopes slopes{
      SidesOf(m, b, &x.q, 1, room), g, m.Lk, 1, m.made->u.data(), m.ld(), width};
  ByReach(slopes.side.reach, [&](auto reach) HWY_ATTR {
    int64_t c = 0;
    for (; c + kVecs * kLanes <= m.ld(); c += kVecs * kLanes) {
      AdditiveQuery<reach(), kVecs>(slopes, c, end, dq);
    }
    for (; c < m.ld(); c += kLanes) {
      AdditiveQuery<reach(), 1>(slopes, c, end, dq);
    }
  });
}

// room: steps·(Lk + ld + kPad) floats
void DRowsRow(const StepMemory& m, int64_t b, std::span<const KeptStep> kept,
              const RowsView<float>& to, float* room) {
  constexpr int kRows = 8, kVecs = 2;
  const int64_t steps = static_cast<int64_t>(kept.size()), width = to.width, end = m.ends[b];
  const int64_t ldx = (width + kVecs * kLanes - 1) / (kVecs * kLanes) * (kVecs * kLanes);
  float* w = room;
  float* x = room + steps * m.Lk;
  for (int64_t t = 0; t < steps; ++t) {
    std::memcpy(w + t * m.Lk, kept[t].weights + b * m.Lk, m.Lk * sizeof(float));
    PadRow(kept[t].vectors + b * width, width, ldx, false, x + t * ldx);
  }
  for (int64_t c = 0; c < width; c += kVecs * kLanes) {
    int64_t j = 0;
    for (; j + kRows <= end; j += kRows) {
      float* rows[kRows];
      for (int i = 0; i < kRows; ++i) rows[i] = to.row(b, j + i) + c;
      OuterTile<kRows, kVecs>({w + j, m.Lk, x + c, ldx, steps}, rows, width - c);
    }
    for (; j < end; ++j) {
      float* row = to.row(b, j) + c;
      OuterTile<1, kVecs>({w + j, m.Lk, x + c, ldx, steps}, &row, width - c);
    }
  }
  for (int64_t j = end; j < m.Lk; ++j) std::fill_n(to.row(b, j), width, 0.0f);
}

// room: steps·(Lk + ld) + Lk·ld floats
void DAdditiveRow(const StepMemory& m, int64_t b, std::span<const KeptStep> kept,
                  const AdditiveTargets& out, float* room) {
  const F d;
  const int64_t steps = static_cast<int64_t>(kept.size()), width = m.keys.width, end = m.ends[b];
  std::vector<const float*> queries;
  for (const KeptStep& step : kept) queries.push_back(step.vectors);
  const RowsView<float>& to = out.d_keys;
  float* g = room + (steps + m.Lk) * m.ld();
  const AdditiveSlopes slopes{
      SidesOf(m, b, queries.data(), steps, room), g, m.Lk, steps, m.made->u.data(), m.ld(), width};
  for (int64_t t = 0; t < steps; ++t) {
    std::memcpy(g + t * m.Lk, kept[t].weights + b * m.Lk, m.Lk * sizeof(float));
  }
  ByReach(slopes.side.reach, [&](auto reach) HWY_ATTR {
    for (int64_t c = 0; c < m.ld(); c += kLanes) {
      Vec total = hn::Zero(d);
      float* rows[4] = {};
      const bool write = to.data != nullptr && c < width;
      int64_t j = 0;
      for (; j + 4 <= end; j += 4) {
        for (int i = 0; write && i < 4; ++i) rows[i] = to.row(b, j + i);
        total = AdditiveKeys<reach(), 4>(slopes, c, j, write ? rows : nullptr, total);
      }
      for (; j < end; ++j) {
        if (write) rows[0] = to.row(b, j);
        total = AdditiveKeys<reach(), 1>(slopes, c, j, write ? rows : nullptr, total);
      }
      hn::StoreU(total, d, out.gr + b * m.ld() + c);
    }
  });
  for (int64_t j = end; to.data && j < m.Lk; ++j) std::fill_n(to.row(b, j), width, 0.0f);
}

}  // namespace fovea::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace fovea::kernels {

HWY_EXPORT(PrepareRow);
HWY_EXPORT(ForwardRow);
HWY_EXPORT(DWeightsRow);
HWY_EXPORT(DQueryRow);
HWY_EXPORT(DRowsRow);
HWY_EXPORT(DAdditiveRow);

namespace {

int64_t padded(int64_t width) { return (width + kStepPad - 1) / kStepPad * kStepPad; }

// body(b, room): `room` is the running thread's own.
template <class Body>
void for_rows(const StepMemory& m, int64_t cost, int64_t floats, const Body& body) {
  const Crew crew;
  const Buffer<float> room(crew.size() * padded(floats));
  crew.run(m.B, cost, [&](int64_t b, int place) { body(b, room.data() + place * padded(floats)); });
}

int64_t touched(const StepMemory& m) { return m.Lk * (m.keys.width + m.values.width); }

}  // namespace

std::shared_ptr<const StepExponentials> steps_prepare(const StepMemory& m) {
  if (!m.u) return nullptr;
  const int64_t ld = m.ld();
  const auto made = std::make_shared<StepExponentials>();
  made->keys = Buffer<float>(m.B * m.Lk * ld);
  made->largest_keys.assign(m.B, 0.0f);
  made->u = Buffer<float>(ld);
  std::copy(m.u, m.u + m.keys.width, made->u.data());
  std::fill(made->u.data() + m.keys.width, made->u.data() + ld, 0.0f);
  parallel_for(m.B, m.Lk * ld, [&](int64_t b) { HWY_DYNAMIC_DISPATCH(PrepareRow)(m, b, *made); });
  return made;
}

void step_forward(const StepMemory& m, const float* q, float factor, float* p, float* context) {
  for_rows(m, touched(m), (1 + m.Lk) * m.ld(), [&](int64_t b, float* room) {
    HWY_DYNAMIC_DISPATCH(ForwardRow)(m, b, {q, factor, p, context}, room);
  });
}

void step_d_weights(const StepMemory& m, const float* d_context, float* dp) {
  parallel_for(m.B, touched(m), [&](int64_t b) {
    HWY_DYNAMIC_DISPATCH(DWeightsRow)(m, b, d_context, dp);
  });
}

void step_d_query(const StepMemory& m, const StepGradient& x) {
  for_rows(m, touched(m), (1 + m.Lk) * m.ld(), [&](int64_t b, float* room) {
    HWY_DYNAMIC_DISPATCH(DQueryRow)(m, b, x, room);
  });
}

void steps_d_rows(const StepMemory& m, std::span<const KeptStep> kept,
                  const RowsView<float>& d_rows) {
  const int64_t steps = static_cast<int64_t>(kept.size());
  for_rows(m, steps * touched(m), steps * (m.Lk + padded(d_rows.width)),
           [&](int64_t b, float* room) {
             HWY_DYNAMIC_DISPATCH(DRowsRow)(m, b, kept, d_rows, room);
           });
}

void steps_d_additive(const StepMemory& m, std::span<const KeptStep> kept,
                      const RowsView<float>& d_keys, float* du) {
  const int64_t steps = static_cast<int64_t>(kept.size());
  const Buffer<float> gr(m.B * m.ld());
  for_rows(m, steps * touched(m), (steps + m.Lk) * m.ld() + steps * m.Lk,
           [&](int64_t b, float* room) {
             HWY_DYNAMIC_DISPATCH(DAdditiveRow)(m, b, kept, {d_keys, gr.data()}, room);
           });
  if (du == nullptr) return;
  for (int64_t c = 0; c < m.keys.width; ++c) {
    double sum = 0.0;
    for (int64_t b = 0; b < m.B; ++b) sum += gr[b * m.ld() + c];
    du[c] = static_cast<float>(-2.0 * sum);
  }
}

}  // namespace fovea::kernels
#endif
