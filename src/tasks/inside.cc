#include "tasks/inside.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <tuple>

#include "fovea/error.h"
#include "fovea/ops.h"

namespace fovea::tasks {

// log p/(1 − p) = l_t − log Σ_{j≠t} exp l_j; the sum by a cross entropy of some other j, the target
// being hidden from it: log Σ = l_j + CE_j.
Tensor log_odds_of(const Tensor& logits, const std::vector<int64_t>& targets) {
  constexpr float kHidden = -1e9f;
  const int64_t T = logits.size(0), R = logits.size(1), V = logits.size(2);
  if (V < 2) throw Error("explain", "an output that can be but one thing has no reasons");
  std::vector<int64_t> others;
  std::vector<float> hidden(static_cast<size_t>(T * V), 0.0f);
  for (size_t t = 0; t < targets.size(); ++t) {
    others.push_back(targets[t] == 0 ? 1 : 0);
    hidden[t * static_cast<size_t>(V) + static_cast<size_t>(targets[t])] = kHidden;
  }
  const auto ids = [&](const std::vector<int64_t>& of) {
    return Tensor::from_ids(of, {T, 1}).expand({T, R}).contiguous();
  };
  const auto at = [&](const std::vector<int64_t>& of) {
    return gather(logits, 2, ids(of).unsqueeze(2)).squeeze(2);  // [T,R]
  };
  const Tensor rest = logits + Tensor::from(hidden, {T, 1, V});
  const Tensor ce = cross_entropy(rest, ids(others), {.reduction = Reduction::none});
  return (at(targets) - at(others) - ce).transpose(0, 1);
}

Tensor log_odds_of_classes(const Tensor& logits) {
  const int64_t R = logits.size(0), V = logits.size(1);
  std::vector<int64_t> classes(static_cast<size_t>(V));
  std::iota(classes.begin(), classes.end(), int64_t{0});
  return log_odds_of(logits.unsqueeze(0).expand({V, R, V}), classes);
}

void say_class(Inside& in) {
  const NoGrad off;
  in.side_by_side = true;
  const std::vector<float> said = in.log_odds(in.x.unsqueeze(0)).to_vector();
  in.shown = static_cast<size_t>(std::max_element(said.begin(), said.end()) - said.begin());
  in.title = fmt::format("{} {:.2f}", in.outputs[in.shown],
                         1 / (1 + std::exp(-static_cast<double>(said[in.shown]))));
}

void expect_outputs(const Inside& in, const std::string& who) {
  if (in.log_odds) return;
  throw Error("explain", who +
                             " asks about an output, and this model has none: attention and "
                             "rollout ask about none");
}

Inputs inputs_of(const Inside& in) {
  if (!in.picture()) {
    return {in.x, in.blank, in.log_odds, in.held,
            in.log_odds_each ? in.log_odds_each : explain::one_each(in.log_odds)};
  }
  const auto of_places = [&](const explain::Outputs& of) {
    if (!of) return of;
    return explain::Outputs([of, grid = in.grid, shape = in.x.shape()](const Tensor& rows) {
      return of(explain::pictures_of(rows, grid, shape));
    });
  };
  const Tensor x = explain::patches_of(in.x, in.grid).contiguous();
  const explain::Outputs log_odds = of_places(in.log_odds);
  return {x, in.blank.expand({x.size(1)}).contiguous(), log_odds, of_places(in.held),
          explain::one_each(log_odds)};
}

float set_picture(Inside& in, image::Image image, const explain::Grid& grid) {
  const NoGrad off;
  const Tensor pixels =
      Tensor::from(image.pixels, {image.height, image.width, image.channels}).permute({2, 0, 1});
  const float grey = mean(pixels).item();
  in.x = (pixels - grey).contiguous();
  in.blank = Tensor::scalar(0.0f);
  in.image = std::move(image);
  in.grid = grid;
  in.inputs.clear();
  for (int64_t n = 0; n < grid.rows * grid.columns; ++n) {
    in.inputs.push_back(fmt::format("{}, {}", n / grid.columns + 1, n % grid.columns + 1));
  }
  return grey;
}

// Weights in fewer bits become floats some rows at a time.
Tensor mean_vector(const Tensor& table) {
  const NoGrad off;
  if (table.dtype() == DType::f32) return mean(table, {0});
  constexpr int64_t kRows = 4096;
  const int64_t V = table.size(0);
  Tensor total = Tensor::zeros({table.size(1)});
  const Tensor ids = Tensor::arange(V);
  for (int64_t first = 0; first < V; first += kRows) {
    total.add_(sum(embedding(table, ids.slice(0, first, first + kRows)), {0}));
  }
  return total / static_cast<float>(V);
}

namespace {

// "decoder.1.cross" → {"decoder", 1, "cross"}.
struct LayerName {
  std::string of, kind;
  int64_t number = -1;  // none where the name has none
};
LayerName parts_of(const std::string& name) {
  LayerName parts{.of = name};
  for (size_t dot = name.find('.'); dot != name.npos; dot = name.find('.', dot + 1)) {
    const size_t digits = name.find_first_not_of("0123456789", dot + 1);
    const size_t end = std::min(digits, name.size());
    if (end == dot + 1 || end - dot > 6 || (end < name.size() && name[end] != '.')) continue;
    parts.of = name.substr(0, dot);
    parts.number = std::stoll(name.substr(dot + 1, end - dot - 1));
    parts.kind = end < name.size() ? name.substr(end + 1) : "";
    return parts;
  }
  return parts;
}

}  // namespace

std::string title_of(const std::string& layer) {
  const LayerName n = parts_of(layer);
  if (n.number < 0) return n.of == "look" ? "Attention" : "Attention, " + n.of;
  std::string of = n.of;
  std::replace(of.begin(), of.end(), '.', ' ');
  if (!of.empty() && of[0] >= 'a' && of[0] <= 'z') of[0] = static_cast<char>(of[0] - 'a' + 'A');
  const std::string kind = n.kind == "self" || n.kind == "cross" ? n.kind + "-attention" : n.kind;
  return fmt::format("{} layer {}{}{}", of, n.number + 1, kind.empty() ? "" : ", ", kind);
}

std::vector<size_t> natural_order(const std::vector<LayerSeen>& layers) {
  const auto rank = [&](size_t i) {
    const LayerName n = parts_of(layers[i].name);
    const bool decoder = n.of.find("decoder") != n.of.npos;
    return std::tuple(n.number < 0, decoder, n.of, n.number, n.kind != "self");
  };
  std::vector<size_t> order(layers.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return rank(a) < rank(b); });
  return order;
}

