#include "nn/past.h"

#include <algorithm>

#include "fovea/ops.h"

namespace fovea::nn {
namespace {

// As `old` in its first `used` places, with room for `capacity`.
Tensor with_room(const Tensor& old, const Tensor& like, int64_t used, int64_t capacity) {
  Tensor t = Tensor::empty({like.size(0), like.size(1), capacity, like.size(3)}, like.dtype(),
                           like.device());
  if (used > 0) t.slice(2, 0, used).copy_(old.slice(2, 0, used));
  return t;
}

Tensor rows_of(const Tensor& x, const Tensor& ids) {
  if (x.dtype() == DType::f32 || x.dtype() == DType::i64) return index_select(x, 0, ids);
  Shape shape = x.shape();
  shape[0] = ids.numel();
  const Tensor to = Tensor::empty(shape, x.dtype(), x.device());
  int64_t row = 0;
  for (const int64_t id : ids.to_ids()) {
    to.slice(0, row, row + 1).copy_(x.slice(0, id, id + 1));
    ++row;
  }
  return to;
}

Tensor lowered(Lowering by, const Tensor& x) { return by ? by(x, {}) : x; }

// [B,H,1,d]·[B,Hk,d,e] → [B,H,1,e]
Tensor read(const Tensor& q, const Tensor& sum) {
  const int64_t B = q.size(0), H = q.size(1), Hk = sum.size(1), d = q.size(3), e = sum.size(3);
  return matmul(q.reshape({B, Hk, H / Hk, d}), sum).reshape({B, H, 1, e});
}

}  // namespace

void append(KeyValues& past, const Tensor& new_keys, const Tensor& new_values) {
  const NoGrad off;
  const Tensor k = new_keys.detach().to(past.kept), v = new_values.detach().to(past.kept);
  const int64_t used = past.length, needed = used + k.size(2);
  if (!past.keys || past.keys.size(2) < needed) {
    constexpr int64_t kFewest = 64;
    const int64_t capacity = std::max({kFewest, needed, 2 * used});
    past.keys = with_room(past.keys, k, used, capacity);
    past.values = with_room(past.values, v, used, capacity);
  }
  past.keys.slice(2, used, needed).copy_(k);
  past.values.slice(2, used, needed).copy_(v);
  past.length = needed;
}

KeyValues select_rows(const KeyValues& from, const Tensor& ids) {
  KeyValues to{.length = from.length, .kept = from.kept};
  const auto chosen = [&](const Tensor& x) { return x ? rows_of(x, ids) : x; };
  if (from.keys) {
    to.keys = chosen(from.keys.slice(2, 0, from.length));
    to.values = chosen(from.values.slice(2, 0, from.length));
  }
  to.lengths = chosen(from.lengths);
  for (const Tensor& s : from.sums) to.sums.push_back(chosen(s));
  return to;
}

Tensor with_ones(const Tensor& v) {
  return concatenate({v, Tensor::full({v.size(0), v.size(1), v.size(2), 1}, 1.0f)}, 3);
}

Tensor divided(const Tensor& context, const Tensor& sums) {
  return context / where(equal(sums, Tensor::scalar(0.0f)), Tensor::scalar(1.0f), sums);
}

Tensor divided_by_last(const Tensor& context) {
  const int64_t d = context.size(3) - 1;
  return divided(context.slice(3, 0, d), context.slice(3, d, d + 1));
}

Tensor linear_steps(Tensor& sum, const ScoreDef& score, const LinearRows& rows) {
  const NoGrad off;
  const Tensor q = lowered(score.queries, rows.q), k = lowered(score.keys, rows.k);
  const Tensor v = with_ones(rows.v), across = k.transpose(2, 3);  // [B,Hk,d,L]
  const int64_t L = q.size(2);
  if (!sum && L > 1) {
    const Attention causal{
        .score = scores::dot(), .mask = masks::causal(), .weighting = weightings::none()};
    const Tensor context = attend(q, k, v, causal).context;
    sum = matmul(across, v);
    return divided_by_last(context);
  }
  std::vector<Tensor> contexts;
  for (int64_t i = 0; i < L; ++i) {
    const Tensor more = matmul(across.slice(3, i, i + 1), v.slice(2, i, i + 1));
    sum = sum ? sum + more : more;
    contexts.push_back(read(q.slice(2, i, i + 1), sum));
  }
  return divided_by_last(concatenate(contexts, 2));
}

}  // namespace fovea::nn
