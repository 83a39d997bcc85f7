#include "explain/ways.h"

#include <algorithm>

#include "fovea/ops.h"

namespace fovea::explain {
namespace {

std::vector<RankCurve> all_parts() {
  std::vector<RankCurve> all;
  for (const bool norm : {true, false}) {
    for (const bool skip : {false, true}) {
      for (const bool mlp : {false, true}) all.push_back({{skip, mlp, norm}, {}});
    }
  }
  return all;
}

}  // namespace

std::string name_of(const Parts& p) {
  if (!p.skip && !p.mlp) return "attention alone";
  return std::string(p.skip ? "+ skip" : "") + (p.skip && p.mlp ? " " : "") +
         (p.mlp ? "+ MLP" : "");
}

// Norms before, after or around a part, each with what is left of it.
Tensor through(const nn::Block& b, const Tensor& x, const nn::BlockPass& pass, const Parts& parts) {
  if (b.config.cross) throw Error("rank", "a block that looks at a source has no rows of its own");
  const bool post = b.config.order == nn::NormOrder::post;
  const bool around = b.config.order == nn::NormOrder::around;
  const auto normed = [&](const nn::Norm& n, const Tensor& y) { return parts.norm ? n(y) : y; };
  struct Norms {
    const nn::Norm &own, &after;
  };
  const auto part = [&](const Tensor& y, const Norms& n, bool skip, const auto& f) {
    Tensor made = f(post ? y : normed(n.own, y));
    if (around) made = normed(n.after, made);
    const Tensor sum = skip ? y + made : made;
    return post ? normed(n.own, sum) : sum;
  };
  const Tensor y = part(x, {b.self_norm, b.self_after}, parts.skip,
                        [&](const Tensor& in) { return b.self.self(in, pass.self); });
  if (!parts.mlp) return y;
  return part(y, {b.mlp_norm, b.mlp_after}, true, [&](const Tensor& in) { return b.mlp(in); });
}

Ways::Ways(const Tensor& x, const Tensor& lengths, int64_t blocks, const RankProgress& progress)
    : progress_(progress), curves_(all_parts()) {
  lengths_ =
      lengths ? lengths.to_ids() : std::vector<int64_t>(static_cast<size_t>(x.size(0)), x.size(1));
  if (std::none_of(lengths_.begin(), lengths_.end(), [](int64_t n) { return n > 1; })) {
    throw Error("rank", "there is no sequence of two rows or more");
  }
  all_steps_ = blocks * static_cast<int64_t>(curves_.size());
  x_.assign(curves_.size(), x);
  const double first = residual(x);
  for (RankCurve& curve : curves_) curve.residual.push_back(first);
}

void Ways::step(const nn::Block& block, const nn::BlockPass& pass) {
  for (size_t i = 0; i < x_.size(); ++i) {
    x_[i] = through(block, x_[i], pass, curves_[i].parts);
    curves_[i].residual.push_back(residual(x_[i]));
    if (progress_) progress_(static_cast<double>(++steps_) / static_cast<double>(all_steps_));
  }
}

// One row is like itself, and says nothing.
double Ways::residual(const Tensor& x) const {
  double sum = 0, count = 0;
  for (size_t b = 0; b < lengths_.size(); ++b) {
    if (lengths_[b] < 2) continue;
    sum += relative_residual(x.select(0, static_cast<int64_t>(b)).slice(0, 0, lengths_[b]));
    ++count;
  }
  return sum / count;
}

}  // namespace fovea::explain
