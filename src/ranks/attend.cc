#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <span>

#include "attention/blocks.h"
#include "attention/check.h"
#include "fovea/ops.h"
#include "fovea/ranks.h"
#include "ranks/cut.h"
#include "ranks/sums.h"
#include "team/team.h"
#include "tensor/impl.h"
#include "tensor/tape.h"

// attend() over a team. Chunk after chunk of the keys is broadcast by its owner, in their order,
// and met by all queries wherever they are; backward, the same once more: gradients of queries
// stay, those of keys and values go back to their owner. Every block of a chunk of queries and one
// of keys is computed from the same numbers in the same shapes on any number of ranks, and what is
// added is added in the order of chunks, or by a tree over them.
namespace fovea {
namespace {

using team::Team;

// ---- The call ----------------------------------------------------------------------------------

// f(tensor) for each that may learn, in a fixed order.
template <class Function>
void each_parameter(Attention& a, const Function& f) {
  const auto visit = [&](Tensor& t) {
    if (t && t.dtype() == DType::f32) f(t);
  };
  if (a.score.bias) visit(a.score.bias->table);
  for (auto& [name, t] : a.score.parameters) visit(t);
  for (auto& [name, t] : a.weighting.parameters) visit(t);
  for (MaskTerm& term : a.mask.terms) {
    for (auto& [name, t] : term.parameters) visit(t);
  }
}

std::vector<Tensor> parameters_of(Attention a) {
  std::vector<Tensor> all;
  each_parameter(a, [&](Tensor& t) { all.push_back(t); });
  return all;
}

Tensor leaf(const Tensor& t, bool wanted) {
  Tensor own = t.detach();
  return wanted ? own.set_requires_grad() : own;
}

// The same choices with parameters of their own to differentiate by.
Attention with_leaves(Attention a) {
  each_parameter(a, [](Tensor& t) { t = leaf(t, t.requires_grad()); });
  return a;
}

std::string name_of(size_t parameter) { return fmt::format("{:03}", parameter); }

struct Call {
  Team& team;
  Attention attention;
  Sizes n;  // of all queries and keys
  SequenceCut queries, keys;
  int64_t key_width;  // lowered

