#include <algorithm>
#include <numeric>

#include "attention/def.h"
#include "fovea/layers.h"
#include "fovea/ops.h"
#include "nn/dropout.h"
#include "nn/past.h"
#include "nn/rows.h"
#include "nn/score_weights.h"

namespace fovea::nn {
namespace {

int64_t key_heads(const HeadsConfig& c) { return c.key_heads > 0 ? c.key_heads : c.heads; }
int64_t depth(const HeadsConfig& c) { return c.depth > 0 ? c.depth : c.width / c.heads; }
int64_t memory_width(const HeadsConfig& c) { return c.memory > 0 ? c.memory : c.width; }

std::vector<HeadGroup> groups_of(const HeadsConfig& c) {
  return c.groups.empty() ? std::vector<HeadGroup>{{.heads = c.heads}} : c.groups;
}

[[noreturn]] void refuse(const std::string& what) { throw Error("heads", what); }

// [B,L,H·d] → [B,H,L,d], in place
Tensor by_head(const Tensor& x, int64_t heads) {
  return x.reshape({x.size(0), x.size(1), heads, x.size(2) / heads}).transpose(1, 2);
}

// The same, each head's rows by themselves through a norm, where there is one.
Tensor by_head(const Tensor& x, int64_t heads, const Norm& n) {
  if (!n.weight) return by_head(x, heads);
  return n(x.reshape({x.size(0), x.size(1), heads, x.size(2) / heads})).transpose(1, 2);
}

// [B,H,L,d] → [B,L,H·d]; in place where it lies in memory as queries do
Tensor merged(const Tensor& x) {
  return x.transpose(1, 2).reshape({x.size(0), x.size(2), x.size(1) * x.size(3)});
}

struct Projection {
  int64_t in = 0, out = 0;
  WithBias bias = WithBias::yes;
  float gain = 1.0f;
};
Linear projection(Weights& w, const std::string& name, Init init, const Projection& p) {
  Linear l{.weight = w.add(name + ".weight", {p.out, p.in}, init, p.gain)};
  if (p.bias == WithBias::yes) l.bias = w.add(name + ".bias", {p.out}, Init::zeros);
  return l;
}

// [B,Hk,L,d] → [B,H,L,d], a key head for each head
Tensor for_each_head(const Tensor& x, int64_t heads) {
  const int64_t B = x.size(0), Hk = x.size(1), L = x.size(2), d = x.size(3);
  if (Hk == heads) return x;
  return x.unsqueeze(2).expand({B, Hk, heads / Hk, L, d}).reshape({B, heads, L, d});
}

// Of all heads or one group's. `elsewhere`: who attends, where not attend().
Tensor weighed(const HeadCall& call, const ProjectedHeads& rows, const HeadsPass& pass,
               const AttendRows* elsewhere = nullptr) {
  Attention a = call.attention;
  a.mask = pass.mask;
  if (pass.bias) {
    a.score.bias = pass.bias;
    Tensor& table = a.score.bias->table;
    const int dim = table.rank() - 2;
    if (dim >= 0 && table.size(dim) > call.heads) {
      table = table.slice(dim, call.first, call.first + call.heads);
    }
  }
  if (pass.noise.dropout > 0) {
    a.weighting.dropout = pass.noise.dropout;
    a.weighting.seed = Seed(pass.noise.seed).at(call.first).value();
  }
  const Tensor v = call.normalise ? with_ones(rows.v.to(DType::f32)) : rows.v;
  const auto context_of = [&](const Tensor& values) {
    return elsewhere != nullptr ? (*elsewhere)(rows.q, rows.k, values, a)
                                : attend(rows.q, rows.k, values, a).context;
  };
  Tensor context, replaced;
  if (pass.hook) {
    const Attended attended = attend(rows.q, rows.k, v, a);
    context = attended.context;
    replaced = (*pass.hook)({call.name, attended, rows.v, rows.q, rows.k, a});
  } else {
    context = context_of(v);
  }
  if (replaced) context = matmul(replaced, for_each_head(v.to(DType::f32), call.heads));
  if (!call.normalise) return context;
  if (replaced || a.weighting.dropout == 0) return divided_by_last(context);
  // Dropped after they are normalised: Σ_j m_j w_j v_j / Σ_j w_j, where the m_j drop.
  a.weighting.dropout = 0;
  const int64_t d = rows.v.size(3);
  return divided(context.slice(3, 0, d), context_of(v.slice(3, d, d + 1)));
}

// Group by group; [B,H,Lq,d].
template <class OneGroup>
Tensor by_group(const MultiHead& m, const ProjectedHeads& rows, const OneGroup& one) {
  if (m.calls.size() == 1) return one(size_t{0}, m.calls[0], rows);
  const int64_t shared = m.config.heads / key_heads(m.config);
  std::vector<Tensor> contexts;
  for (size_t g = 0; g < m.calls.size(); ++g) {
    const int64_t first = m.calls[g].first, last = first + m.calls[g].heads;
    const ProjectedHeads mine{rows.q.slice(1, first, last),
                              rows.k.slice(1, first / shared, last / shared),
                              rows.v.slice(1, first / shared, last / shared)};
    contexts.push_back(one(g, m.calls[g], mine));
  }
  return concatenate(contexts, 1);
}

}  // namespace

HeadGroup linear_heads(int64_t heads) {
  return {.heads = heads, .score = "elu_dot", .weighting = "none", .normalise = true};
}

void check(const HeadsConfig& c) {
  const auto positive = [](const char* field, int64_t x) {
    if (x < 1) refuse(std::string(field) + " must be at least 1, found " + std::to_string(x));
  };
  positive("width", c.width);
  positive("heads", c.heads);
  if (c.depth == 0 && c.width % c.heads != 0) {
    refuse(std::to_string(c.heads) + " heads do not divide the depth " + std::to_string(c.width));
  }
  if (c.key_heads < 0 || c.heads % key_heads(c) != 0) {
    refuse("key_heads must divide the " + std::to_string(c.heads) + " heads, found " +
           std::to_string(c.key_heads));
  }
  if (c.groups.empty()) return;
  int64_t in_all = 0;
  const int64_t shared = c.heads / key_heads(c);
  for (const HeadGroup& g : c.groups) {
    positive("a group's heads", g.heads);
    score(g.score);
    weighting(g.weighting);
    if (g.heads % shared != 0) {
      refuse("a group of " + std::to_string(g.heads) + " heads divides the " +
             std::to_string(shared) + " that share a key head");
    }
    in_all += g.heads;
  }
  if (in_all != c.heads) {
    refuse("the groups have " + std::to_string(in_all) + " heads, expected " +
           std::to_string(c.heads));
  }
}

MultiHead multi_head(Weights& w, const std::string& name, const HeadsConfig& c, Looks looks) {
  check(c);
  MultiHead m{.name = name, .config = c};
  const int64_t d = depth(c), q = c.heads * d, kv = 2 * key_heads(c) * d;
  if (looks == Looks::at_itself) {
    m.in = projection(w, name + ".in", c.init, {c.width, q + kv, c.bias});
    if (c.qk_epsilon) {
      m.query_norm = norm(w, name + ".query_norm", NormKind::rms, d, *c.qk_epsilon);
      m.key_norm = norm(w, name + ".key_norm", NormKind::rms, d, *c.qk_epsilon);
    }
  } else {
    m.query = projection(w, name + ".query", c.init, {c.width, q, c.bias});
    m.memory = projection(w, name + ".memory", c.init, {memory_width(c), kv, c.bias});
  }
  m.out =
      projection(w, name + ".out", c.init, {q, c.width, c.out_bias.value_or(c.bias), c.out_gain});
  const std::vector<HeadGroup> groups = groups_of(c);
  int64_t first = 0;
  for (size_t g = 0; g < groups.size(); ++g) {
    const HeadGroup& group = groups[g];
    const std::string number = groups.size() > 1 ? std::to_string(g) : "";
    const std::string prefix = name + ".score." + (number.empty() ? "" : number + ".");
    const Tensors parameters = score_weights(
        w, prefix, group.score, {.query = d, .key = d, .hidden = d, .heads = group.heads});
    m.calls.push_back({.name = number.empty() ? name : name + "." + number,
                       .first = first,
                       .heads = group.heads,
                       .attention = {.score = score(group.score, parameters),
                                     .weighting = weighting(group.weighting)},
                       .normalise = group.normalise});
    Score& own = m.calls.back().attention.score;
    if (c.scale) own.scale = c.scale;
    own.softcap = c.cap;
    first += group.heads;
  }
  return m;
}

ProjectedHeads project(const MultiHead& m, const Tensor& x, const Rotary* rotary) {
  const int64_t H = m.config.heads, Hk = key_heads(m.config), d = depth(m.config);
  const std::vector<Tensor> parts = split(m.in(x), {H * d, Hk * d, Hk * d}, 2);
  ProjectedHeads rows{by_head(parts[0], H, m.query_norm), by_head(parts[1], Hk, m.key_norm),
                      by_head(parts[2], Hk)};
  if (rotary != nullptr) {
    rows.q = rotate(rows.q, rotary->cos, rotary->sin);
    rows.k = rotate(rows.k, rotary->cos, rotary->sin);
  }
  return rows;
}

Tensor contexts(const MultiHead& m, const ProjectedHeads& rows, const HeadsPass& pass,
                const AttendRows& elsewhere) {
  return merged(by_group(m, rows, [&](size_t, const HeadCall& call, const ProjectedHeads& mine) {
    return weighed(call, mine, pass, &elsewhere);
  }));
}

Tensor MultiHead::self(const Tensor& x, const HeadsPass& pass) const {
  const ProjectedHeads rows = nn::project(*this, x, pass.rotary);
  if (pass.past == nullptr) {
    return out(
        merged(by_group(*this, rows, [&](size_t, const HeadCall& call, const ProjectedHeads& mine) {
          return weighed(call, mine, pass);
        })));
  }
  // Linear heads keep a sum, the others all keys and values.
  KeyValues& past = *pass.past;
  past.sums.resize(calls.size());
  const bool all_linear =
      std::all_of(calls.begin(), calls.end(), [](const HeadCall& c) { return c.normalise; });
  const Tensor k = rows.k, v = rows.v;
  if (!all_linear) append(past, k, v);
  ProjectedHeads seen = rows;
  if (!all_linear) {
    seen.k = past.keys.slice(2, 0, past.length);
    seen.v = past.values.slice(2, 0, past.length);
  }
  const Tensor context = by_group(
      *this, seen, [&](size_t g, const HeadCall& call, const ProjectedHeads& mine) -> Tensor {
        if (!call.normalise) return weighed(call, mine, pass);
        const int64_t new_rows = mine.q.size(2), from = mine.k.size(2) - new_rows;
        return linear_steps(past.sums[g], *call.attention.score.def,
                            {mine.q, mine.k.slice(2, from, from + new_rows).to(DType::f32),
                             mine.v.slice(2, from, from + new_rows).to(DType::f32)});
      });
  if (all_linear) past.length += x.size(1);
  return out(merged(context));
}

KeyValues MultiHead::project(const Tensor& rows, const Tensor& lengths) const {
  const int64_t Hk = key_heads(config), d = depth(config);
  const std::vector<Tensor> parts = split(memory(rows), {Hk * d, Hk * d}, 2);
  return {.keys = by_head(parts[0], Hk),
          .values = by_head(parts[1], Hk),
          .length = rows.size(1),
          .lengths = lengths};
}

Tensor MultiHead::cross(const Tensor& x, const KeyValues& source, const HeadsPass& pass) const {
  const ProjectedHeads rows{by_head(query(x), config.heads), source.keys, source.values};
  HeadsPass p = pass;
  if (source.lengths) p.mask = p.mask & masks::lengths(source.lengths);
  return out(
      merged(by_group(*this, rows, [&](size_t, const HeadCall& call, const ProjectedHeads& mine) {
        return weighed(call, mine, p);
      })));
}

Pooling pooling(Weights& w, const std::string& name, const HeadsConfig& c, int64_t queries) {
  if (queries < 1) refuse("pooling needs a query or more, found " + std::to_string(queries));
  return {.queries = w.add(name + ".queries", {queries, c.width}, Init::small),
          .heads = multi_head(w, name, c, Looks::elsewhere)};
}

Tensor Pooling::operator()(const Tensor& x, const Tensor& lengths) const {
  const Tensor q = queries.unsqueeze(0).expand({x.size(0), queries.size(0), queries.size(1)});
  return heads.cross(q, heads.project(x, lengths));
}

}  // namespace fovea::nn
