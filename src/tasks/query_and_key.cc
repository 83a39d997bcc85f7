#include <fmt/format.h>

#include "attention/check.h"
#include "fovea/error.h"
#include "fovea/ops.h"
#include "tasks/inside.h"

// One query beside one key, number by number.
namespace fovea::tasks {
namespace {

std::vector<float> vector_at(const Tensor& rows, int64_t head, int64_t at) {  // [1,H,L,D] → [D]
  return rows.select(0, 0).select(0, head).select(0, at).to_vector();
}

void check_cell(const WeightPlace& cell, const nn::Heads& heads) {
  const auto within = [&](const char* what, int64_t at, int64_t most) {
    if (at >= 0 && at < most) return;
    throw Error("heads", fmt::format("{} must be in 1 … {}, found {}", what, most, at + 1));
  };
  within("the head", cell.head, heads.queries.size(1));
  within("the row", cell.row, heads.queries.size(2));
  within("the column", cell.column, heads.keys.size(2));
}

// As the kernels get them (attention/def.h): each side lowered by itself.
QueryAndKey found_in(const nn::Heads& heads, const WeightPlace& cell) {
  const Score& score = heads.attention.score;
  const ScoreDef& def = def_of(score);
  if (def.form != Form::dot) {
    throw Error("heads", fmt::format("the score {} is no dot product, so it has no terms to show",
                                     def.name));
  }
  check_cell(cell, heads);
  const bool keys_too = def.keys != nullptr && !(def.either && def.queries != nullptr);
  const Tensor q = def.queries != nullptr ? def.queries(heads.queries, score.parameters)
                                          : heads.queries,
               k = keys_too ? def.keys(heads.keys, score.parameters) : heads.keys;
  const int64_t shared = q.size(1) / k.size(1);  // heads that have one key head
  const Tensor weights = heads.attended.weights({.heads = {cell.head}, .rows = {cell.row}});
  return {.query = vector_at(q, cell.head, cell.row),
          .key = vector_at(k, cell.head / shared, cell.column),
          .scale = static_cast<double>(
              scale_of(score, sizes_of(heads.queries, heads.keys, heads.values))),
          .weight = static_cast<double>(weights.to_vector()[static_cast<size_t>(cell.column)]),
          .whole = !score.bias && !score.softcap};
}

}  // namespace

QueryAndKey query_and_key(const Inside& in, const WeightPlace& cell) {
  if (in.opens == Inside::Opens::outputs) throw Error("heads", "this model has no heads");
  const NoGrad off;
  std::optional<QueryAndKey> found;
  const nn::HeadsHook hook = [&](const nn::Heads& heads) {
    if (heads.name == cell.layer) found = found_in(heads, cell);
    return Tensor();
  };
  in.states(in.x.unsqueeze(0), {.hook = hook});
  if (!found) throw Error("heads", fmt::format("there is no layer \"{}\"", cell.layer));
  return std::move(*found);
}

}  // namespace fovea::tasks