  Sizes of_chunk(int64_t rows) const {
    Sizes one = n;
    one.Lq = rows;
    return one;
  }
};

// A chunk of the rows that this rank holds.
Tensor chunk_of(const SequenceCut& cut, const Tensor& held, int64_t chunk) {
  const int64_t at = cut.place_of(chunk);
  return held.slice(2, at, at + cut.chunk(chunk).size()).contiguous();
}

// A chunk of keys, lowered, and of values, on every rank. `k` [B,Hk,rows,·] and `v` are the
// owner's.
KeyRows broadcast(const Call& x, int64_t chunk, const Tensor& k, const Tensor& v) {
  const RowRange rows = x.keys.chunk(chunk);
  const Shape k_shape{x.n.B, x.n.Hk, rows.size(), x.key_width};
  const Shape v_shape{x.n.B, x.n.Hk, rows.size(), x.n.Dv};
  const int64_t heads = x.n.B * x.n.Hk * rows.size();
  const int64_t of_k = heads * x.key_width, of_v = heads * x.n.Dv;
  const Tensor both = Tensor::empty({of_k + of_v});
  const int owner = x.keys.owner_of(chunk);
  if (owner == x.team.rank()) {
    const Tensor from_k = k.detach().contiguous(), from_v = v.detach().contiguous();
    std::copy(raw(from_k), raw(from_k) + of_k, raw(both));
    std::copy(raw(from_v), raw(from_v) + of_v, raw(both) + of_k);
  }
  x.team.broadcast(std::as_writable_bytes(std::span(raw(both), static_cast<size_t>(both.numel()))),
                   owner);
  return {rows.begin, both.slice(0, 0, of_k).reshape(k_shape),
          both.slice(0, of_k, of_k + of_v).reshape(v_shape)};
}

// ---- Forward -----------------------------------------------------------------------------------

// A chunk of queries that this rank holds, and what it saw so far.
struct Held {
  int64_t chunk;
  QueryRows rows;
  Merged merged;
};

std::vector<Held> held_queries(const Call& x, const Tensor& q) {
  std::vector<Held> all;
  for (const int64_t c : x.queries.chunks_of(x.team.rank())) {
    const RowRange rows = x.queries.chunk(c);
    all.push_back({c, lower_queries(x.attention, x.n, chunk_of(x.queries, q, c), rows.begin),
                   Merged(x.attention, x.of_chunk(rows.size()))});
  }
  return all;
}

std::vector<Held> forward(const Call& x, const Tensor& q, const Tensor& k, const Tensor& v) {
  const NoGrad quiet;
  std::vector<Held> all = held_queries(x, q);
  for (int64_t c = 0; c < x.keys.chunks(); ++c) {
    const RowRange rows = x.keys.chunk(c);
    if (rows.size() == 0) continue;
    Tensor lowered, values;
    if (x.keys.owner_of(c) == x.team.rank()) {
      lowered = lower_keys(x.attention, x.n, chunk_of(x.keys, k, c), rows.begin);
      values = chunk_of(x.keys, v, c);
    }
    const KeyRows keys = broadcast(x, c, lowered, values);
    for (Held& one : all) {
      if (one.rows.pairs_with(keys.range(), x.n) > 0) one.merged.add(one.rows, keys);
    }
  }
  for (Held& one : all) one.merged.finish();
  return all;
}

// ---- Backward ----------------------------------------------------------------------------------

// What a rank knows of its queries between the passes.
struct Kept {
  std::vector<Merged> merged;  // by chunk; their context is that of the result
};

// This rank's rows of what its chunks came to, off the tape.
AttendedRows put_together(const Call& x, int64_t rows, std::vector<Held> held, Kept& kept) {
  const NoGrad quiet;
  const Sizes& n = x.n;
  const WeightingDef& def = def_of(x.attention.weighting);
  AttendedRows own{.context = Tensor::empty({n.B, n.H, rows, n.Dv})};
  if (def.kind == WeightingKind::softmax || def.kind == WeightingKind::sample) {
    own.log_sum_exp = Tensor::empty({n.B, n.H, rows});
  }
  if (def.kind == WeightingKind::sample) own.log_prob = Tensor::empty({n.B, n.H, rows});
  if (def.hard) own.chosen = Tensor::empty({n.B, n.H, rows}, DType::i64);
  for (Held& one : held) {
    const int64_t at = x.queries.place_of(one.chunk), count = one.rows.count();
    const auto put = [&](Tensor& to, const Tensor& from) {
      if (to) to.slice(2, at, at + count).copy_(from);
    };
    put(own.context, one.merged.context);
    put(own.log_sum_exp, one.merged.stat);
    put(own.log_prob, one.merged.log_prob);
    if (def.hard) put(own.chosen, Tensor::from_ids(one.merged.chosen, {n.B, n.H, count}));
    one.merged.context = {};
    kept.merged.push_back(std::move(one.merged));
  }
  return own;
}

// The gradients that the blocks of a chunk of queries gave so far.
struct QuerySums {
  QueryRows rows;  // leaves
  Merged merged;
  Upstream up;
  BlockGradients d;

  void add(const BlockGradients& block, const KeyRange& keys) {
    const auto sum = [](Tensor& to, const Tensor& more) {
      if (more && to) to.add_(more);
      if (more && !to) to = more;
    };
    sum(d.q, block.q);
    sum(d.u, block.u);
    sum(d.center, block.center);
    for (const auto& [name, t] : block.parameters) sum(d.parameters[name], t);
    if (!block.bias) return;
    if (!d.bias) d.bias = Tensor::zeros(rows.mask.bias.shape());
    bias_of_keys(rows.mask, d.bias, rows.count(), keys).add_(block.bias);
  }
};

struct Wanted {
  bool q, k, v;
  std::vector<bool> parameters;
  bool any_parameter() const { return std::ranges::find(parameters, true) != parameters.end(); }
};

// Of q, k, v and the parameters.
Wanted wanted_of(const std::vector<Tensor>& inputs) {
  Wanted wanted{
      inputs[0].requires_grad(), inputs[1].requires_grad(), inputs[2].requires_grad(), {}};
  for (size_t i = 3; i < inputs.size(); ++i) wanted.parameters.push_back(inputs[i].requires_grad());
  return wanted;
}

class BackwardPass {
 public:
  BackwardPass(const Call& x, const Tensor& q, const Tensor& k, const Tensor& v,
               const Wanted& wanted)
      : x_(x), q_(q), k_(k), v_(v), wanted_(wanted) {
    const std::vector<Tensor> all = parameters_of(x.attention);
    for (size_t i = 0; i < all.size(); ++i) {
      if (wanted.parameters[i]) shapes_[name_of(i)] = all[i].shape();
    }
  }

