#include <fmt/format.h>

#include <array>
#include <chrono>
#include <limits>

#include "tasks/paper.h"
#include "tasks/rank.h"

// Dong, Cordonnier, Loukas 2021: pure attention loses rank doubly exponentially with depth; skips
// prevent it, MLPs slow it, layer norm makes no difference. A fresh BERT-base, nothing is trained.
namespace fovea::tasks {
namespace {

using explain::Parts;

constexpr std::array<size_t, 5> kLayers = {0, 1, 2, 6, 12};
constexpr const char *kResidual = "residual", *kLayer = "layer";

struct Published {
  Parts parts;
  std::array<const char*, kLayers.size()> residual;
};
constexpr std::array<Published, 4> kPublished = {{
    {{.skip = false, .mlp = false}, {"0.612", "0.018", "0.000", "0.000", "0.000"}},
    {{.skip = false, .mlp = true}, {"0.597", "0.017", "0.000", "0.000", "0.000"}},
    {{.skip = true, .mlp = false}, {"0.607", "0.565", "0.559", "0.529", "0.449"}},
    {{.skip = true, .mlp = true}, {"0.597", "0.563", "0.535", "0.493", "0.345"}},
}};

std::string row_of(const Parts& p) { return name_of(p) + (p.norm ? "" : ", no layer norm"); }

std::vector<Outcome> measure(uint64_t seed, const ShareDone& done) {
  const explain::FreshConfig config{.seed = seed};
  const auto start = std::chrono::steady_clock::now();
  const std::vector<explain::RankCurve> curves = rank_fresh(config, done);
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
  std::vector<Outcome> all;
  for (const explain::RankCurve& c : curves) {
    Evaluation e{.count = config.sequences, .unit = "sequences"};
    e.scores = {{kResidual, c.residual.back()}};
    Breakdown& by = e.breakdowns.emplace_back(Breakdown{kLayer, {}});
    for (size_t layer = 0; layer < c.residual.size(); ++layer) {
      by.parts.push_back(
          {std::to_string(layer), config.sequences, {{kResidual, c.residual[layer]}}});
    }
    all.push_back({.trial = {.name = row_of(c.parts)},
                   .seed = seed,
                   .test = e,
                   .seconds = taken.count() / static_cast<double>(curves.size())});
  }
  return all;
}

Interval at(const std::vector<Outcome>& all, const std::string& row, size_t layer) {
  return over_seeds(all, row, [&](const Evaluation& e) {
    const Breakdown* layers = find_breakdown(e, kLayer);
    if (layers == nullptr || layer >= layers->parts.size()) {
      return std::numeric_limits<double>::quiet_NaN();
    }
    return score_of(layers->parts[layer].scores, kResidual);
  });
}

report::Table table(const std::vector<Outcome>& all) {
  report::Table t{{"relative residual at layer"}, {}};
  for (const size_t layer : kLayers) t.header.push_back(std::to_string(layer));
  const auto add = [&](const std::string& name, const std::string& row) {
    std::vector<std::string>& cells = t.rows.emplace_back();
    cells.push_back(name);
    for (const size_t layer : kLayers) cells.push_back(shown(at(all, row, layer), 3));
  };
  for (const Published& p : kPublished) {
    Parts bare = p.parts;
    bare.norm = false;
    std::vector<std::string>& cells = t.rows.emplace_back();
    cells.push_back(name_of(p.parts) + ", the paper");
    cells.insert(cells.end(), p.residual.begin(), p.residual.end());
    add("  here", row_of(p.parts));
    add("  here, no layer norm", row_of(bare));
  }
  return t;
}

// The means over seeds.
std::vector<explain::RankCurve> curves_of(const std::vector<Outcome>& all) {
  std::vector<explain::RankCurve> curves;
  const size_t layers = find_breakdown(all.front().test, kLayer)->parts.size();
  for (const bool norm : {true, false}) {
    for (const Published& p : kPublished) {
      explain::RankCurve& c = curves.emplace_back(explain::RankCurve{p.parts, {}});
      c.parts.norm = norm;
      for (size_t layer = 0; layer < layers; ++layer) {
        c.residual.push_back(at(all, row_of(c.parts), layer).mean);
      }
    }
  }
  return curves;
}

report::Page page(const std::vector<Outcome>& all) {
  report::Page p;
  p.title = "Dong 2021: attention alone loses rank with depth";
  p.subtitle = "A fresh BERT-base, with and without skips, MLPs and layer norm";
  const auto first = [&](bool skip) {
    return fmt::format("{:.3f}", at(all, row_of({.skip = skip, .mlp = false}), 1).mean);
  };
  p.headline = {{"layer 1, attention alone", first(false)}, {"layer 1, with skips", first(true)}};
  report::Section section{
      "How much rows differ, layer by layer",
      {report::Text{"‖X − 1·mean‖ / ‖X‖ of a sequence's rows: means over sequences, and over seeds "
                    "with 95 % intervals."},
       table(all)}};
  for (report::Chart& chart : charts_of(curves_of(all))) section.blocks.push_back(std::move(chart));
  p.sections.push_back(std::move(section));
  return p;
}

}  // namespace

extern const Paper paper_dong2021 = {
    .name = "dong2021",
    .title = "Attention is not all you need: pure attention loses rank doubly exponentially",
    .about = "a fresh BERT-base: how alike rows become, by skips, MLPs and layer norm",
    .seeds = 5,
    .page = page,
    .measure = measure,
};

}  // namespace fovea::tasks
