// Weights and entropy on demand, from the statistic that the forward pass kept of each row.
#if defined(FOVEA_ATTENTION_INSPECT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FOVEA_ATTENTION_INSPECT_INL_H_
#undef FOVEA_ATTENTION_INSPECT_INL_H_
#else
#define FOVEA_ATTENTION_INSPECT_INL_H_
#endif

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "kernels/attention/blocks-inl.h"
#include "kernels/attention/forward-inl.h"

HWY_BEFORE_NAMESPACE();
namespace fovea::kernels::HWY_NAMESPACE {

// Calls row(x, s, i, spare) for every stretch of masked scores of row i of the block, keys in
// order.
template <class RowFunction>
HWY_INLINE void ForEachStretch(const ForwardCall& c, const PackedKeys& keys, const BlockAt& at,
                               float* scratch, const RowFunction& row) {
  const AttentionProblem& p = c.p;
  const ForwardScratch mem(p, c.by, scratch);
  BlockRanges r;
  FindRanges(p, at, c.by.group, r);
  const auto pack = [&](int64_t i, int64_t n, float* to) {
    return PackQueries(p, c.w, keys.range, {QueriesOf(p, at.b, at.h, i), n}, to);
  };
  ScoreSides sides{p, c.w, keys, {mem.queries, QueryFloats(p)}};
  if (!at.picked) sides.queries = pack(at.i, at.n, mem.queries);
  for (int64_t i = 0; at.picked && i < at.n && p.family != Family::given; ++i) {  // gathered
    float* to = mem.queries + i * sides.queries.ld;
    const PackedQueries one = pack(at.row(i), 1, to);
    if (one.words) {
      auto* words = reinterpret_cast<uint32_t*>(to);
      if (one.words != words) std::copy(one.words, one.words + PanelRows(p.D) / 2, words);
      sides.queries.words = reinterpret_cast<uint32_t*>(mem.queries);
    } else if (one.rows != to) {
      std::copy(one.rows, one.rows + p.D, to);
    }
  }
  for (int64_t j0 = RoundDown(r.first, c.by.keys); j0 < r.last; j0 += c.by.keys) {
    const Block x{at, r, j0, std::min(j0 + c.by.keys, r.last)};
    for (int64_t g = 0; g < x.groups(); ++g) {
      const auto [first, m] = x.group(g);
      if (p.family == Family::given && at.picked) {
        for (int64_t i = 0; i < m; ++i) {  // rows that do not follow one another
          EachPart(x, g, [&, i, start = first](PanelPart part) HWY_ATTR {
            ScorePanel(sides, {at.b, at.h, at.row(start + i)}, {0, 1}, part,
                       {mem.s + i * mem.lds + (part.j - j0), mem.lds});
          });
        }
      } else {
        ScoreGroup(sides, x, g, {mem.s, mem.lds});
      }
      for (int64_t i = first; i < first + m; ++i) {
        const Stretch of_row = StretchOf(x, i);
        if (of_row.from >= of_row.to) break;
        float* s = mem.s + (i - first) * mem.lds;
        if (NeedsMask(p, of_row)) MaskRow(p, of_row, s);
        row(of_row, s, i, mem.spare);
      }
    }
  }
}

struct WeightRows {
  const ForwardCall& c;
  const View<float>& to;
  int64_t head, first;  // of the selection
  HWY_ATTR void operator()(const Stretch& x, float* s, int64_t i, float* spare) const {
    const AttentionProblem& p = c.p;
    const float stat = c.out.stat ? c.out.stat[(x.b * p.H + x.h) * p.Lq + x.i] : 0.0f;
    if (Hard(p.weigh) && !std::isnan(stat)) return;  // its weight is there already
    WeighAgain(p, x, stat, {s, spare});
    float* out = to.row(x.b, head, first + i);
    for (int64_t j = x.begin; j < x.end; ++j) out[j * to.c] = s[j - x.origin];
  }
};

struct PickedWeights {
  const WeightsSelection& pick;
  const View<float>& to;
};

// The block's h counts the selected heads.
HWY_NOINLINE void WeightsBlock(const ForwardCall& c, const PickedWeights& x, const PackedKeys& keys,
                               BlockAt at, float* scratch) {
  const AttentionProblem& p = c.p;
  const int64_t head = at.h;
  at.h = x.pick.heads ? x.pick.heads[head] : head;
  at.picked = x.pick.rows;
  bool by_scores = !Hard(p.weigh);
  for (int64_t i = 0; i < at.n; ++i) {
    float* out = x.to.row(at.b, head, at.i + i);
    for (int64_t j = 0; j < p.Lk; ++j) out[j * x.to.c] = 0.0f;
    if (!Hard(p.weigh)) continue;
    const int64_t row = (at.b * p.H + at.h) * p.Lq + at.row(i);
    const int32_t j = c.out.chosen[row];
    by_scores |= std::isnan(c.out.stat[row]);
    if (j >= 0) out[j * x.to.c] = ChosenWeight(p, at.b, at.h, at.row(i), j);
  }
  if (by_scores) ForEachStretch(c, keys, at, scratch, WeightRows{c, x.to, head, at.i});
}

// −w·log w of the sink.
inline float SinkEntropy(float sink, float log_sum) {
  if (sink == -kInf) return 0.0f;
  const float log_w = sink - log_sum, w = std::exp(log_w);
  return w == 0.0f ? 0.0f : -w * log_w;
}

struct EntropyRows {
  const AttentionProblem& p;
  const float* stat;
  float* entropy;
  HWY_ATTR void operator()(const Stretch& x, float* s, int64_t, float*) const {
    const F d;
    const int64_t at = (x.b * p.H + x.h) * p.Lq + x.i;
    float sink = SinkOf(p, x.h), log_sum = stat[at];
    if (FindsAgain(p, log_sum)) {
      log_sum = Recenter(s + (x.from - x.origin), x.size(), sink);
      entropy[at] += SinkEntropy(sink, log_sum);
    }
    const Vec base = hn::Set(d, log_sum == -kInf ? 0.0f : log_sum);
    Vec sum = hn::Zero(d);
    for (int64_t j = x.from; j < x.to; j += kLanes) {
      const Vec log_p = hn::Sub(hn::LoadU(d, s + (j - x.origin)), base);
      const Vec w = FastExpTo88(F(), log_p);
      sum = hn::Add(sum, hn::IfThenZeroElse(hn::Eq(w, hn::Zero(d)), hn::Mul(w, log_p)));
    }
    entropy[at] -= SumOf(sum);
  }
};

HWY_NOINLINE void EntropyBlock(const ForwardCall& c, const EntropyRows& rows,
                               const PackedKeys& keys, const BlockAt& at, float* scratch) {
  const int64_t first = (at.b * c.p.H + at.h) * c.p.Lq + at.i;
  for (int64_t i = first; i < first + at.n; ++i) {
    const bool large = FindsAgain(c.p, rows.stat[i]);  // the whole row tells
    rows.entropy[i] = large ? 0.0f : SinkEntropy(SinkOf(c.p, at.h), rows.stat[i]);
  }
  ForEachStretch(c, keys, at, scratch, rows);
}

struct ChosenRows {
  const AttentionProblem& p;
  const float* stat;
  const int32_t* chosen;
  float* log_prob;
  void operator()(const Stretch& x, float* s, int64_t, float*) const {
    const int64_t at = (x.b * p.H + x.h) * p.Lq + x.i, j = chosen[at];
    if (j < x.begin || j >= x.end) return;
    float log_sum = stat[at], sink = SinkOf(p, x.h);
    if (FindsAgain(p, log_sum)) log_sum = Recenter(s + (x.from - x.origin), x.size(), sink);
    log_prob[at] = s[j - x.origin] - log_sum;
  }
};

HWY_NOINLINE void LogProbBlock(const ForwardCall& c, const ChosenRows& rows, const PackedKeys& keys,
                               const BlockAt& at, float* scratch) {
  const int64_t first = (at.b * c.p.H + at.h) * c.p.Lq + at.i;
  for (int64_t i = first; i < first + at.n; ++i) {
    rows.log_prob[i] = std::isnan(rows.stat[i]) ? kNan : 0.0f;
  }
  ForEachStretch(c, keys, at, scratch, rows);
}

// Packs the keys, then calls block(keys, at, scratch) for every block of every head.
template <class Function>
void ForEachBlock(const ForwardCall& call, int64_t heads, const int64_t* head_of, int64_t rows,
                  const Function& block) {
  const AttentionProblem& p = call.p;
  const int64_t pairs = p.B * p.Hk, floats = ForwardScratch::Floats(p, call.by);
  const Crew crew;
  const Buffer<float> packed(pairs * KeyFloats(p)), scratch(crew.size() * floats);
  std::vector<PackedKeys> keys(static_cast<size_t>(pairs));
  parallel_for(pairs, [&](int64_t i) {
    keys[i] = PackKeys(p, call.w, i / p.Hk, i % p.Hk, packed.data() + i * KeyFloats(p));
  });
  const int64_t blocks = (rows + call.by.rows - 1) / call.by.rows;
  crew.run(p.B * heads * blocks, [&](int64_t i, int place) {
    const int64_t b = i / (heads * blocks), head = i / blocks % heads;
    const int64_t h = head_of ? head_of[head] : head, first = i % blocks * call.by.rows;
    block(keys[b * p.Hk + h / p.group()],
          BlockAt{b, head, first, std::min(call.by.rows, rows - first)},
          scratch.data() + place * floats);
  });
}

void Weights(const AttentionProblem& p, const AttentionResult& done, const WeightsSelection& pick,
             const View<float>& to) {
  const AdditiveStore additive = PrepareAdditive(p);
  const ForwardCall call{
      p, done, BlockingFor(p, p.weigh == Weigh::formula || AnyLargeStat(p, done.stat), false),
      additive.weights};
  ForEachBlock(call, pick.n_heads, pick.heads, pick.n_rows,
               [&](const PackedKeys& keys, const BlockAt& at, float* scratch) {
                 WeightsBlock(call, {pick, to}, keys, at, scratch);
               });
}

void Entropy(const AttentionProblem& p, const float* stat, float* entropy) {
  const AdditiveStore additive = PrepareAdditive(p);
  const AttentionResult none;
  const ForwardCall call{p, none, BlockingFor(p, AnyLargeStat(p, stat), false), additive.weights};
  ForEachBlock(call, p.H, nullptr, p.Lq,
               [&](const PackedKeys& keys, const BlockAt& at, float* scratch) {
                 EntropyBlock(call, {p, stat, entropy}, keys, at, scratch);
               });
}

void LogProb(const AttentionProblem& p, const float* stat, const int32_t* chosen, float* log_prob) {
  const AdditiveStore additive = PrepareAdditive(p);
  const AttentionResult none;
  const ForwardCall call{p, none, BlockingFor(p, AnyLargeStat(p, stat), false), additive.weights};
  ForEachBlock(call, p.H, nullptr, p.Lq,
               [&](const PackedKeys& keys, const BlockAt& at, float* scratch) {
                 LogProbBlock(call, {p, stat, chosen, log_prob}, keys, at, scratch);
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
