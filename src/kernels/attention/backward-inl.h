// The fused backward pass. Scores are computed again from what the forward pass kept of each row.
// A unit of work is (b, key head, chunk of queries): it owns its dq, and adds to a dk and dv of its
// own, which are summed in the order of the chunks; chunks depend on the shapes alone.
#if defined(FOVEA_ATTENTION_BACKWARD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FOVEA_ATTENTION_BACKWARD_INL_H_
#undef FOVEA_ATTENTION_BACKWARD_INL_H_
#else
#define FOVEA_ATTENTION_BACKWARD_INL_H_
#endif

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "kernels/attention/backward-block-inl.h"

HWY_BEFORE_NAMESPACE();
namespace fovea::kernels::HWY_NAMESPACE {

// Hard weightings: the chosen value gets the whole gradient.
HWY_NOINLINE void AddChosenValues(const BackwardCall& c, const UnitSums& sums, const BlockAt& at) {
  const AttentionProblem& p = c.p;
  const int64_t b = at.b, h = at.h;
  for (int64_t i = at.i; i < at.i + at.n; ++i) {
    const int32_t j = c.g.chosen[(b * p.H + h) * p.Lq + i];
    if (j < 0) continue;
    const float weight = ChosenWeight(p, b, h, i, j);
    const float* d_out = c.g.d_context.row(b, h, i);
    for (int64_t d = 0; d < p.Dv; ++d)
      sums.dv.data[j * sums.dv.ld + d] += weight * d_out[d * c.g.d_context.c];
  }
}

// The chosen weight's bell moves with its centre: d center = dw·bell·(j − c)/σ².
HWY_NOINLINE void AddChosenCenters(const BackwardCall& c, const BlockAt& rows) {
  const AttentionProblem& p = c.p;
  const int64_t b = rows.b, h = rows.h;
  for (int64_t i = rows.i; i < rows.i + rows.n; ++i) {
    const int64_t at = (b * p.H + h) * p.Lq + i;
    const int32_t j = c.g.chosen[at];
    if (j < 0) {
      if (std::isnan(c.g.stat[at])) c.g.dcenter[at] = kNan;
      continue;
    }
    float dw = c.g.d_weights ? c.g.d_weights.row(b, h, i)[j * c.g.d_weights.c] : 0.0f;
    if (c.g.d_context) {
      const float* d_out = c.g.d_context.row(b, h, i);
      const Rows v = ValuesOf(p, b, h / p.group(), j);
      for (int64_t d = 0; d < p.Dv; ++d) {
        float value;
        if (v.halves) {
          WidenRow(v, 0, d, 1, &value);
        } else {
          value = v.data[d * v.c];
        }
        dw += d_out[d * c.g.d_context.c] * value;
      }
    }
    const float away = static_cast<float>(j) - *p.center.row(b, h, i);
    c.g.dcenter[at] += dw * ChosenWeight(p, b, h, i, j) * away / (p.sigma * p.sigma);
  }
}

HWY_NOINLINE void WriteQueryGradients(const BackwardCall& c, const float* dq, const BlockAt& at) {
  const AttentionProblem& p = c.p;
  const float scale = p.scale / p.temperature;
  for (int64_t i = 0; i < at.n; ++i) {
    float* to = c.g.dq.row(at.b, at.h, at.i + i);
    const float* from = dq + i * c.ld;
    if (p.family == Family::dot) {
      WriteRow(from, p.D, scale, to, c.g.dq.c);
    } else {
      for (int64_t d = 0; d < p.D; ++d) to[d * c.g.dq.c] = from[d] * (4.0f * c.w.u[d]);
    }
  }
}

struct UnitAt {
  int64_t b, hk, chunk;
};

HWY_NOINLINE void RunUnit(const BackwardUnit& unit, const UnitAt& at) {
  const BackwardCall& c = unit.c;
  const BackwardScratch& mem = unit.mem;
  const UnitSums& sums = unit.sums;
  const AttentionProblem& p = c.p;
  const unit::Registers registers(p.matrix_unit);
  const int64_t first = at.chunk * c.chunk, last = std::min(first + c.chunk, p.Lq);
  const int64_t h0 = at.hk * p.group(), h1 = h0 + p.group();
  const auto dq_of = [&](int64_t h, int64_t i) -> DenseRows {
    if (c.direct) return {c.g.dq ? c.g.dq.row(at.b, h, i) : nullptr, c.g.dq.r};
    return {mem.dq + ((h - h0) * c.chunk_rows + (i - first)) * c.ld, c.ld};
  };
  if (!c.covers) {
    if (c.g.dq || sums.dk.data) FillRow(mem.dq, 0, c.chunk_rows * p.group() * c.ld, 0.0f);
    if (sums.dk.data) FillRow(sums.dk.data, 0, c.key_rows * c.ld, 0.0f);
    if (sums.dv.data) FillRow(sums.dv.data, 0, c.key_rows * c.ldv, 0.0f);
  }
  if (c.scores || c.values) {
    for (int64_t j0 = 0; j0 < p.Lk; j0 += c.by.keys) {
      for (int64_t h = h0; h < h1; ++h) {
        for (int64_t i = first; i < last; i += c.by.rows) {
          BackwardBlock(unit, {at.b, h, i, std::min(c.by.rows, last - i)}, j0,
                        h == h0 && i == first, dq_of(h, i));
        }
      }
    }
  }
  for (int64_t h = h0; h < h1; ++h) {
    const BlockAt all{at.b, h, first, last - first};
    if (Hard(p.weigh) && c.g.dv && c.g.d_context) AddChosenValues(c, sums, all);
    if (c.g.dq && !c.direct) WriteQueryGradients(c, dq_of(h, first).data, all);
    if (c.chosen_centers && c.g.dcenter && (c.g.d_context || c.g.d_weights)) {
      AddChosenCenters(c, all);
    }
  }
}

// One contribution to dk or dv from each of `n` chunks, `step` apart: rows `row` apart, and within
// them vectors `vector` apart.
struct Parts {
  const float* data;
  int64_t n, step, row, vector;
};

// Some rows of dk or dv.
struct KeyRows {
  float* data;
  int64_t row, col;  // strides
  int64_t rows, width;
};

// to[j][d] = factor·u[d]·Σ_chunks; u null: 1.
HWY_NOINLINE void WriteKeyGradients(Parts parts, float factor, const float* u, KeyRows x) {
  const F d;
  for (int64_t j = 0; j < x.rows; ++j) {
    const float* row = parts.data + j * parts.row;
    float* to = x.data + j * x.row;
    int64_t k = 0;
    for (; x.col == 1 && k + kLanes <= x.width; k += kLanes) {
      const float* from = row + k / kLanes * parts.vector;
      Vec sum = hn::LoadU(d, from);
      for (int64_t c = 1; c < parts.n; ++c) sum = hn::Add(sum, hn::LoadU(d, from + c * parts.step));
      const Vec times = hn::Mul(sum, hn::Set(d, factor));
      hn::StoreU(u ? hn::Mul(times, hn::LoadU(d, u + k)) : times, d, to + k);
    }
    for (; k < x.width; ++k) {
      const float* from = row + k / kLanes * parts.vector + k % kLanes;
      float sum = *from;
      for (int64_t c = 1; c < parts.n; ++c) sum += from[c * parts.step];
      to[k * x.col] = u ? sum * factor * u[k] : sum * factor;
    }
  }
}

HWY_NOINLINE void WriteZeros(KeyRows x) {
  for (int64_t j = 0; j < x.rows; ++j) {
    for (int64_t d = 0; d < x.width; ++d) x.data[j * x.row + d * x.col] = 0.0f;
  }
}

// ---- the plan ----------------------------------------------------------------------------------

// Whether a gradient is asked for that flows through the scores. Of a choice none does, but for
// what is asked of its probability.
inline bool ThroughScores(const AttentionProblem& p, const AttentionGradients& g) {
  const bool wanted = g.dq || g.dk || g.du || g.dgiven || g.dbias || g.dcenter || g.dsink;
  const bool smooth = p.weigh != Weigh::argmax &&
                      (p.weigh != Weigh::sample || g.d_log_prob || g.d_stat || g.d_entropy);
  return wanted && smooth;
}

// Where Σ p·dw is not what the context tells.
inline bool FindsMean(const AttentionProblem& p, const AttentionGradients& g) {
  return p.whole_rows && (p.weigh == Weigh::gumbel || (p.weigh == Weigh::softmax && g.d_weights));
}

// Whether dq, dk and dv can be written where they belong by the products that make them.
inline bool WritesDirectly(const BackwardCall& c) {
  const auto dense = [](const View<float>& v, int64_t width) {
    return !v || (v.c == 1 && width % kLanes == 0);
  };
  const bool whole = !c.words || (c.p.Lq % unit::kSide == 0 && c.p.Lk % unit::kSide == 0);
  return whole && c.covers && c.chunks == 1 && c.p.weigh == Weigh::softmax && !c.p.center &&
         dense(c.g.dq, c.p.D) && dense(c.g.dk, c.p.D) && dense(c.g.dv, c.p.Dv);
}

// Whether the matrix unit takes the products. What is not finite is left to those that skip zeros.
inline bool ByUnit(const BackwardCall& c) {
  const AttentionProblem& p = c.p;
  const AttentionGradients& g = c.g;
  if (!p.matrix_unit || !ValuesInPairs(p) || Hard(p.weigh)) return false;
  if (!c.scores || !g.d_context || c.few || c.undefined) return false;
  std::vector<uint8_t> finite(static_cast<size_t>(p.B * p.H));
  parallel_for(p.B * p.H, p.Lq * (p.D + p.Dv), [&](int64_t i) {
    const int64_t b = i / p.H, h = i % p.H, hk = h / p.group();
    const bool keys =
        h % p.group() != 0 || p.finite ||
        (AllFinite(KeysOf(p, b, hk), p.Lk, p.D) && AllFinite(ValuesOf(p, b, hk), p.Lk, p.Dv));
    finite[i] = keys && AllFinite(QueriesOf(p, b, h), p.Lq, p.D) &&
                AllFinite(RowsOf(g.d_context, b, h), p.Lq, p.Dv);
  });
  return std::all_of(finite.begin(), finite.end(), [](uint8_t f) { return f != 0; });
}

inline BackwardCall PlanBackward(const AttentionProblem& p, const AttentionGradients& g,
                                 const AdditiveWeights& w) {
  const int64_t blocks = (p.Lq + kMaxBlockRows - 1) / kMaxBlockRows;
  const int64_t chunk_blocks = (blocks + ChunksFor(p) - 1) / ChunksFor(p);
  const bool find_mean = FindsMean(p, g);
  const float* const kept = find_mean || g.dsink ? nullptr : g.kept;
  const bool whole =
      WholeRows(p.weigh) || find_mean || g.dsink || (!kept && AnyLargeStat(p, g.stat));
  BackwardCall c{.p = p,
                 .g = g,
                 .w = w,
                 .by = BlockingFor(p, whole, false),
                 .scores = ThroughScores(p, g),
                 .undefined = AnyUndefined(p, g.stat),
                 .find_mean = find_mean,
                 .chosen_centers = p.center && !p.renormalise && Hard(p.weigh),
                 .kept = kept,
                 .chunk = std::min(chunk_blocks * kMaxBlockRows, p.Lq),
                 .chunks = (blocks + chunk_blocks - 1) / chunk_blocks,  // none of them empty
                 .ld = RoundUp(p.D, kLanes),
                 .ldv = RoundUp(p.Dv, kLanes)};
  c.values = g.dv && g.d_context && (!Hard(p.weigh) || c.undefined);
  c.covers = p.family == Family::dot && !p.masked() && c.scores && c.values;
  c.few = p.Lq * p.group() <= 16 && p.Dv >= 256 && g.d_context &&
          ReadableInPlace(ValuesOf(p, 0, 0), p.Dv) && p.weigh != Weigh::sample;
  c.words = ByUnit(c);
  c.chunk_rows = c.words ? RoundUp(c.chunk, unit::kSide) : c.chunk;
  c.key_rows = c.words ? RoundUp(p.Lk, unit::kSide) : p.Lk;
  c.direct = WritesDirectly(c);
  return c;
}

// ---- its memory --------------------------------------------------------------------------------

// Bias gradients of different units may meet in one element. Units are dealt to a fixed number of
// lanes, each with a copy of its own, summed in order at the end.
inline int64_t BiasLanes(const AttentionGradients& g, int64_t units) {
  if (!g.dbias) return 1;
  const int64_t fits = (int64_t{64} << 20) / std::max<int64_t>(1, g.dbias_span);
  return std::clamp<int64_t>(std::min<int64_t>(fits, 8), 1, std::max<int64_t>(1, units));
}

// What threads work in, and what units leave to be summed: their part of each sum, if there are
// several chunks. The key side is packed by each unit for itself, or once for all chunks.
struct BackwardMemory {
  const BackwardCall& c;
  int64_t pairs, units;  // (b, key head), and chunks of them
  bool one;              // chunk
  bool keys;             // have gradients
  bool shared;           // the key side is packed once, which then takes no more memory
  int64_t lanes, scratch_floats, key_floats;
  Buffer<float> scratch, key_scratch, dk, dv, gr, dbias;
  Buffer<double> totals;
  std::vector<UnitKeys> key_sides;