  Grads run(const Kept& kept, const Tensor& context, const Upstream& up) {
    const NoGrad quiet;
    take_queries(kept, context, up);
    for (int64_t c = 0; c < x_.keys.chunks(); ++c) {
      if (x_.keys.chunk(c).size() > 0) meet_keys(c);
    }
    Grads grads{wanted_.q ? Tensor::empty(q_.shape()) : Tensor(), placed(k_, of_k_, wanted_.k),
                placed(v_, of_v_, wanted_.v)};
    TreeSum by_queries, by_keys;
    for (int64_t p = first_query_pair(); p < first_query_pair() + query_pairs(); ++p) {
      by_queries.add({p, 0, finish_queries(p, grads[0])});
    }
    const int rank = x_.team.rank();
    for (int64_t p = x_.keys.first_pair(rank); p < x_.keys.first_pair(rank + 1); ++p) {
      const auto found = of_key_pairs_.find(p);
      by_keys.add({p, 0, found == of_key_pairs_.end() ? zeros_of(shapes_) : found->second});
    }
    add_parameters(std::move(by_queries), std::move(by_keys), grads);
    return grads;
  }

 private:
  int64_t first_query_pair() const { return x_.queries.first_pair(x_.team.rank()); }
  int64_t query_pairs() const {
    return x_.queries.first_pair(x_.team.rank() + 1) - first_query_pair();
  }
  // The two chunks of a pair, in the order in which they are added.
  std::array<int64_t, 2> chunks_of_pair(int64_t p) const {
    return {p, x_.queries.chunks() - 1 - p};
  }

  void take_queries(const Kept& kept, const Tensor& context, const Upstream& up) {
    const bool of_scores = wanted_.any_parameter();
    size_t next = 0;
    for (const int64_t c : x_.queries.chunks_of(x_.team.rank())) {
      const auto rows_of = [&](const Tensor& t) {
        return t ? chunk_of(x_.queries, t, c) : Tensor();
      };
      QueryRows rows = lower_queries(x_.attention, x_.n, rows_of(q_), x_.queries.chunk(c).begin);
      rows.q = leaf(rows.q, wanted_.q || of_scores);
      if (rows.u) rows.u = leaf(rows.u, of_scores);
      if (rows.mask.bias) rows.mask.bias = leaf(rows.mask.bias, of_scores);
      if (rows.mask.center) rows.mask.center = leaf(rows.mask.center, wanted_.q || of_scores);
      Merged merged = kept.merged[next++];
      merged.context = rows_of(context);
      queries_.emplace(c, QuerySums{std::move(rows),
                                    std::move(merged),
                                    Upstream{.context = rows_of(up.context),
                                             .log_sum_exp = rows_of(up.log_sum_exp),
                                             .log_prob = rows_of(up.log_prob)},
                                    {}});
    }
  }

  // A chunk of keys against all queries here; its gradients go to its owner.
  void meet_keys(int64_t c) {
    const bool mine = x_.keys.owner_of(c) == x_.team.rank();
    const int64_t first = x_.keys.chunk(c).begin;
    const Attention own = with_leaves(x_.attention);
    Tensor given, lowered;
    if (mine) {
      given = leaf(chunk_of(x_.keys, k_, c), wanted_.k);
      const Recording on;
      lowered = lower_keys(own, x_.n, given, first);
    }
    KeyRows keys = broadcast(x_, c, lowered, mine ? chunk_of(x_.keys, v_, c) : Tensor());
    keys.k = leaf(keys.k, wanted_.k || wanted_.any_parameter());
    keys.v = leaf(keys.v, wanted_.v);
    Shapes shapes;
    if (keys.k.requires_grad()) shapes["k"] = keys.k.shape();
    if (keys.v.requires_grad()) shapes["v"] = keys.v.shape();
    TreeSum sum;
    for (int64_t p = first_query_pair(); p < first_query_pair() + query_pairs(); ++p) {
      Tensors of_pair = zeros_of(shapes);
      for (const int64_t a : chunks_of_pair(p)) meet(queries_.at(a), keys, of_pair);
      sum.add({p, 0, std::move(of_pair)});
    }
    const Tensors d = total_at(x_.team, x_.keys.owner_of(c), x_.queries, shapes, std::move(sum));
    if (!mine) return;
    if (d.contains("v")) of_v_[c] = d.at("v");
    if (!d.contains("k")) return;
    if (lowered.requires_grad()) lowered.backward(d.at("k"));
    if (wanted_.k) of_k_[c] = given.grad() ? given.grad() : Tensor::zeros(given.shape());
    add_leaves(own, of_key_pairs_.try_emplace(x_.keys.pair_of(c), zeros_of(shapes_)).first->second);
  }

