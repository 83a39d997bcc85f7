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
  const int64_t first = at.chunk * c.chunk, last = std::min(first + c.chunk, p.Lq);
  const int64_t h0 = at.hk * p.group(), h1 = h0 + p.group();
  const auto dq_of = [&](int64_t h, int64_t i) -> DenseRows {
    if (c.direct) return {c.g.dq ? c.g.dq.row(at.b, h, i) : nullptr, c.g.dq.r};
    return {mem.dq + ((h - h0) * c.chunk + (i - first)) * c.ld, c.ld};
  };
  if (!c.covers) {
    if (c.g.dq || sums.dk.data) FillRow(mem.dq, 0, c.chunk * p.group() * c.ld, 0.0f);
    if (sums.dk.data) FillRow(sums.dk.data, 0, p.Lk * c.ld, 0.0f);
    if (sums.dv.data) FillRow(sums.dv.data, 0, p.Lk * c.ldv, 0.0f);
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

// ---- the call
// --------------------------------------------------------------------------------------

// Bias gradients of different units may meet in one element. Units are dealt to a fixed number of
// lanes, each with a copy of its own, summed in order at the end.
inline int64_t BiasLanes(const AttentionGradients& g, int64_t units) {
  if (!g.dbias) return 1;
  const int64_t fits = (int64_t{64} << 20) / std::max<int64_t>(1, g.dbias_span);
  return std::clamp<int64_t>(std::min<int64_t>(fits, 8), 1, std::max<int64_t>(1, units));
}

void Backward(const AttentionProblem& p, const AttentionGradients& g) {
  const AdditiveStore additive = PrepareAdditive(p);
  const bool smooth = p.weigh != Weigh::argmax &&
                      (p.weigh != Weigh::sample || g.d_log_prob || g.d_stat || g.d_entropy);
  const bool find_mean =
      p.whole_rows && (p.weigh == Weigh::gumbel || (p.weigh == Weigh::softmax && g.d_weights));
  const bool bell = p.center && !p.renormalise;
  const bool wanted = g.dq || g.dk || g.du || g.dgiven || g.dbias || g.dcenter || g.dsink;
  const float* const kept = find_mean || g.dsink ? nullptr : g.kept;
  const bool whole =
      WholeRows(p.weigh) || find_mean || g.dsink || (!kept && AnyLargeStat(p, g.stat));
  const int64_t blocks = (p.Lq + kMaxBlockRows - 1) / kMaxBlockRows;
  const int64_t chunk_blocks = (blocks + ChunksFor(p) - 1) / ChunksFor(p);
  const int64_t chunks = (blocks + chunk_blocks - 1) / chunk_blocks;  // none of them empty
  const bool undefined = AnyUndefined(p, g.stat);
  const bool scores = wanted && smooth;
  const bool values = g.dv && g.d_context && (!Hard(p.weigh) || undefined);
  const bool covers = p.family == Family::dot && !p.masked() && scores && values;
  const auto dense = [](const View<float>& v, int64_t width) {
    return !v || (v.c == 1 && width % kLanes == 0);
  };
  const bool direct = covers && chunks == 1 && p.weigh == Weigh::softmax && !p.center &&
                      dense(g.dq, p.D) && dense(g.dk, p.D) && dense(g.dv, p.Dv);
  const bool few = p.Lq * p.group() <= 16 && p.Dv >= 256 && g.d_context &&
                   ReadableInPlace(ValuesOf(p, 0, 0), p.Dv) && p.weigh != Weigh::sample;
  const BackwardCall c{.p = p,
                       .g = g,
                       .w = additive.weights,
                       .by = BlockingFor(p, whole, false),
                       .scores = scores,
                       .values = values,
                       .undefined = undefined,
                       .find_mean = find_mean,
                       .covers = covers,
                       .chosen_centers = bell && Hard(p.weigh),
                       .kept = kept,
                       .direct = direct,
                       .few = few,
                       .chunk = std::min(chunk_blocks * kMaxBlockRows, p.Lq),
                       .chunks = chunks,
                       .ld = RoundUp(p.D, kLanes),
                       .ldv = RoundUp(p.Dv, kLanes)};

  const int64_t pairs = p.B * p.Hk, units = pairs * chunks;
  const bool one = chunks == 1;
  BackwardScratch layout;
  const int64_t scratch_floats = layout.Lay(c, nullptr, one);
  const Crew crew;
  const Buffer<float> scratch(crew.size() * scratch_floats);
  // The key side is packed by each unit for itself, or once where that takes no more memory.
  const bool shared = !one && pairs <= crew.size();
  const int64_t key_floats = KeyScratch().Lay(c, nullptr);
  const Buffer<float> key_scratch((shared ? pairs : crew.size()) * key_floats);
  std::vector<UnitKeys> key_sides(static_cast<size_t>(shared ? pairs : crew.size()));
  const auto prepare_keys = [&](int64_t bh, int64_t slot) {
    KeyScratch mem;
    mem.Lay(c, key_scratch.data() + slot * key_floats);
    if (c.scores || c.values) key_sides[slot] = PrepareUnitKeys(c, mem, bh / p.Hk, bh % p.Hk);
  };
  if (shared) parallel_for(pairs, [&](int64_t bh) { prepare_keys(bh, bh); });
  const bool keys = c.scores && p.family != Family::given;
  const Buffer<float> dk(one || !keys ? 0 : units * p.Lk * c.ld);
  const Buffer<float> dv(one || !g.dv ? 0 : units * p.Lk * c.ldv);
  const Buffer<float> gr(p.family == Family::additive ? units * c.ld : 0);
  const Buffer<double> totals(units);
  std::fill(gr.data(), gr.data() + gr.size(), 0.0f);
  std::fill(totals.data(), totals.data() + units, 0.0);

  const int64_t lanes = BiasLanes(g, units);
  const Buffer<float> dbias(g.dbias && lanes > 1 ? lanes * g.dbias_span : 0);
  std::fill(dbias.data(), dbias.data() + dbias.size(), 0.0f);
  const float* u = p.family == Family::additive ? additive.weights.u : nullptr;

  const float factor = p.family == Family::dot ? p.scale / p.temperature : 4.0f;
  const bool columns = p.family == Family::additive;
  const int64_t row_of_k = columns ? kLanes : c.ld, vector_of_k = columns ? p.Lk * kLanes : kLanes;
  const auto write_keys = [&](int64_t bh, int64_t j, int64_t n, const Parts& of_k,
                              const Parts& of_v) {
    const int64_t b = bh / p.Hk, hk = bh % p.Hk;
    const auto rows_of = [&](const View<float>& v, int64_t width) {
      return KeyRows{v.row(b, hk, j), v.r, v.c, n, width};
    };
    if (g.dk && keys) {
      WriteKeyGradients(of_k, factor, u, rows_of(g.dk, p.D));
    } else if (g.dk) {
      WriteZeros(rows_of(g.dk, p.D));
    }
    if (g.dv) WriteKeyGradients(of_v, 1.0f, nullptr, rows_of(g.dv, p.Dv));
  };
  const auto run = [&](int64_t unit, int64_t lane, int place) {
    const int64_t bh = unit / chunks;
    BackwardScratch mem;
    mem.Lay(c, scratch.data() + place * scratch_floats, one);
    const int64_t b = bh / p.Hk, hk = bh % p.Hk;
    UnitSums sums{.dk = {one ? mem.dk : dk.data() + unit * p.Lk * c.ld, c.ld},
                  .dv = {one ? mem.dv : dv.data() + unit * p.Lk * c.ldv, c.ldv},
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
    const int64_t slot = shared ? bh : place;
    if (!shared) prepare_keys(bh, slot);
    RunUnit({c, mem, key_sides[slot], sums}, {b, hk, unit % chunks});
    if (one && !c.direct) {
      write_keys(bh, 0, p.Lk, {sums.dk.data, 1, 0, row_of_k, vector_of_k},
                 {sums.dv.data, 1, 0, c.ldv, kLanes});
    }
  };
  if (g.dbias) {
    crew.run(lanes, [&](int64_t lane, int place) {
      for (int64_t unit = lane; unit < units; unit += lanes) run(unit, lane, place);
    });
    for (int64_t lane = 0; lane < lanes && lanes > 1; ++lane) {
      for (int64_t i = 0; i < g.dbias_span; ++i) {
        g.dbias.data[g.dbias_low + i] += dbias[lane * g.dbias_span + i];
      }
    }
  } else {  // the last chunks first: under a causal mask they have the most to do; neighbours
            // together
    const int64_t in_a_row = one ? std::clamp<int64_t>(units / (8 * crew.size()), 1, 16) : 1;
    crew.run((units + in_a_row - 1) / in_a_row, [&](int64_t task, int place) {
      for (int64_t i = task * in_a_row; i < std::min(units, (task + 1) * in_a_row); ++i) {
        run((i % pairs) * chunks + (chunks - 1 - i / pairs), 0, place);
      }
    });
  }
  if (!one) {
    const int64_t step = kMaxBlockRows, parts = (p.Lk + step - 1) / step;
    parallel_for(pairs * parts, [&](int64_t i) {
      const int64_t bh = i / parts, j = i % parts * step;
      const float* of_k = dk.data() + bh * chunks * p.Lk * c.ld + j * row_of_k;
      const float* of_v = dv.data() + (bh * chunks * p.Lk + j) * c.ldv;
      write_keys(bh, j, std::min(step, p.Lk - j),
                 {of_k, chunks, p.Lk * c.ld, row_of_k, vector_of_k},
                 {of_v, chunks, p.Lk * c.ldv, c.ldv, kLanes});
    });
  }
  if (g.du) {
    for (int64_t d = 0; d < p.D; ++d) {
      double sum = 0.0;
      for (int64_t unit = 0; unit < units; ++unit) sum += totals[unit] - 2.0 * gr[unit * c.ld + d];
      g.du[d] = static_cast<float>(sum * (p.scale / p.temperature));
    }
  }
}

}  // namespace fovea::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // FOVEA_ATTENTION_BACKWARD_INL_H_
