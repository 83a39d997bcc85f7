#include "ranks/sums.h"

#include <algorithm>
#include <span>

#include "tensor/impl.h"

namespace fovea {
namespace {

using team::Bytes;
using team::ConstBytes;
using team::Team;

int64_t numel_of(const Shape& shape) {
  int64_t n = 1;
  for (const int64_t d : shape) n *= d;
  return n;
}

// The partial sums that a rank ends with, without their values.
std::vector<PartialSum> parts_of(const SequenceCut& cut, int rank) {
  TreeSum sum;
  for (int64_t p = cut.first_pair(rank); p < cut.first_pair(rank + 1); ++p) sum.add({p, 0, {}});
  return sum.parts();
}

// One after the other: parts, and names within them.
Tensor packed(const std::vector<PartialSum>& parts, const Shapes& shapes, int64_t floats) {
  Tensor all = Tensor::empty({floats * static_cast<int64_t>(parts.size())});
  float* to = raw(all);
  for (const PartialSum& part : parts) {
    for (const auto& [name, shape] : shapes) {
      const Tensor from = part.values.at(name).contiguous();
      to = std::copy(raw(from), raw(from) + from.numel(), to);
    }
  }
  return all;
}

void add_packed(const Tensor& all, std::vector<PartialSum> parts, const Shapes& shapes,
                TreeSum& sum) {
  int64_t at = 0;
  for (PartialSum& part : parts) {
    for (const auto& [name, shape] : shapes) {
      const int64_t n = numel_of(shape);
      part.values[name] = all.slice(0, at, at + n).reshape(shape);
      at += n;
    }
    sum.add(std::move(part));
  }
}

Bytes bytes_of(const Tensor& t) {
  return std::as_writable_bytes(std::span(raw(t), static_cast<size_t>(t.numel())));
}

// `wanted(r)`: whether rank r gets the total.
template <class Wanted>
Tensors total(Team& team, const SequenceCut& cut, const Shapes& shapes, TreeSum mine,
              const Wanted& wanted) {
  const NoGrad quiet;
  int64_t floats = 0;
  for (const auto& [name, shape] : shapes) floats += numel_of(shape);
  const size_t ranks = static_cast<size_t>(team.size());
  const Tensor sent = packed(mine.parts(), shapes, floats);
  std::vector<ConstBytes> send(ranks);
  std::vector<Bytes> places(ranks);
  std::vector<Tensor> received(ranks);
  for (size_t r = 0; r < ranks; ++r) {
    if (wanted(static_cast<int>(r))) send[r] = bytes_of(sent);
    if (!wanted(team.rank())) continue;
    const size_t parts = parts_of(cut, static_cast<int>(r)).size();
    received[r] = Tensor::empty({floats * static_cast<int64_t>(parts)});
    places[r] = bytes_of(received[r]);
  }
  team.exchange(send, places);
  if (!wanted(team.rank())) return {};
  TreeSum sum;
  for (size_t r = 0; r < ranks; ++r) {
    add_packed(received[r], parts_of(cut, static_cast<int>(r)), shapes, sum);
  }
  return sum.total();
}

}  // namespace

Tensors zeros_of(const Shapes& shapes) {
  Tensors all;
  for (const auto& [name, shape] : shapes) all[name] = Tensor::zeros(shape);
  return all;
}

Tensors total_at(Team& team, int to, const SequenceCut& cut, const Shapes& shapes, TreeSum mine) {
  return total(team, cut, shapes, std::move(mine), [to](int rank) { return rank == to; });
}

Tensors total_everywhere(Team& team, const SequenceCut& cut, const Shapes& shapes, TreeSum mine) {
  return total(team, cut, shapes, std::move(mine), [](int) { return true; });
}

}  // namespace fovea
