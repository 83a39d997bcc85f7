#include "tasks/pointing.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

namespace fovea::tasks {
namespace {

std::vector<By> ways_of(const Inside& in) {
  std::vector<By> all = {By::occlusion};
  if (in.attention) all.push_back(By::attention);
  if (in.convolution) all.insert(all.end(), {By::gradcam, By::gradcam_places});
  for (const By by :
       {By::saliency, By::saliency_input, By::saliency_smoothed, By::saliency_integrated}) {
    all.push_back(by);
  }
  return all;
}

std::span<const float> row_of(const Explanation& e, size_t row) {
  const size_t n = e.map.columns.size();
  return std::span(e.map.weights).subspan(row * n, n);
}

std::vector<float> sizes(std::span<const float> values) {
  std::vector<float> all(values.begin(), values.end());
  for (float& x : all) x = std::abs(x);
  return all;
}

double percent(int64_t part, int64_t of) {
  return of == 0 ? std::nan("") : 100.0 * static_cast<double>(part) / static_cast<double>(of);
}

}  // namespace

bool peak_in(std::span<const float> values, const Inside& in, const report::SeenImage::Box& box) {
  const auto peak = std::max_element(values.begin(), values.end());
  if (peak == values.end() || !(*peak > 0)) return false;
  const auto place = static_cast<int64_t>(peak - values.begin());
  const auto middle = [](int64_t at, int64_t of, int64_t pixels) {
    return (static_cast<double>(at) + 0.5) * static_cast<double>(pixels) / static_cast<double>(of);
  };
  const double y = middle(place / in.grid.columns, in.grid.rows, in.image.height),
               x = middle(place % in.grid.columns, in.grid.columns, in.image.width);
  return x >= box.left && x < box.left + box.width && y >= box.top && y < box.top + box.height;
}

void add_pointing(const Inside& in, Pointing& to, const ShareDone& done) {
  if (in.boxed.empty()) return;
  Explaining how;
  how.by = ways_of(in);
  how.done = done;
  for (const Inside::Boxed& one : in.boxed) how.only.push_back(one.output);
  const std::vector<Explanation> all = explain(in, how);
  if (to.ways.empty()) {
    for (const By by : how.by) to.ways.push_back({.by = by, .tau = {}});
  }
  for (size_t row = 0; row < in.boxed.size(); ++row) {
    const report::SeenImage::Box& box = in.boxed[row].box;
    to.chance += box.width * box.height / static_cast<double>(in.image.width * in.image.height);
    const std::span<const float> occluded = row_of(all.front(), row);
    const bool there = peak_in(occluded, in, box);
    for (size_t i = 0; i < all.size(); ++i) {
      const std::span<const float> values = row_of(all[i], row);
      const bool hit = peak_in(values, in, box);
      Pointed& p = to.ways[i];
      ++p.words;
      p.hits += hit;
      p.with_occlusion += hit == there;
      if (i == 0) continue;
      const double tau = explain::kendall_tau(sizes(values), sizes(occluded));
      if (!std::isnan(tau)) p.tau.push_back(tau);
    }
  }
}

void add(const Pointing& some, Pointing& to) {
  if (to.ways.empty()) {
    to = some;
    return;
  }
  for (size_t i = 0; i < some.ways.size(); ++i) {
    Pointed& p = to.ways[i];
    p.words += some.ways[i].words;
    p.hits += some.ways[i].hits;
    p.with_occlusion += some.ways[i].with_occlusion;
    p.tau.insert(p.tau.end(), some.ways[i].tau.begin(), some.ways[i].tau.end());
  }
  to.chance += some.chance;
}

report::Table table_of(const Pointing& p) {
  report::Table table{{"way", "peak in the box, %", "as occlusion, %", "τ with occlusion", "words"},
                      {}};
  if (p.ways.empty()) return table;
  for (const Pointed& w : p.ways) {
    const bool itself = w.by == By::occlusion;
    table.rows.push_back({name_of(w.by), fmt::format("{:.1f}", percent(w.hits, w.words)),
                          itself ? "" : fmt::format("{:.1f}", percent(w.with_occlusion, w.words)),
                          itself || w.tau.empty() ? "" : fmt::format("{:.2f}", mean_of(w.tau)),
                          std::to_string(w.words)});
  }
  const auto words = static_cast<double>(p.ways.front().words);
  table.rows.push_back({"a place by chance", fmt::format("{:.1f}", 100 * p.chance / words), "", "",
                        std::to_string(p.ways.front().words)});
  return table;
}

nlohmann::ordered_json to_json(const Pointing& p) {
  nlohmann::ordered_json all = nlohmann::ordered_json::object();
  for (const Pointed& w : p.ways) {
    nlohmann::ordered_json& one =
        all[name_of(w.by)] = {{"words", w.words}, {"peak_in_box", percent(w.hits, w.words)}};
    if (w.by == By::occlusion) continue;
    one["as_occlusion"] = percent(w.with_occlusion, w.words);
    if (!w.tau.empty()) one["tau_with_occlusion"] = mean_of(w.tau);
  }
  return all;
}

}  // namespace fovea::tasks
