#include "tasks/rank.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "fovea/error.h"
#include "tasks/room.h"

namespace fovea::tasks {
namespace {

using Json = nlohmann::ordered_json;
using explain::RankCurve;

constexpr double kAlike = 0.001;  // rows that differ less are taken for one

std::string residual_text(double residual) {
  if (std::isnan(residual)) return "NaN";
  if (residual == 0) return "0";
  return residual >= kAlike ? fmt::format("{:.3f}", residual) : fmt::format("{:.0e}", residual);
}

// The layer from which on rows are alike.
std::string alike_from(const RankCurve& curve) {
  size_t layer = curve.residual.size();
  while (layer > 0 && curve.residual[layer - 1] < kAlike) --layer;
  return layer == curve.residual.size() ? "–" : std::to_string(layer);
}

std::vector<const RankCurve*> with(const std::vector<RankCurve>& all, bool norm) {
  std::vector<const RankCurve*> curves;
  for (const RankCurve& c : all) {
    if (c.parts.norm == norm) curves.push_back(&c);
  }
  return curves;
}

report::Table table_of(const std::vector<const RankCurve*>& curves, bool norm) {
  report::Table t{{norm ? "with layer norm" : "without layer norm"}, {}};
  for (const RankCurve* c : curves) t.header.push_back(name_of(c->parts));
  for (size_t layer = 0; layer < curves.front()->residual.size(); ++layer) {
    std::vector<std::string>& row = t.rows.emplace_back();
    row.push_back(fmt::format("layer {}", layer));
    for (const RankCurve* c : curves) row.push_back(residual_text(c->residual[layer]));
  }
  std::vector<std::string>& row = t.rows.emplace_back();
  row.push_back(fmt::format("below {} from", kAlike));
  for (const RankCurve* c : curves) row.push_back(alike_from(*c));
  return t;
}

report::Chart chart_of(const std::vector<const RankCurve*>& curves, const std::string& title) {
  report::Chart chart{.x = "layer", .y = title};
  for (const RankCurve* c : curves) {
    report::Curve& line = chart.curves.emplace_back(report::Curve{name_of(c->parts), {}});
    for (size_t layer = 0; layer < c->residual.size(); ++layer) {
      line.points.emplace_back(static_cast<double>(layer), c->residual[layer]);
    }
  }
  return chart;
}

}  // namespace

void FreshSettings::visit(Fields& f) {
  auto seed = static_cast<int64_t>(config.seed);
  f.group("A fresh model");
  f.integer("blocks", config.blocks, "how many, one after the other", {1, 512});
  f.integer("query-depth", config.depth, "width of the queries, all heads together", {1, 65536});
  f.integer("heads", config.heads, "they divide the query depth", {1, 1024});
  f.integer("mlp-width", config.mlp_width, "inside of the MLP; 0: four times the query depth",
            {0, 1 << 20});
  f.integer("length", config.length, "rows of a sequence", {2, 1 << 20});
  f.integer("sequences", config.sequences, "sequences to average over", {1, 1 << 16});
  f.integer("seed", seed, "of weights and tokens", {0, 9e15});
  config.seed = static_cast<uint64_t>(seed);
}

std::vector<RankCurve> rank_fresh(const explain::FreshConfig& c, const ShareDone& done) {
  check_room("rank", "a model of this size, with its rows,", explain::memory_of(c),
             "--query-depth, --mlp-width, --length or --sequences");
  return explain::rank(c, done);
}

std::vector<RankCurve> rank_run(const Run& run, int64_t sequences, const ShareDone& done) {
  const std::optional<explain::BlocksAtWork> found = run.blocks(sequences);
  if (!found) {
    throw Error("rank", fmt::format("this run's model is {}, and rank needs a Transformer",
                                    run.config().model()));
  }
  const Tensor& rows = found->embedded;
  check_room("rank", "this many rows",
             explain::memory_of(found->config, rows.size(0) * rows.size(1)), "--sequences");
  return explain::rank(*found, done);
}

std::vector<report::Table> tables_of(const std::vector<RankCurve>& all) {
  return {table_of(with(all, true), true), table_of(with(all, false), false)};
}

std::vector<report::Chart> charts_of(const std::vector<RankCurve>& all) {
  std::vector<report::Chart> charts = {
      chart_of(with(all, true), "relative residual, with layer norm"),
      chart_of(with(all, false), "relative residual, without layer norm"),
      chart_of(with(all, true), "with layer norm, log scale (below 10⁻⁷: rounding error)")};
  charts.back().log_y = true;
  return charts;
}

Json to_json(const std::vector<RankCurve>& all) {
  Json list = Json::array();
  for (const RankCurve& c : all) {
    list.push_back({{"skip", c.parts.skip},
                    {"mlp", c.parts.mlp},
                    {"norm", c.parts.norm},
                    {"residual", c.residual}});
  }
  return list;
}

}  // namespace fovea::tasks
