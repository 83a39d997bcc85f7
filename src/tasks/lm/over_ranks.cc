#include "tasks/lm/over_ranks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "attention/blocks.h"
#include "fovea/ops.h"
#include "fovea/ranks.h"
#include "models/parts.h"
#include "ranks/cut.h"
#include "tensor/impl.h"
#include "tensor/tape.h"
#include "tensor/tree_sum.h"

namespace fovea::tasks::lm {
namespace {

using team::Team;

// The pairs of a rank.
std::vector<models::RowRuns> rows_of(const SequenceCut& cut, int rank) {
  std::vector<models::RowRuns> all;
  for (int64_t p = cut.first_pair(rank); p < cut.first_pair(rank + 1); ++p) {
    const RowRange front = cut.chunk(p), back = cut.chunk(cut.chunks() - 1 - p);
    all.push_back({{front.begin, front.end}, {back.begin, back.end}});
  }
  return all;
}

// Nobody else sees its numbers.
bool is_alone(const Tensor& t) {
  return t.is_contiguous() && t.impl()->weak_from_this().use_count() == 1 &&
         t.impl()->storage.use_count() == 1;
}

// A weight once for each of `n` parts, the first of which is term `first`. Their gradients add up
// as soon as all have come, and stay here.
std::vector<Tensor> copies_of(const Tensor& weight, int64_t first, size_t n,
                              train::SharedBatches& shared) {
  std::vector<Tensor> copies;
  for (size_t p = 0; p < n; ++p) copies.push_back(weight.detach());
  return record("copies_of", {weight}, std::move(copies),
                [&shared, first, n, key = weight.impl(), shape = weight.shape()](const Grads& d) {
                  const NoGrad off;
                  TreeSum sum;
                  for (size_t p = 0; p < n; ++p) {
                    const bool came = p < d.size() && d[p].defined();
                    Tensor g = !came ? Tensor::zeros(shape) : is_alone(d[p]) ? d[p] : d[p].clone();
                    sum.add({first + static_cast<int64_t>(p), 0, {{"", std::move(g)}}});
                  }
                  std::vector<Tensor>& sums = shared.sums[key];
                  for (PartialSum& part : sum.parts()) sums.push_back(part.values.at(""));
                  return Grads{Tensor()};
                });
}

// `shared`: null where nothing learns.
models::SequenceParts parts_of(const SequenceCut& cut, Team& team, train::SharedBatches* shared) {
  models::SequenceParts parts;
  parts.first = cut.first_pair(team.rank());
  parts.rows = rows_of(cut, team.rank());
  parts.length = cut.length();
  parts.attend = [&team, L = cut.length()](const Tensor& q, const Tensor& k, const Tensor& v,
                                           const Attention& a) {
    return fovea::attend(team, q, k, v, a, {L, L}).context;
  };
  // A weight that is used in several places has one sum of gradients.
  const auto made = std::make_shared<std::map<const void*, std::vector<Tensor>>>();
  parts.copies = [made, shared, first = parts.first, n = parts.rows.size()](const Tensor& weight) {
    if (shared == nullptr || !weight.requires_grad()) return std::vector<Tensor>(n, weight);
    std::vector<Tensor>& copies = (*made)[weight.impl()];
    if (copies.empty()) copies = copies_of(weight, first, n, *shared);
    return copies;
  };
  return parts;
}

template <class T>
std::vector<T> gathered(Team& team, const std::vector<T>& mine) {
  const std::string bytes(reinterpret_cast<const char*>(mine.data()), mine.size() * sizeof(T));
  std::vector<T> all;
  for (const std::string& of_rank : team::gather(team, bytes)) {
    const size_t n = of_rank.size() / sizeof(T), before = all.size();
    all.resize(before + n);
    if (n > 0) std::memcpy(all.data() + before, of_rank.data(), of_rank.size());
  }
  return all;
}

}  // namespace

void check_shared(const LanguageModel& m, int64_t window, const Team& team) {
  for (const nn::Block& block : m.model.decoder.blocks) {
    for (const nn::HeadCall& call : block.self.calls) check_mergeable("train", call.attention);
  }
  if (window < kLeastShared) {
    throw Error("train", fmt::format("--context-ranks: windows of {} tokens or more, found {}",
                                     kLeastShared, window));
  }
  const int64_t pairs = SequenceCut(window, 1).pairs();
  if (team.size() > pairs) {
    throw Error("train", fmt::format("--context-ranks: {} processes at most share a window of {} "
                                     "tokens, found {}",
                                     pairs, window, team.size()));
  }
  for (const auto& [name, tensor] : m.model.weights.learned()) {
    if (tensor.device() == Device::cpu) continue;
    throw Error("train", "--context-ranks is of the CPU; leave --device out");
  }
}

std::shared_ptr<train::SharedBatches> shared_batches(int64_t window) {
  auto shared = std::make_shared<train::SharedBatches>();
  shared->terms = SequenceCut(window, 1).pairs();
  return shared;
}

train::StepLoss shared_loss(const LanguageModel& m, const Tensor& ids, const models::LossConfig& c,
                            Team& team, train::SharedBatches& shared) {
  shared.sums.clear();
  const SequenceCut cut(ids.size(1) - 1, team.size());
  train::StepLoss sum;
  std::vector<double> own;
  for (const models::Loss& l : models::losses(m.model, ids, parts_of(cut, team, &shared), c)) {
    const Tensor of_part = l.loss * static_cast<float>(l.tokens);
    sum.loss = sum.loss ? sum.loss + of_part : of_part;
    own.push_back(l.nll);
    own.push_back(static_cast<double>(l.tokens));
  }
  const std::vector<double> all = gathered(team, own);
  for (size_t i = 0; i < all.size(); i += 2) {
    sum.total += all[i];
    sum.count += all[i + 1];
  }
  return sum;
}

std::vector<float> shared_losses(const LanguageModel& m, const Tensor& ids, Team& team) {
  const NoGrad off;
  const int64_t B = ids.size(0), T = ids.size(1) - 1;
  const SequenceCut cut(T, team.size());
  std::vector<float> own;
  for (const Tensor& part : models::each_loss(m.model, ids, parts_of(cut, team, nullptr))) {
    const std::vector<float> losses = part.to_vector();
    own.insert(own.end(), losses.begin(), losses.end());
  }
  const std::vector<float> all = gathered(team, own);
  std::vector<float> found(static_cast<size_t>(B * T));
  auto next = all.begin();
  for (int rank = 0; rank < team.size(); ++rank) {
    for (const auto& runs : rows_of(cut, rank)) {
      for (int64_t b = 0; b < B; ++b) {
        for (const models::RowRun& run : runs) {
          const int64_t n = run.end - run.begin;
          std::copy_n(next, n, found.begin() + b * T + run.begin);
          next += n;
        }
      }
    }
  }
  return found;
}

}  // namespace fovea::tasks::lm
