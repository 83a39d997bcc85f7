#include "tasks/explain.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>
#include <span>

#include "core/nearest.h"
#include "fovea/error.h"
#include "fovea/ops.h"
#include "tasks/explain_blocks.h"

namespace fovea::tasks {
namespace {

using Json = nlohmann::ordered_json;
using report::Scale;

struct Way {
  By by;
  const char *name, *title, *about;
  const char* before = "";  // the name that it had, which is still taken
  Scale scale = Scale::from_zero;
  bool of_inputs = true;
};
constexpr Way kWays[] = {
    {By::attention, "attention", "Attention", "The model's own weights: of a layer, of a head."},
    {By::rollout, "rollout", "Attention rollout",
     "The weights of all layers, multiplied: what reached the last layer from which input."},
    {By::jacobian, "jacobian", "Jacobian",
     "‖∂y/∂x‖: how much each output changes when an input changes a little."},
    {By::jacobian_signed, "jacobian-signed", "Jacobian with its sign",
     "The sum of ∂y/∂x: whether a larger input makes the output likelier or less likely.", "",
     Scale::around_zero},
    {By::saliency, "saliency", "Saliency (gradient)", "‖∂y/∂x‖ of one output: the plain gradient."},
    {By::saliency_input, "gradient-x-input", "Gradient × Input",
     "x·∂y/∂x: the gradient times the input itself.", "saliency-input", Scale::around_zero},
    {By::saliency_smoothed, "smoothgrad", "SmoothGrad",
     "The mean of the gradient over 32 noisy copies of the input, and its norm.",
     "saliency-smoothed"},
    {By::saliency_integrated, "integrated-gradients", "Integrated Gradients",
     "The gradient summed up on the way from a blank input to this one.", "saliency-integrated",
     Scale::around_zero},
    {By::occlusion, "occlusion", "Occlusion",
     "How much less likely the output is when one input is blank.", "", Scale::around_zero},
    {By::gradcam, "gradcam", "Grad-CAM",
     "The maps of the last convolution, each weighed by its mean gradient."},
    {By::gradcam_places, "hirescam", "HiResCAM",
     "The maps of the last convolution, each place weighed by its own gradient.", "gradcam-places"},
    {By::lens, "lens", "Logit lens",
     "What each block would say already: the last norm and the output layer on its rows.", "",
     Scale::from_zero, false},
    {By::heads, "heads", "Heads left out",
     "How much less likely the output is without each head, and what the head does.", "",
     Scale::around_zero, false},
    {By::patching, "patching", "Patching",
     "How far the output follows when a row of a block is that of another text (--beside).", "",
     Scale::around_zero, false},
};

const Way& way_of(By by) { return kWays[static_cast<size_t>(by)]; }

[[noreturn]] void refuse(const std::string& why) { throw Error("explain", why); }

// Which outputs are explained.
std::vector<int64_t> outputs_of(const Inside& in, const Explaining& how) {
  std::vector<int64_t> all(in.outputs.size());
  std::iota(all.begin(), all.end(), int64_t{0});
  if (!how.only.empty()) return {how.only.begin(), how.only.end()};
  if (how.output.empty()) {
    if (in.side_by_side) return {static_cast<int64_t>(in.shown)};
    return all;
  }
  const auto found =
      std::find_if(in.outputs.begin(), in.outputs.end(),
                   [&](const std::string& label) { return is_named(label, how.output); });
  if (found != in.outputs.end() && !typed_number(how.output)) return {found - in.outputs.begin()};
  if (in.side_by_side && !typed_number(how.output)) {
    constexpr size_t kMost = 20;
    const size_t n = in.outputs.size();
    refuse(fmt::format("--output must be one of {}{}, or in 1 … {}, found {}",
                       fmt::join(std::span(in.outputs).first(std::min(n, kMost)), ", "),
                       n > kMost ? ", …" : "", n, how.output));
  }
  return {static_cast<int64_t>(typed_index("output", how.output, in.outputs.size()))};
}

struct Inquiry {
  const Inside& in;
  const Explaining& how;
  std::vector<int64_t> outputs;
  explain::Effort effort;
};

// A pass of R rows keeps what R sequences leave, and R rows of logits; long ones go in fewer rows.
int64_t rows_at_once(const Inside& in) {
  constexpr int64_t kInputs = 2048, kLogits = int64_t{1} << 22;
  const int64_t inputs = in.picture() ? in.x.size(1) * in.x.size(2) / 16 : in.x.size(0);
  return std::clamp<int64_t>(
      std::min(kInputs / std::max<int64_t>(1, inputs), kLogits / std::max<int64_t>(1, in.choices)),
      1, 64);
}

std::vector<std::string> labels(const Inquiry& a) {
  std::vector<std::string> some;
  for (const int64_t t : a.outputs) some.push_back(a.in.outputs[static_cast<size_t>(t)]);
  return some;
}

report::Heatmap map_of(const Inquiry& a, By by, const Tensor& values) {
  report::Heatmap map{.title = way_of(by).title,
                      .rows = labels(a),
                      .columns = a.in.inputs,
                      .weights = values.to_vector(),
                      .scale = way_of(by).scale,
                      .axes = {"output", "input"}};
  return map;
}

// Values of places [T,Y,X], or of more than the grid has: theirs is the sum.
Explanation of_places(const Inquiry& a, By by, const Tensor& values) {
  const explain::Grid& grid = a.in.grid;
  const bool own = values.size(1) == grid.rows && values.size(2) == grid.columns;
  const Tensor places = own ? values : explain::summed(values, grid);
  Explanation e{by, map_of(a, by, places.reshape({values.size(0), -1}))};
  if (!own) e.fine = values;
  return e;
}

Tensor chosen_rows(const Tensor& all, const std::vector<int64_t>& outputs) {
  if (all.size(0) == 1) return all;
  return index_select(all, 0, Tensor::from_ids(outputs, {static_cast<int64_t>(outputs.size())}));
}

// ---- Each way -----------------------------------------------------------------------------------

const LayerSeen& layer_of(const std::vector<LayerSeen>& layers, const std::string& typed) {
  if (typed.empty()) return layers.front();
  for (const LayerSeen& l : layers) {
    if (l.name == typed || title_of(l.name) == typed) return l;
  }
  if (typed_number(typed)) {
    return layers[natural_order(layers)[typed_index("layer", typed, layers.size())]];
  }
  std::vector<std::string> names;
  for (const LayerSeen& l : layers) names.push_back(l.name);
  refuse(fmt::format("there is no layer \"{}\"{}", typed, nearest_hint(typed, names)));
}

Tensor head_of(const LayerSeen& layer, const std::string& typed) {
  if (typed.empty()) return mean(layer.weights({}), {0});
  const size_t head = typed_index("head", typed, static_cast<size_t>(layer.heads));
  return layer.weights({.heads = {static_cast<int64_t>(head)}}).select(0, 0);
}

Explanation by_attention(const Inquiry& a) {
  if (!a.in.attention) refuse("this model has no attention to show; --by jacobian needs none");
  const std::vector<LayerSeen> layers = a.in.attention();
  const LayerSeen& layer = layer_of(layers, a.how.layer);
  const Tensor weights = head_of(layer, a.how.head);
  const bool own =
      layer.columns == a.in.inputs && (weights.size(0) == 1 || layer.rows == a.in.outputs);
  Explanation e{.by = By::attention, .map = {}, .of_outputs = own};
  if (own) {
    e.map = map_of(a, By::attention, chosen_rows(weights, a.outputs));
  } else {
    e.map = {.title = "",
             .rows = layer.rows,
             .columns = layer.columns,
             .weights = weights.to_vector(),
             .axes = {"query", "key"}};
  }
  const std::string which = !a.how.head.empty() ? ", head " + a.how.head
                            : layer.heads > 1   ? fmt::format(", mean of {} heads", layer.heads)
                                                : "";
  e.map.title = fmt::format("{}{}", title_of(layer.name), which);
  return e;
}

Explanation by_rollout(const Inquiry& a) {
  if (!a.in.rollout)
    refuse(
        "rollout goes through layers of self-attention one upon the other, and this model has "
        "none");
  return {By::rollout, map_of(a, By::rollout, chosen_rows(a.in.rollout(), a.outputs))};
}

Explanation by_jacobian(const Inquiry& a, By by) {
  const Inputs inputs = inputs_of(a.in);
  const auto j = explain::sequential_jacobian(inputs.each, inputs.x, a.outputs, a.effort);
  return {by, map_of(a, by, by == By::jacobian ? j.norm : j.sum)};
}

// Over each input's own numbers: the length of a vector, or the sum of what has a sign.
Tensor by_input(const Tensor& values, Scale scale, bool picture) {
  const std::vector<int> own = {picture ? 0 : -1};
  return scale == Scale::around_zero ? sum(values, own) : sqrt(sum(square(values), own));
}

explain::SaliencyConfig saliency_config(const Inside& in, By by) {
  explain::SaliencyConfig c;
  c.kind = by == By::saliency_input        ? explain::Saliency::times_input
           : by == By::saliency_smoothed   ? explain::Saliency::smoothed
           : by == By::saliency_integrated ? explain::Saliency::integrated
                                           : explain::Saliency::plain;
  c.baseline = in.blank.expand(in.x.shape()).contiguous();
  return c;
}

Explanation by_saliency(const Inquiry& a, By by) {
  const explain::SaliencyConfig c = saliency_config(a.in, by);
  const explain::OneEach each =
      a.in.log_odds_each ? a.in.log_odds_each : explain::one_each(a.in.log_odds);
  std::vector<Tensor> rows;
  double missing = 0;
  for (size_t i = 0; i < a.outputs.size(); ++i) {
    explain::Effort effort = a.effort;
    effort.progress = {};
    const explain::Attribution found = explain::saliency(each, a.in.x, a.outputs[i], c, effort);
    missing = std::max(missing, found.missing);
    rows.push_back(by_input(found.values, way_of(by).scale, a.in.picture()));
    if (a.effort.progress) {
      a.effort.progress(static_cast<double>(i + 1) / static_cast<double>(a.outputs.size()));
    }
  }
  const Tensor values = stack(rows, 0);
  Explanation e =
      a.in.picture() ? of_places(a, by, values) : Explanation{by, map_of(a, by, values)};
  if (missing > c.complete) {
    e.note = fmt::format("what it gives its inputs misses the output by {:.1f} %", 100 * missing);
  }
  return e;
}

Explanation by_occlusion(const Inquiry& a) {
  const Inside& in = a.in;
  if (!in.picture()) {
    const auto without = explain::blank_rows(in.x, in.blank);
    const Tensor all = explain::occlusion(in.log_odds, in.x, in.x.size(0), without, a.effort);
    return {By::occlusion, map_of(a, By::occlusion, chosen_rows(all, a.outputs))};
  }
  // Three places wide: of a single one, what lies beside it tells the rest.
  const explain::Patches patches{
      .grid = in.grid,
      .size = 3 * std::max(in.x.size(1) / in.grid.rows, in.x.size(2) / in.grid.columns),
      .value = in.blank.item()};
  const Tensor all = explain::occlusion(in.log_odds, in.x, in.grid.rows * in.grid.columns,
                                        explain::blank_patches(in.x, patches), a.effort);  // [T,S]
  return {By::occlusion, map_of(a, By::occlusion, chosen_rows(all, a.outputs))};
}

// Output by output in the rows of one pass.
Explanation by_gradcam(const Inquiry& a, By by) {
  if (!a.in.convolution) refuse("gradcam is of convolutions, and this model has none");
  const Tensor maps = [&] {
    const NoGrad off;
    return a.in.convolution->maps(a.in.x.unsqueeze(0)).detach();
  }();
  const auto T = static_cast<int64_t>(a.outputs.size());
  Tensor rows = maps.expand({T, maps.size(1), maps.size(2), maps.size(3)}).contiguous();
  rows.set_requires_grad();
  const Tensor y = gather(a.in.convolution->log_odds(rows), 1, Tensor::from_ids(a.outputs, {T, 1}));
  const auto cam = by == By::gradcam ? explain::Cam::mean : explain::Cam::own;
  return of_places(a, by, explain::grad_cam(rows, y.squeeze(1), cam));
}

Explanation one(const Inquiry& a, By by) {
  switch (by) {
    case By::attention:
      return by_attention(a);
    case By::rollout:
      return by_rollout(a);
    case By::jacobian:
    case By::jacobian_signed:
      return by_jacobian(a, by);
    case By::occlusion:
      return by_occlusion(a);
    case By::gradcam:
    case By::gradcam_places:
      return by_gradcam(a, by);
    default:
      return by_saliency(a, by);
  }
}

// Weights are what they are, whatever is asked of them.
void expect_contrast(By by) {
  if (by == By::attention || by == By::rollout) {
    refuse(
        fmt::format("{} is the same for every output, so it tells nothing of one against "
                    "another; --against is for the other ways",
                    way_of(by).name));
  }
}

}  // namespace

const char* name_of(By by) { return way_of(by).name; }
const char* title_of(By by) { return way_of(by).title; }
const char* about(By by) { return way_of(by).about; }

std::vector<By> ways() {
  std::vector<By> all;
  for (const Way& w : kWays) all.push_back(w.by);
  return all;
}

bool is_of_inputs(By by) { return way_of(by).of_inputs; }

std::vector<By> ways_for(const Inside& in) {
  std::vector<By> some;
  for (const Way& w : kWays) {
    const bool can = w.by == By::attention ? in.attention != nullptr
                     : w.by == By::rollout ? in.rollout != nullptr
                     : w.by == By::gradcam || w.by == By::gradcam_places
                         ? in.convolution.has_value()
                     : w.by == By::heads ? in.opens != Inside::Opens::outputs && in.attention
                     : w.of_inputs       ? true
                                         : in.opens == Inside::Opens::blocks;
    const bool says = in.log_odds || w.by == By::attention || w.by == By::rollout;
    if (can && says) some.push_back(w.by);
  }
  return some;
}

By way(const std::string& name) {
  std::vector<std::string> names;
  for (const Way& w : kWays) {
    if (name == w.name || (name == w.before && !name.empty())) return w.by;
    names.emplace_back(w.name);
  }
  refuse(fmt::format("--by takes no \"{}\"{}", name, nearest_hint(name, names)));
}

std::vector<Explanation> explain(const Inside& in, const Explaining& how) {
  for (const By by : how.by) {
    if (by != By::attention && by != By::rollout) expect_outputs(in, name_of(by));
  }
  std::optional<Contrast> contrast;
  if (!how.against.empty()) {
    for (const By by : how.by) expect_contrast(by);
    contrast = contrast_of(in, how.output, how.against);
  }
  const Inside of_two = contrast ? contrasted(in, *contrast) : Inside{};
  const std::vector<int64_t> outputs = contrast ? std::vector<int64_t>{0} : outputs_of(in, how);
  Inquiry asked{contrast ? of_two : in, how, outputs, {.rows = rows_at_once(in), .progress = {}}};
  std::vector<Explanation> all;
  const auto n = static_cast<double>(how.by.size());
  for (size_t i = 0; i < how.by.size(); ++i) {
    const By by = how.by[i];
    if (how.done) {
      const auto before = static_cast<double>(i);
      asked.effort.progress = [&how, before, n](double part) { how.done((before + part) / n); };
    }
    if (!is_of_inputs(by)) {
      const OfBlocks question{in, how, contrast, asked.outputs, asked.effort.progress};
      for (Explanation& e : explained_by_blocks(question, by)) all.push_back(std::move(e));
      continue;
    }
    all.push_back(one(asked, by));
    if (all.back().of_outputs) all.back().outputs = asked.outputs;
  }
  return all;
}

// ---- Agreement ----------------------------------------------------------------------------------
namespace {

std::vector<float> values_in(const report::Heatmap& map, size_t row, TauOf what) {
  const size_t n = map.columns.size();
  std::vector<float> values(map.weights.begin() + static_cast<ptrdiff_t>(row * n),
                            map.weights.begin() + static_cast<ptrdiff_t>((row + 1) * n));
  if (what == TauOf::sizes) {
    for (float& x : values) x = std::abs(x);
  }
  return values;
}

// The mean over the outputs that have an order.
double tau_of(const report::Heatmap& a, const report::Heatmap& b, TauOf what) {
  double total = 0, n = 0;
  for (size_t row = 0; row < a.rows.size(); ++row) {
    const double tau = explain::kendall_tau(values_in(a, row, what), values_in(b, row, what));
    if (!std::isnan(tau)) total += tau, n += 1;
  }
  return n == 0 ? std::nan("") : total / n;
}

// Those that can be compared with the first of them.
std::vector<const Explanation*> comparable(const std::vector<Explanation>& all, TauOf what) {
  std::vector<const Explanation*> some;
  for (const Explanation& e : all) {
    const bool alike = some.empty() || (e.map.rows.size() == some.front()->map.rows.size() &&
                                        e.map.columns.size() == some.front()->map.columns.size());
    const bool has_sign = what == TauOf::sizes || e.map.scale == Scale::around_zero;
    if (e.of_outputs && alike && has_sign) some.push_back(&e);
  }
  return some;
}

}  // namespace

report::Table agreement_of(const std::vector<Explanation>& all, TauOf what) {
  const std::vector<const Explanation*> some = comparable(all, what);
  report::Table table{{what == TauOf::sizes ? "Kendall τ of sizes" : "Kendall τ with signs"}, {}};
  if (some.size() < 2) return table;
  for (const Explanation* e : some) table.header.emplace_back(name_of(e->by));
  for (const Explanation* a : some) {
    std::vector<std::string>& row = table.rows.emplace_back();
    row.emplace_back(name_of(a->by));
    for (const Explanation* b : some) {
      const double tau = a == b ? 1.0 : tau_of(a->map, b->map, what);
      row.push_back(std::isnan(tau) ? "–" : fmt::format("{:.2f}", tau));
    }
  }
  return table;
}

Json to_json(const Inside& in, const std::vector<Explanation>& all) {
  Json list = Json::array();
  for (const Explanation& e : all) {
    const bool as_drawn = in.picture() || !e.words.empty();
    const report::Picture picture = as_drawn ? picture_of(in, e) : e.map;
    Json one = picture.kind().json(picture);
    one["by"] = name_of(e.by);
    if (!e.table.rows.empty()) one["table"] = {{"header", e.table.header}, {"rows", e.table.rows}};
    if (!e.note.empty()) one["note"] = e.note;
    list.push_back(std::move(one));
  }
  Json j = {{"title", in.title}, {"maps", list}};
  for (const TauOf what : {TauOf::sizes, TauOf::values}) {
    const char* key = what == TauOf::sizes ? "tau" : "tau_signed";
    const report::Table table = agreement_of(all, what);
    for (const std::vector<std::string>& row : table.rows) {
      for (size_t c = 1; c < row.size(); ++c) {
        j[key][row[0]][table.header[c]] = row[c] == "–" ? Json() : Json(std::stod(row[c]));
      }
    }
  }
  return j;
}

}  // namespace fovea::tasks
