// Weights and entropy on demand, from the statistic that the forward pass kept of each row.
#if defined(FOVEA_ATTENTION_INSPECT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FOVEA_ATTENTION_INSPECT_INL_H_
#undef FOVEA_ATTENTION_INSPECT_INL_H_
#else
#define FOVEA_ATTENTION_INSPECT_INL_H_
#endif

#include "kernels/attention/blocks-inl.h"
#include "kernels/attention/forward-inl.h"

HWY_BEFORE_NAMESPACE();
namespace fovea::kernels::HWY_NAMESPACE {

// Calls row(x, s) for every stretch of masked scores of rows[i0 … i0+n), keys in order. `rows`
// null: the rows themselves.
template <class RowFunction>
HWY_INLINE void ForEachStretch(const ForwardCall& c, const PackedKeys& keys, int64_t b, int64_t h,
                               const int64_t* rows, int64_t i0, int64_t n, float* scratch,
                               const RowFunction& row) {
  const AttentionProblem& p = c.p;
  const ForwardScratch mem(p, c.by, scratch);
  BlockRanges r;
  FindRanges(p, b, h, rows, i0, n, r);
  PackedQueries queries;
  if (!rows) {
    queries = PackQueries(p, keys.range, c.w, RowsOf(p.q, b, h, i0), n, mem.queries);
  } else {  // picked rows, gathered
    queries = {mem.queries, QueryFloats(p)};
    for (int64_t i = 0; i < n && p.family != Family::given; ++i) {
      float* to = mem.queries + i * queries.ld;
      const PackedQueries one =
          PackQueries(p, keys.range, c.w, RowsOf(p.q, b, h, rows[i0 + i]), 1, to);
      if (one.rows != to) std::copy(one.rows, one.rows + p.D, to);
    }
  }
  for (int64_t j0 = RoundDown(r.first, c.by.keys); j0 < r.last; j0 += c.by.keys) {
    const int64_t j1 = std::min(j0 + c.by.keys, r.last);
    for (int64_t g = 0; g * kGroup < n; ++g) {
      const int64_t first = g * kGroup, m = std::min(kGroup, n - first);
      if (p.family == Family::given && rows) {
        for (int64_t i = 0; i < m; ++i) {  // rows that do not follow one another
          EachPart(r, g, j0, j1, [&](PanelPart part) HWY_ATTR {
            ScorePanel(p, keys, queries, c.w, {b, h, rows[i0 + first + i]}, 0, 1, part,
                       mem.s + i * mem.lds + (part.j - j0), mem.lds);
          });
        }
      } else {
        ScoreGroup(p, keys, queries, c.w, {b, h, i0}, r, g, m, j0, j1, mem.s, mem.lds);
      }
      for (int64_t i = first; i < first + m; ++i) {
        const Stretch x = StretchOf(r, {b, h, 0}, i, rows ? rows[i0 + i] : i0 + i, j0, j1);
        if (x.from >= x.to) break;
        float* s = mem.s + (i - first) * mem.lds;
        if (NeedsMask(p, x)) MaskRow(p, x, s);
        row(x, s, i, mem.spare);
      }
    }
  }
}

struct WeightRows {
  const ForwardCall& c;
  const AttentionResult& done;
  const View<float>& to;
  int64_t head, first;  // of the selection
  HWY_ATTR void operator()(const Stretch& x, float* s, int64_t i, float* spare) const {
    const AttentionProblem& p = c.p;
    if (p.weigh == Weigh::formula) {
      FormulaRow(p, x, s, spare);
    } else {
      const float stat = done.stat ? done.stat[(x.b * p.H + x.h) * p.Lq + x.i] : 0.0f;
      WeighRow(p.weigh, s + (x.from - x.origin), x.size(), stat);
    }
    if (HasFactor(p)) FactorRow(p, x, s);
    float* out = to.row(x.b, head, first + i);
    for (int64_t j = x.begin; j < x.end; ++j) out[j * to.c] = s[j - x.origin];
  }
};

HWY_NOINLINE void WeightsBlock(const ForwardCall& c, const AttentionResult& done,
                               const WeightsSelection& pick, const View<float>& to,
                               const PackedKeys& keys, int64_t b, int64_t head, int64_t i0,
                               float* scratch) {
  const AttentionProblem& p = c.p;
  const int64_t h = pick.heads ? pick.heads[head] : head;
  const int64_t n = std::min(c.by.rows, pick.n_rows - i0);
  for (int64_t i = i0; i < i0 + n; ++i) {
    float* out = to.row(b, head, i);
    for (int64_t j = 0; j < p.Lk; ++j) out[j * to.c] = 0.0f;
    if (!Hard(p.weigh)) continue;
    const int64_t row = pick.rows ? pick.rows[i] : i;
    const int32_t j = done.chosen[(b * p.H + h) * p.Lq + row];
    if (j >= 0) out[j * to.c] = ChosenWeight(p, b, h, row, j);
  }
  if (Hard(p.weigh)) return;
  ForEachStretch(c, keys, b, h, pick.rows, i0, n, scratch, WeightRows{c, done, to, head, i0});
}

struct EntropyRows {
  const AttentionProblem& p;
  const float* stat;
  float* entropy;
  HWY_ATTR void operator()(const Stretch& x, float* s, int64_t, float*) const {
    const F d;
    const int64_t at = (x.b * p.H + x.h) * p.Lq + x.i;
    const float log_sum =
        LargeStat(stat[at]) ? Recenter(s + (x.from - x.origin), x.size()) : stat[at];
    const Vec base = hn::Set(d, log_sum == -kInf ? 0.0f : log_sum);
    Vec sum = hn::Zero(d);
    for (int64_t j = x.from; j < x.to; j += kLanes) {
      const Vec log_p = hn::Sub(hn::LoadU(d, s + (j - x.origin)), base);
      const Vec w = Exp(log_p);
      sum = hn::Add(sum, hn::IfThenZeroElse(hn::Eq(w, hn::Zero(d)), hn::Mul(w, log_p)));
    }
    entropy[at] -= SumOf(sum);
  }
};

HWY_NOINLINE void EntropyBlock(const ForwardCall& c, const PackedKeys& keys, const float* stat,
                               float* entropy, int64_t b, int64_t h, int64_t i0, float* scratch) {
  const int64_t n = std::min(c.by.rows, c.p.Lq - i0);
  for (int64_t i = i0; i < i0 + n; ++i) entropy[(b * c.p.H + h) * c.p.Lq + i] = 0.0f;
  ForEachStretch(c, keys, b, h, nullptr, i0, n, scratch, EntropyRows{c.p, stat, entropy});
}

struct ChosenRows {
  const AttentionProblem& p;
  const float* stat;
  const int32_t* chosen;
  float* log_prob;
  void operator()(const Stretch& x, float* s, int64_t, float*) const {
    const int64_t at = (x.b * p.H + x.h) * p.Lq + x.i, j = chosen[at];
    if (j < x.begin || j >= x.end) return;
    const float log_sum =
        LargeStat(stat[at]) ? Recenter(s + (x.from - x.origin), x.size()) : stat[at];
    log_prob[at] = s[j - x.origin] - log_sum;
  }
};

HWY_NOINLINE void LogProbBlock(const ForwardCall& c, const PackedKeys& keys, const ChosenRows& rows,
                               int64_t b, int64_t h, int64_t i0, float* scratch) {
  const int64_t n = std::min(c.by.rows, c.p.Lq - i0);
  for (int64_t i = i0; i < i0 + n; ++i) rows.log_prob[(b * c.p.H + h) * c.p.Lq + i] = 0.0f;
  ForEachStretch(c, keys, b, h, nullptr, i0, n, scratch, rows);
}

// Packs the keys, then calls block(keys, b, head, i0, scratch) for every block of every head.
template <class Block>
void ForEachBlock(const ForwardCall& call, int64_t heads, const int64_t* head_of, int64_t rows,
                  const Block& block) {
  const AttentionProblem& p = call.p;
  const int64_t pairs = p.B * p.Hk, floats = ForwardScratch::Floats(p, call.by);
  const Buffer<float> packed(pairs * KeyFloats(p)), scratch(threads() * floats);
  std::vector<PackedKeys> keys(static_cast<size_t>(pairs));
  parallel_for(pairs, [&](int64_t i) {
    keys[i] = PackKeys(p, i / p.Hk, i % p.Hk, packed.data() + i * KeyFloats(p));
  });
  const int64_t blocks = (rows + call.by.rows - 1) / call.by.rows;
  parallel_for(p.B * heads * blocks, [&](int64_t i) {
    const int64_t b = i / (heads * blocks), head = i / blocks % heads;
    const int64_t h = head_of ? head_of[head] : head;
    block(keys[b * p.Hk + h / p.group()], b, head, i % blocks * call.by.rows,
          scratch.data() + thread_index() * floats);
  });
}

void Weights(const AttentionProblem& p, const AttentionResult& done, const WeightsSelection& pick,
             const View<float>& to) {
  const AdditiveStore additive = PrepareAdditive(p);
  const ForwardCall call{
      p, done, BlockingFor(p, p.weigh == Weigh::formula || AnyLargeStat(p, done.stat), false),
      additive.weights};
  ForEachBlock(call, pick.n_heads, pick.heads, pick.n_rows,
               [&](const PackedKeys& keys, int64_t b, int64_t head, int64_t i0, float* scratch) {
                 WeightsBlock(call, done, pick, to, keys, b, head, i0, scratch);
               });
}

void Entropy(const AttentionProblem& p, const float* stat, float* entropy) {
  const AdditiveStore additive = PrepareAdditive(p);
  const AttentionResult none;
  const ForwardCall call{p, none, BlockingFor(p, AnyLargeStat(p, stat), false), additive.weights};
  ForEachBlock(call, p.H, nullptr, p.Lq,
               [&](const PackedKeys& keys, int64_t b, int64_t h, int64_t i0, float* scratch) {
                 EntropyBlock(call, keys, stat, entropy, b, h, i0, scratch);
               });
}

void LogProb(const AttentionProblem& p, const float* stat, const int32_t* chosen, float* log_prob) {
  const AdditiveStore additive = PrepareAdditive(p);
  const AttentionResult none;
  const ForwardCall call{p, none, BlockingFor(p, AnyLargeStat(p, stat), false), additive.weights};
  const ChosenRows rows{p, stat, chosen, log_prob};
  ForEachBlock(call, p.H, nullptr, p.Lq,
               [&](const PackedKeys& keys, int64_t b, int64_t h, int64_t i0, float* scratch) {
                 LogProbBlock(call, keys, rows, b, h, i0, scratch);
               });
}

bool EveryFinite(const View<const float>& x, int64_t B, int64_t H, int64_t R, int64_t C) {
  std::vector<uint8_t> finite(static_cast<size_t>(B * H));
  parallel_for(B * H, [&](int64_t i) {
    finite[i] = AllFinite({x.row(i / H, i % H, 0), x.r, x.c}, R, C);
  });
  return std::all_of(finite.begin(), finite.end(), [](uint8_t f) { return f != 0; });
}

}  // namespace fovea::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // FOVEA_ATTENTION_INSPECT_INL_H_
