#include "tasks/inside.h"

#include <algorithm>

#include "fovea/error.h"
#include "fovea/ops.h"

namespace fovea::tasks {

Tensor log_p_of(const Tensor& logits, const std::vector<int64_t>& targets) {
  const int64_t T = logits.size(0), R = logits.size(1);
  const Tensor ids = Tensor::from_ids(targets, {T, 1}).expand({T, R}).contiguous();
  const Tensor nll =
      cross_entropy(logits, ids, {.ignore_index = -1, .reduction = Reduction::none});  // [T,R]
  return -nll.transpose(0, 1);
}

Tensor mean_vector(const Tensor& table) {
  const NoGrad off;
  return mean(table, {0});
}

nn::HeadsHook HeadsSeen::hook() {
  return [this](const nn::Heads& heads) {
    const Tensor w = heads.attended.weights().detach();  // [1,H,Lq,Lk]
    seen_.emplace_back(heads.name, w.select(0, 0));
    return Tensor();
  };
}

Tensor HeadsSeen::named(const std::string& name) const {
  for (const auto& [of, weights] : seen_) {
    if (of == name) return weights;
  }
  throw Error("explain", "no attention of the name '" + name + "' passed");
}

nn::HeadsHook on_heads(const models::Intervention& how, const std::string& ending,
                       std::vector<Tensor>* kept) {
  return [how, ending, kept](const nn::Heads& heads) {
    if (!heads.name.ends_with(ending)) return Tensor();
    const Tensor w = heads.attended.weights();  // [B,H,Lq,Lk]
    const Tensor rows = w.reshape({w.size(0) * w.size(1), w.size(2), w.size(3)});
    const auto all = [&] { return greater(Tensor::full(rows.shape(), 1.0f), Tensor::scalar(0)); };
    const Tensor used = how ? how({.weights = rows, .t = 0, .permitted = all}) : rows;
    if (kept != nullptr) kept->push_back(used);
    return used.reshape(w.shape());
  };
}

}  // namespace fovea::tasks
