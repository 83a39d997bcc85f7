#include "models/parts.h"

#include <map>

#include "fovea/ops.h"
#include "models/tokens.h"
#include "nn/dropout.h"

namespace fovea::models {
namespace {

// What a part goes through, with weights of its own.
template <class Layer>
std::vector<Layer> for_parts(const Layer& layer, const SequenceParts& parts) {
  std::vector<Layer> all(parts.rows.size(), layer);
  Layer weights = layer;
  std::vector<std::vector<Tensor>> copies;
  nn::each_row_weight(weights, [&](Tensor& t) { copies.push_back(parts.copies(t)); });
  for (size_t p = 0; p < all.size(); ++p) {
    size_t next = 0;
    nn::each_row_weight(all[p], [&](Tensor& t) { t = copies[next++][p]; });
  }
  return all;
}

Tensor ids_of(const std::vector<int64_t>& ids, int64_t stride, const RowRuns& runs, int64_t shift) {
  std::vector<int64_t> some;
  const int64_t B = static_cast<int64_t>(ids.size()) / stride;
  for (int64_t b = 0; b < B; ++b) {
    for (const RowRun& run : runs) {
      const auto row = ids.begin() + b * stride + shift;
      some.insert(some.end(), row + run.begin, row + run.end);
    }
  }
  return Tensor::from_ids(some, {B, static_cast<int64_t>(some.size()) / B});
}

// The rows of parts in the order of their places, and back.
class RowOrder {
 public:
  explicit RowOrder(const std::vector<RowRuns>& parts) : parts_(parts) {
    for (size_t p = 0; p < parts.size(); ++p) {
      for (size_t r = 0; r < parts[p].size(); ++r) places_[parts[p][r].begin] = {p, r};
    }
  }
  Tensor joined(const std::vector<Tensor>& by_part, int dim) const {
    std::vector<Tensor> all;
    for (const auto& [begin, at] : places_) {
      int64_t before = 0;
      for (size_t r = 0; r < at.run; ++r) before += size(at.part, r);
      all.push_back(by_part[at.part].slice(dim, before, before + size(at.part, at.run)));
    }
    return concatenate(all, dim);
  }
  std::vector<Tensor> by_part(const Tensor& all, int dim) const {
    std::vector<std::vector<Tensor>> runs(parts_.size());
    for (size_t p = 0; p < parts_.size(); ++p) runs[p].resize(parts_[p].size());
    int64_t from = 0;
    for (const auto& [begin, at] : places_) {
      const int64_t n = size(at.part, at.run);
      runs[at.part][at.run] = all.slice(dim, from, from + n);
      from += n;
    }
    std::vector<Tensor> found;
    for (const std::vector<Tensor>& of_part : runs) found.push_back(concatenate(of_part, dim));
    return found;
  }

