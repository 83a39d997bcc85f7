#pragma once

#include <vector>

#include "fovea/tensor.h"

// The order in which a tensor lies in memory. Heads that were split off [B,L,H·D] are a view
// [B,H,L,D] whose L comes before H; what is made of them keeps that order, so that merging heads is
// a view again.
namespace fovea {

// The dimensions from the slowest to the fastest, the last one last; as they are numbered where
// elements share a place.
std::vector<int> memory_order(const Tensor&);

// Unwritten, of this shape, in the memory order of `like`.
Tensor empty_in_order_of(const Tensor& like, const Shape&, DType = DType::f32);

// x·wᵀ + b over the last dimension: x [..,D], w [W,D], b [W] or undefined → [..,W], in the memory
// order of x where its places follow one another.
Tensor project(const Tensor& x, const Tensor& w, const Tensor& b = {});

}  // namespace fovea