  BackwardMemory(const BackwardCall& call, int64_t crew)
      : c(call),
        pairs(c.p.B * c.p.Hk),
        units(pairs * c.chunks),
        one(c.chunks == 1),
        keys(c.scores && c.p.family != Family::given),
        shared(!one && pairs <= crew),
        lanes(BiasLanes(c.g, units)),
        scratch_floats(BackwardScratch().Lay(c, nullptr, one)),
        key_floats(KeyScratch().Lay(c, nullptr)),
        scratch(crew * scratch_floats),
        key_scratch((shared ? pairs : crew) * key_floats),
        dk(one || !keys ? 0 : units * c.key_rows * c.ld),
        dv(one || !c.g.dv ? 0 : units * c.key_rows * c.ldv),
        gr(c.p.family == Family::additive ? units * c.ld : 0),
        dbias(c.g.dbias && lanes > 1 ? lanes * c.g.dbias_span : 0),
        totals(units),
        key_sides(static_cast<size_t>(shared ? pairs : crew)) {
    std::fill(gr.data(), gr.data() + gr.size(), 0.0f);
    std::fill(totals.data(), totals.data() + units, 0.0);
    std::fill(dbias.data(), dbias.data() + dbias.size(), 0.0f);
  }

  void PrepareKeys(int64_t bh, int64_t slot) {
    KeyScratch mem;
    mem.Lay(c, key_scratch.data() + slot * key_floats);
    if (c.scores || c.values) {
      key_sides[slot] = PrepareUnitKeys(c, mem, bh / c.p.Hk, bh % c.p.Hk);
    }
  }