 private:
  struct Place {
    size_t part = 0, run = 0;
  };
  int64_t size(size_t part, size_t run) const {
    return parts_[part][run].end - parts_[part][run].begin;
  }
  const std::vector<RowRuns>& parts_;
  std::map<int64_t, Place> places_;  // by the first row
};

// A decoder's blocks; x [B,rows,W] by part, entered.
void through_blocks(const Transformer& m, const SequenceParts& parts, const nn::Dropout& drop,
                    std::vector<Tensor>& x) {
  const TransformerConfig& c = m.config;
  const Stack& s = m.decoder;
  const RowOrder order(parts.rows);
  std::vector<PassAngles> angles;
  for (const RowRuns& runs : parts.rows) angles.emplace_back(runs, head_depth(c));
  nn::BlockPass pass;
  pass.self.bias = bias_of(c, s, parts.length, parts.length);
  for (size_t b = 0; b < s.blocks.size(); ++b) {
    const std::vector<nn::Block> own = for_parts(s.blocks[b], parts);
    const bool turns = c.positions == nn::Positions::rotary;
    std::vector<Tensor> q, k, v;
    for (size_t p = 0; p < x.size(); ++p) {
      const nn::ProjectedHeads rows =
          nn::project(own[p].self, nn::self_input(own[p], x[p]),
                      turns ? angles[p].of(s.blocks[b].config.rotary) : nullptr);
      q.push_back(rows.q);
      k.push_back(rows.k);
      v.push_back(rows.v);
    }
    pass.noise = drop.at(static_cast<int64_t>(b)).noise();
    pass.self.mask = mask_of(s, s.blocks[b], masks::causal());
    pass.self.noise = nn::noise_of_weights(pass);
    const Tensor seen =
        nn::contexts(s.blocks[b].self, {order.joined(q, 2), order.joined(k, 2), order.joined(v, 2)},
                     pass.self, parts.attend);
    const std::vector<Tensor> context = order.by_part(seen, 1);
    for (size_t p = 0; p < x.size(); ++p) {
      nn::BlockPass of_part;
      of_part.noise =
          drop.at(static_cast<int64_t>(b)).at(parts.first + static_cast<int64_t>(p)).noise();
      x[p] = nn::after_self(own[p], x[p], own[p].self.out(context[p]), of_part);
    }
  }
}

// f(states, targets, losses) of each part.
template <class Of>
void by_parts(const Transformer& m, const Tensor& ids, const SequenceParts& parts,
              const TransformerPass& pass, const Of& f) {
  expect_part("decode", m.decoder, "decoder");
  const TransformerConfig& c = m.config;
  const nn::Dropout drop = pass.noise;
  const std::vector<int64_t> all = ids.to_ids();
  const size_t n = parts.rows.size();
  std::vector<Tensor> x;
  {
    const std::vector<Tensor> table = parts.copies(m.target.table);
    std::vector<Stack> stacks(n);
    const auto give = [&](Tensor Stack::*weight) {
      if (!(m.decoder.*weight)) return;
      const std::vector<Tensor> copies = parts.copies(m.decoder.*weight);
      for (size_t p = 0; p < n; ++p) stacks[p].*weight = copies[p];
    };
    if (c.positions == nn::Positions::learned) give(&Stack::positions);
    give(&Stack::types);
    const std::vector<nn::Norm> first = for_parts(m.decoder.first, parts);
    const std::vector<nn::Linear> widen = for_parts(m.decoder.widen, parts);
    for (size_t p = 0; p < n; ++p) {
      stacks[p].first = first[p];
      stacks[p].widen = widen[p];
      const Tensor embedded =
          nn::Embedding{.table = table[p]}(ids_of(all, ids.size(1), parts.rows[p], 0));
      x.push_back(dropped(entered(c, stacks[p], embedded, parts.rows[p]),
                          drop.at("embedded").at(parts.first + static_cast<int64_t>(p))));
    }
  }
  through_blocks(m, parts, drop, x);
  const std::vector<nn::Norm> last = for_parts(m.decoder.last, parts);
  const std::vector<nn::Linear> output = for_parts(m.output, parts);
  for (size_t p = 0; p < n; ++p) {
    f(c.order == nn::NormOrder::post ? x[p] : last[p](x[p]),
      ids_of(all, ids.size(1), parts.rows[p], 1), output_losses(c, output[p]));
    x[p] = {};
  }
}

}  // namespace

std::vector<Loss> losses(const Transformer& m, const Tensor& ids, const SequenceParts& parts,
                         const LossConfig& c) {
  std::vector<Loss> all;
  by_parts(m, ids, parts, at(pass_of(c, {}), "decoder"),
           [&](const Tensor& states, const Tensor& targets, const Losses& losses) {
             all.push_back(token_loss(states, targets, losses, c.label_smoothing, kNoPadding));
           });
  return all;
}

std::vector<Tensor> each_loss(const Transformer& m, const Tensor& ids, const SequenceParts& parts) {
  std::vector<Tensor> all;
  by_parts(m, ids, parts, {},
           [&](const Tensor& states, const Tensor& targets, const Losses& losses) {
             all.push_back(losses(states, targets, {.reduction = Reduction::none}));
           });
  return all;
}

}  // namespace fovea::models