  void meet(QuerySums& q, const KeyRows& keys, Tensors& of_pair) const {
    if (q.rows.pairs_with(keys.range(), x_.n) == 0) return;
    const BlockGradients d = block_backward(x_.attention, x_.n, q.rows, keys, q.merged, q.up);
    if (d.k) of_pair.at("k").add_(d.k);
    if (d.v) of_pair.at("v").add_(d.v);
    q.add(d, keys.range());
  }

  // From the lowered queries of a pair to its queries and to the parameters.
  Tensors finish_queries(int64_t p, Tensor& dq) {
    Tensors of_pair = zeros_of(shapes_);
    for (const int64_t c : chunks_of_pair(p)) {
      const QuerySums& sums = queries_.at(c);
      const Attention own = with_leaves(x_.attention);
      const Tensor given = leaf(chunk_of(x_.queries, q_, c), wanted_.q);
      const QueryRows rows = [&] {
        const Recording on;
        return lower_queries(own, x_.n, given, sums.rows.first);
      }();
      const auto pass = [](const Tensor& t, const Tensor& d) {
        if (t && d && t.requires_grad()) t.backward(d);
      };
      pass(rows.q, sums.d.q);
      pass(rows.u, sums.d.u);
      pass(rows.mask.bias, sums.d.bias);
      pass(rows.mask.center, sums.d.center);
      for (const auto& [name, d] : sums.d.parameters) pass(own.score.parameters.at(name), d);
      if (const Tensor sink = sink_of(own.weighting)) {
        pass(sink, sink_gradient(own, sums.merged, sums.up));
      }
      add_leaves(own, of_pair);
      if (!dq) continue;
      const int64_t at = x_.queries.place_of(c);
      Tensor to = dq.slice(2, at, at + given.size(2));
      if (given.grad()) {
        to.copy_(given.grad());
      } else {
        to.fill_(0.0f);
      }
    }
    return of_pair;
  }

  void add_leaves(const Attention& own, Tensors& to) const {
    const std::vector<Tensor> all = parameters_of(own);
    for (size_t i = 0; i < all.size(); ++i) {
      if (wanted_.parameters[i] && all[i].grad()) to.at(name_of(i)).add_(all[i].grad());
    }
  }

  // Chunks of this rank, in their places.
  Tensor placed(const Tensor& like, const std::map<int64_t, Tensor>& chunks, bool wanted) const {
    if (!wanted) return {};
    Tensor all = Tensor::zeros(like.shape());
    for (const auto& [c, t] : chunks) {
      const int64_t at = x_.keys.place_of(c);
      all.slice(2, at, at + t.size(2)).copy_(t);
    }
    return all;
  }

  void add_parameters(TreeSum by_queries, TreeSum by_keys, Grads& grads) const {
    Tensors total, more;
    if (!shapes_.empty()) {
      total = total_everywhere(x_.team, x_.queries, shapes_, std::move(by_queries));
      more = total_everywhere(x_.team, x_.keys, shapes_, std::move(by_keys));
    }
    for (size_t i = 0; i < wanted_.parameters.size(); ++i) {
      grads.emplace_back();
      if (!wanted_.parameters[i]) continue;
      grads.back() = total.at(name_of(i));
      grads.back().add_(more.at(name_of(i)));
    }
  }

