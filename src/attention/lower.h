#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "attention/def.h"
#include "kernels/attention/problem.h"

// From the three choices to what the kernels understand: masks become ranges of keys, a bool
// matrix, conditions row by row and a bias; queries and keys become those of a dot product, of an
// additive score, or of pairs. A term stays as wide as it is: nothing here is made for every pair.
namespace fovea {

// Terms that are conditions, as the kernels ask them. Not to be copied: they point to their terms.
struct Conditions {
  struct Term {
    MaskTerm term;
    MaskContext context;
  };
  std::vector<Term> terms;
  std::vector<kernels::Condition> list;  // for the CPU
  std::vector<Tensor> read;              // what those point to
};
// Whether devices can ask it: by what lies in memory.
bool asked_by_memory(const MaskTerm&);
// A condition as the kernels of a device ask it; `read` keeps what it points to.
kernels::Condition condition_on(Device, const Conditions::Term&, std::vector<Tensor>& read);

struct LoweredMask {
  // Keys begin ≤ j < end by (b, h, i); empty: all. Strides of 0 where nothing varies.
  std::vector<int32_t> begin, end;
  int64_t stride_b = 0, stride_h = 0;
  Tensor allowed;  // bool, broadcastable to [B,H,Lq,Lk]; undefined: everything
  std::shared_ptr<const Conditions> conditions;  // null: none
  Tensor bias;  // f32 likewise, or by distance when `relative`; undefined: none
  bool relative = false;
  Tensor center;  // f32 [B,H,Lq]; undefined: no predicted window
  float sigma = 0.0f;
  bool renormalise = false;
  int64_t first_query = 0, first_key = 0;  // in the call, where this is a part of one

  bool hides() const { return !begin.empty() || allowed || conditions || bias; }
};

// q [B,H,Lq,Dq]. The score's bias is merged in.
LoweredMask lower_mask(const Attention&, const Sizes&, const Tensor& q);

// Queries [first, first + q.size(2)) of a call of those sizes, against all of its keys.
LoweredMask lower_mask_of_queries(const Attention&, const Sizes&, const Tensor& q, int64_t first);
// Of `queries` queries against all keys, what there is against some.
LoweredMask of_keys(const LoweredMask&, int64_t queries, const KeyRange&);
// What of the mask's bias, or of a tensor of its shape, belongs to them; a view.
Tensor bias_of_keys(const LoweredMask&, const Tensor& bias, int64_t queries, const KeyRange&);

// Which keys [B,Hk,Lk,1] some query sees, and which queries [B,H,Lq,1] see some key.
struct Visible {
  Tensor keys, queries;
};
Visible visible(const LoweredMask&, const Sizes&);

// Queries and keys as a score's form reads them.
struct LoweredRows {
  Tensor q, k;
};

// Which sides the score of a call lowers. Of a score that needs one, the cheaper.
struct Sides {
  bool queries = false, keys = false;
};
Sides lowered_sides(const ScoreDef&, const Sizes&);

// A view of a tensor broadcastable to [B,H,R,C].
template <class T>
kernels::View<T> broadcast_view(const Tensor& t, T* data) {
  const auto stride = [&](int from_end) {
    const int d = t.rank() - from_end;
    return d < 0 || t.size(d) == 1 ? int64_t{0} : t.strides()[d];
  };
  return {data, stride(4), stride(3), stride(2), stride(1)};
}

// Where a bias by distance [..,Lq+Lk−1] is read: at j − i + Lq − 1.
template <class T>
kernels::View<T> distance_view(const Tensor& t, T* data, int64_t Lq) {
  const kernels::View<T> v = broadcast_view(t, data);  // [..,B,H,distance] is [H,R,C] here
  return {data + (Lq - 1) * v.c, v.h, v.r, -v.c, v.c};
}

template <class T>
kernels::View<T> bias_view(const LoweredMask& m, const Tensor& t, T* data, const Sizes& n) {
  return m.relative ? distance_view(t, data, n.Lq) : broadcast_view(t, data);
}

}  // namespace fovea