  // Where a unit adds up, in the thread's own memory if there is one chunk.
  UnitSums SumsOf(int64_t unit, int64_t lane, const BackwardScratch& mem) const {
    const AttentionGradients& g = c.g;
    const int64_t bh = unit / c.chunks, b = bh / c.p.Hk, hk = bh % c.p.Hk;
    UnitSums sums{.dk = {one ? mem.dk : dk.data() + unit * c.key_rows * c.ld, c.ld},
                  .dv = {one ? mem.dv : dv.data() + unit * c.key_rows * c.ldv, c.ldv},
                  .gr = gr.data() + unit * c.ld,
                  .total = totals.data() + unit,
                  .dbias = nullptr};
    if (c.direct && g.dk) sums.dk = {g.dk.row(b, hk, 0), g.dk.r};
    if (c.direct && g.dv) sums.dv = {g.dv.row(b, hk, 0), g.dv.r};
    if (!keys) sums.dk = {};
    if (!g.dv) sums.dv = {};
    if (g.dbias) {
      sums.dbias = lanes > 1 ? dbias.data() + lane * g.dbias_span - g.dbias_low : g.dbias.data;
    }
    return sums;
  }
};

// ---- the call ----------------------------------------------------------------------------------

// The sums of n keys from j on, over the parts of each chunk; `of_k` and `of_v` begin at key j.
inline void WriteKeys(const BackwardMemory& m, int64_t bh, int64_t j, int64_t n, const Parts& of_k,
                      const Parts& of_v) {
  const AttentionProblem& p = m.c.p;
  const AttentionGradients& g = m.c.g;
  const int64_t b = bh / p.Hk, hk = bh % p.Hk;
  const auto rows_of = [&](const View<float>& v, int64_t width) {
    return KeyRows{v.row(b, hk, j), v.r, v.c, n, width};
  };
  const bool additive = p.family == Family::additive;
  const float factor = p.family == Family::dot ? p.scale / p.temperature : 4.0f;
  if (g.dk && m.keys) {
    WriteKeyGradients(of_k, factor, additive ? m.c.w.u : nullptr, rows_of(g.dk, p.D));
  } else if (g.dk) {
    WriteZeros(rows_of(g.dk, p.D));
  }
  if (g.dv) WriteKeyGradients(of_v, 1.0f, nullptr, rows_of(g.dv, p.Dv));
}

// Rows of dk's parts, and the vectors of a row: additive ones lie in columns.
struct PartSteps {
  int64_t row, vector;
};
inline PartSteps StepsOfK(const BackwardCall& c) {
  if (c.p.family == Family::additive) return {kLanes, c.p.Lk * kLanes};
  return {c.ld, kLanes};
}

inline void RunOneUnit(BackwardMemory& m, int64_t unit, int64_t lane, int place) {
  const BackwardCall& c = m.c;
  const int64_t bh = unit / c.chunks, slot = m.shared ? bh : place;
  BackwardScratch mem;
  mem.Lay(c, m.scratch.data() + place * m.scratch_floats, m.one);
  const UnitSums sums = m.SumsOf(unit, lane, mem);
  if (!m.shared) m.PrepareKeys(bh, slot);
  RunUnit({c, mem, m.key_sides[slot], sums}, {bh / c.p.Hk, bh % c.p.Hk, unit % c.chunks});
  if (!m.one || c.direct) return;
  const PartSteps of_k = StepsOfK(c);
  WriteKeys(m, bh, 0, c.p.Lk, {sums.dk.data, 1, 0, of_k.row, of_k.vector},
            {sums.dv.data, 1, 0, c.ldv, kLanes});
}

// The last chunks first: under a causal mask they have the most to do. Neighbours together.
inline void RunUnits(const Crew& crew, BackwardMemory& m) {
  const int64_t chunks = m.c.chunks;
  const int64_t in_a_row = m.one ? std::clamp<int64_t>(m.units / (8 * crew.size()), 1, 16) : 1;
  crew.run((m.units + in_a_row - 1) / in_a_row, [&](int64_t task, int place) {
    for (int64_t i = task * in_a_row; i < std::min(m.units, (task + 1) * in_a_row); ++i) {
      RunOneUnit(m, (i % m.pairs) * chunks + (chunks - 1 - i / m.pairs), 0, place);
    }
  });
}

// The same with a gradient of the bias: what a lane has, one after another.
inline void RunLanes(const Crew& crew, BackwardMemory& m) {
  const AttentionGradients& g = m.c.g;
  crew.run(m.lanes, [&](int64_t lane, int place) {
    for (int64_t unit = lane; unit < m.units; unit += m.lanes) RunOneUnit(m, unit, lane, place);
  });
  for (int64_t lane = 0; lane < m.lanes && m.lanes > 1; ++lane) {
    for (int64_t i = 0; i < g.dbias_span; ++i) {
      g.dbias.data[g.dbias_low + i] += m.dbias[lane * g.dbias_span + i];
    }
  }
}

inline void SumChunks(const BackwardMemory& m) {
  const BackwardCall& c = m.c;
  const int64_t Lk = c.p.Lk, all = c.key_rows, step = kMaxBlockRows;
  const int64_t parts = (Lk + step - 1) / step;
  const PartSteps steps = StepsOfK(c);
  parallel_for(m.pairs * parts, [&](int64_t i) {
    const int64_t bh = i / parts, j = i % parts * step;
    const float* of_k = m.dk.data() + bh * c.chunks * all * c.ld + j * steps.row;
    const float* of_v = m.dv.data() + (bh * c.chunks * all + j) * c.ldv;
    WriteKeys(m, bh, j, std::min(step, Lk - j),
              {of_k, c.chunks, all * c.ld, steps.row, steps.vector},
              {of_v, c.chunks, all * c.ldv, c.ldv, kLanes});
  });
}

// du = Σds − 2 Σ g·r
inline void SumWeights(const BackwardMemory& m) {
  const AttentionProblem& p = m.c.p;
  for (int64_t d = 0; d < p.D; ++d) {
    double sum = 0.0;
    for (int64_t unit = 0; unit < m.units; ++unit) {
      sum += m.totals[unit] - 2.0 * m.gr[unit * m.c.ld + d];
    }
    m.c.g.du[d] = static_cast<float>(sum * (p.scale / p.temperature));
  }
}

void Backward(const AttentionProblem& p, const AttentionGradients& g) {
  const AdditiveStore additive = PrepareAdditive(p);
  const BackwardCall c = PlanBackward(p, g, additive.weights);
  const Crew crew;
  BackwardMemory memory(c, crew.size());
  if (memory.shared) {
    parallel_for(memory.pairs, [&](int64_t bh) { memory.PrepareKeys(bh, bh); });
  }
  if (g.dbias) {
    RunLanes(crew, memory);
  } else {
    RunUnits(crew, memory);
  }
  if (!memory.one) SumChunks(memory);
  if (g.du) SumWeights(memory);
}

}  // namespace fovea::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // FOVEA_ATTENTION_BACKWARD_INL_H_