  const Call& x_;
  const Tensor &q_, &k_, &v_;
  const Wanted& wanted_;
  Shapes shapes_;  // of the parameters that want a gradient
  std::map<int64_t, QuerySums> queries_;
  std::map<int64_t, Tensor> of_k_, of_v_;  // by chunk
  std::map<int64_t, Tensors> of_key_pairs_;
};

// ---- Checks ------------------------------------------------------------------------------------

[[noreturn]] void fail(const std::string& message) { throw Error("attend", message); }

void check_rows(const char* name, const Tensor& t, const SequenceCut& cut, const Team& team) {
  const int64_t expected = cut.row_count(team.rank());
  if (t.size(2) == expected) return;
  fail(fmt::format("{} has {} rows, expected {}: what rank {} of {} holds of {} (rows_of_rank)",
                   name, t.size(2), expected, team.rank(), team.size(), cut.length()));
}

// What a team moves: f32, on the CPU.
void check_movable(const char* name, const Tensor& t) {
  if (t.dtype() != DType::f32) {
    fail(fmt::format("{} is {}, expected f32", name, fovea::name_of(t.dtype())));
  }
  if (t.device() != Device::cpu)
    fail(fmt::format("{} is not on the CPU, as a team's must be", name));
}

Tensor with_rank(Tensor t, int rank) {
  if (!t) return t;
  if (rank <= 3) t = t.squeeze(1);
  return rank == 2 ? t.squeeze(0) : t;
}

// What has to be the same everywhere, in words.
std::string said(const Sizes& n, const Attention& a, const std::vector<Tensor>& inputs) {
  std::string text = fmt::format("B={} H={} Hk={} Lq={} Lk={} Dq={} Dk={} Dv={} {}", n.B, n.H, n.Hk,
                                 n.Lq, n.Lk, n.Dq, n.Dk, n.Dv, def_of(a.score).name);
  for (const MaskTerm& term : a.mask.terms) text += " " + term.def->name;
  text += " " + def_of(a.weighting).name + ", gradients of";
  for (const Tensor& t : inputs) text += needs_grad(std::span(&t, 1)) ? " 1" : " 0";
  return text;
}

Call checked(Team& team, const Tensor& q, const Tensor& k, const Tensor& v, const Attention& a,
             const Lengths& lengths) {
  Sizes n = sizes_of(q, k, v);
  n.Lq = lengths.queries;
  n.Lk = lengths.keys;
  if (n.Lq < 0 || n.Lk < 0) fail("lengths are below 0");
  check_mergeable("attend", a);
  check_attention("attend", a, n);
  Call x{team, a, n, SequenceCut(n.Lq, team.size()), SequenceCut(n.Lk, team.size()), 0};
  check_rows("q", q, x.queries, team);
  check_rows("k", k, x.keys, team);
  check_rows("v", v, x.keys, team);
  const NoGrad quiet;
  x.key_width = lower_keys(a, n, Tensor::zeros({n.B, n.Hk, 0, n.Dk}), 0).size(3);
  return x;
}

}  // namespace

AttendedRows attend(Team& team, const Tensor& q, const Tensor& k, const Tensor& v,
                    const Attention& attention, const Lengths& lengths) {
  const DefaultDevice here(Device::cpu);
  std::shared_ptr<Call> x;
  std::vector<Tensor> inputs;
  team::together(team, [&] {
    check_inputs(q, k, v);
    check_movable("q", q);
    check_movable("k", k);
    check_movable("v", v);
    inputs = {with_rank_4(q), with_rank_4(k), with_rank_4(v)};
    x = std::make_shared<Call>(checked(team, inputs[0], inputs[1], inputs[2], attention, lengths));
    for (const Tensor& t : parameters_of(attention)) inputs.push_back(t);
  });
  if (team.size() > 1) {
    team::expect_alike(team, {{"a call of attend()", said(x->n, attention, inputs)}});
  }

  std::vector<Held> held = forward(*x, inputs[0], inputs[1], inputs[2]);
  const auto kept = std::make_shared<Kept>();
  const AttendedRows own = put_together(*x, inputs[0].size(2), std::move(held), *kept);
  std::vector<Saved> saved;
  for (const Tensor& t : inputs) saved.emplace_back(t);
  saved.emplace_back(own.context);
  const std::vector<Tensor> recorded =
      record("attend", inputs, {own.context, own.log_sum_exp, own.log_prob},
             [x, kept, saved, wanted = wanted_of(inputs)](const Grads& d) {
               for (const Saved& s : saved) s.get("attend");
               const Tensor &q4 = saved[0].get("attend"), &k4 = saved[1].get("attend"),
                            &v4 = saved[2].get("attend");
               return BackwardPass(*x, q4, k4, v4, wanted)
                   .run(*kept, saved.back().get("attend"),
                        {.context = d[0], .log_sum_exp = d[1], .log_prob = d[2]});
             });
  return {with_rank(recorded[0], q.rank()), with_rank(recorded[1], q.rank()),
          with_rank(recorded[2], q.rank()), with_rank(own.chosen, q.rank())};
}

}  // namespace fovea
