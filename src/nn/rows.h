#pragma once

#include <functional>

#include "fovea/layers.h"

// A block in halves, for rows that are in several places: what comes before self-attention and what
// comes after it is done row by row.
namespace fovea::nn {

struct ProjectedHeads {
  Tensor q, k, v;  // [B,H,L,d], [B,Hk,L,d]
};
ProjectedHeads project(const MultiHead&, const Tensor& x, const Rotary*);  // of self-attention

// attend() in another way: the context.
using AttendRows =
    std::function<Tensor(const Tensor& q, const Tensor& k, const Tensor& v, const Attention&)>;
Tensor contexts(const MultiHead&, const ProjectedHeads&, const HeadsPass&,
                const AttendRows&);  // [B,L,·]

Tensor self_input(const Block&, const Tensor& x);
Noise noise_of_weights(const BlockPass&);  // of self-attention
// The rest of a block, where self-attention made `made` of x.
Tensor after_self(const Block&, const Tensor& x, const Tensor& made, const BlockPass&);

// f(tensor) for each weight of a norm, a linear layer or a block without a source; those of scores,
// which attention reads, are not among them.
template <class F>
void each_row_weight(Norm& n, const F& f) {
  if (n.weight) f(n.weight);
  if (n.bias) f(n.bias);
}
template <class F>
void each_row_weight(Linear& l, const F& f) {
  if (l.weight) f(l.weight);
  if (l.bias) f(l.bias);
}
template <class F>
void each_row_weight(Block& b, const F& f) {
  for (Linear* l : {&b.self.in, &b.self.out, &b.mlp.up, &b.mlp.down}) each_row_weight(*l, f);
  for (Norm* n : {&b.self.query_norm, &b.self.key_norm, &b.self_norm, &b.mlp_norm, &b.self_after,
                  &b.mlp_after}) {
    each_row_weight(*n, f);
  }
}

}  // namespace fovea::nn
