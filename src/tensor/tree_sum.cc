#include "tensor/tree_sum.h"

#include <utility>

namespace fovea {

void TreeSum::merge_last() {
  const NoGrad off;
  PartialSum right = std::move(waiting_.back());
  waiting_.pop_back();
  PartialSum& left = waiting_.back();
  for (auto& [name, tensor] : right.values) {
    const auto found = left.values.find(name);
    if (found == left.values.end()) {
      left.values.emplace(name, std::move(tensor));
    } else {
      found->second.add_(tensor);
    }
  }
  ++left.level;
}

void TreeSum::add(PartialSum next) {
  waiting_.push_back(std::move(next));
  const auto are_halves = [&] {
    if (waiting_.size() < 2) return false;
    const PartialSum &left = waiting_[waiting_.size() - 2], &right = waiting_.back();
    return left.level == right.level && left.first % (int64_t{2} << left.level) == 0;
  };
  while (are_halves()) merge_last();
}

std::vector<PartialSum> TreeSum::parts() { return std::exchange(waiting_, {}); }

Tensors TreeSum::total() {
  while (waiting_.size() > 1) merge_last();
  Tensors all = waiting_.empty() ? Tensors() : std::move(waiting_.front().values);
  waiting_.clear();
  return all;
}

}  // namespace fovea