LayerSeen layer_of_weights(const std::string& name, const Tensor& weights,
                           const std::vector<std::string>& rows,
                           const std::vector<std::string>& columns) {
  return {name, rows, columns, weights.size(0), [weights](const Select& asked) {
            const auto some = [](const Tensor& of, int dim, const std::vector<int64_t>& which) {
              if (which.empty()) return of;
              return index_select(of, dim,
                                  Tensor::from_ids(which, {static_cast<int64_t>(which.size())}));
            };
            return some(some(weights, 0, asked.heads), 1, asked.rows);
          }};
}

int64_t place_of(const Inside& in, int64_t output) { return in.side_by_side ? 0 : output; }
int64_t target_of(const Inside& in, int64_t output) {
  return in.side_by_side ? output : in.targets.at(static_cast<size_t>(output));
}

Tensor weights_in(const RunPass& pass, const std::string& layer, const Select& asked) {
  const NoGrad off;
  Tensor found;
  pass({.hook =
            [&](const nn::Heads& heads) {
              if (heads.name == layer) found = heads.attended.weights(asked).select(0, 0);
              return Tensor();
            },
        .block = [&](const nn::Block& block, const Tensor& x,
                     const nn::BlockPass& how) { return found ? x : block(x, how); }});
  if (!found) throw Error("explain", "no attention of the name '" + layer + "' passed");
  return found;
}

nn::HeadsHook HeadsSeen::hook() {
  return [this](const nn::Heads& heads) {
    const Tensor w = heads.attended.weights().detach();  // [1,H,Lq,Lk]
    seen_.emplace_back(heads.name, mean(w.select(0, 0), {0}, Keep::yes));
    return Tensor();
  };
}

Tensor HeadsSeen::named(const std::string& name) const {
  for (const auto& [of, weights] : seen_) {
    if (of == name) return weights;
  }
  throw Error("explain", "no attention of the name '" + name + "' passed");
}

nn::HeadsHook without(const std::vector<HeadOff>& off) {
  return [off](const nn::Heads& heads) {
    const NoGrad none;
    const int64_t H = heads.queries.size(1);
    Tensor w;  // [B,H,Lq,Lk]
    for (const HeadOff& one : off) {
      if (one.layer != heads.name) continue;
      if (one.head < 0 || one.head >= H) {
        throw Error("heads", one.layer + " has heads 1 … " + std::to_string(H) + ", found " +
                                 std::to_string(one.head + 1));
      }
      if (!w) w = heads.attended.weights();
      w.slice(1, one.head, one.head + 1).fill_(0.0f);
    }
    return w;
  };
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
