#include "attention/def.h"

namespace fovea {
namespace {

// Segments of one batch entry, [L] by a stride.
struct Segments {
  const int64_t* data;
  int64_t stride;
  int64_t operator[](int64_t i) const { return data[i * stride]; }
};

Segments ids_of(const MaskTerm& t, const char* name, int64_t b) {
  const Tensor& x = t.parameters.at(name);  // [B,L]
  return {x.data<int64_t>() + b * x.strides()[0], x.strides()[1]};
}

// How many keys there are before the first for which `before` is false.
template <class Before>
int64_t count_while(int64_t Lk, const Before& before) {
  int64_t low = 0, high = Lk;
  while (low < high) {
    const int64_t middle = low + (high - low) / 2;
    if (before(middle)) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

}  // namespace

// Packed sequences: a query sees the keys of its own. Packed one after another, as they mostly are,
// those are a range.
extern const MaskDef mask_segments = {
    .name = "segments",
    .formula = "q_segments[b,i] = k_segments[b,j]",
    .parameters = {{"q_segments", {"B", "Lq"}, DType::i64},
                   {"k_segments", {"B", "Lk"}, DType::i64}},
    .range =
        [](const MaskTerm& t, const MaskContext& c, int64_t b, int64_t i) {
          const Segments k = ids_of(t, "k_segments", b);
          const int64_t own = ids_of(t, "q_segments", b)[i];
          return KeyRange{count_while(c.n.Lk, [&](int64_t j) { return k[j] < own; }),
                          count_while(c.n.Lk, [&](int64_t j) { return k[j] <= own; })};
        },
    .is_range =
        [](const MaskTerm& t, const MaskContext& c) {
          for (int64_t b = 0; b < c.n.B; ++b) {
            const Segments k = ids_of(t, "k_segments", b);
            for (int64_t j = 1; j < c.n.Lk; ++j)
              if (k[j] < k[j - 1]) return false;
          }
          return true;
        },
    .allows =
        [](const MaskTerm& t, const MaskContext&, int64_t b, int64_t, int64_t i, int64_t j) {
          return ids_of(t, "q_segments", b)[i] == ids_of(t, "k_segments", b)[j];
        },
    .equal =
        [](const MaskTerm& t) {
          return EqualIds{t.parameters.at("q_segments"), t.parameters.at("k_segments")};
        },
};

Mask masks::segments(Tensor q_segments, Tensor k_segments) {
  return {{{.def = &mask_segments,
            .parameters = only_defined({{"q_segments", q_segments}, {"k_segments", k_segments}})}}};
}

}  // namespace fovea
