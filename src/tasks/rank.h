#pragma once

#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "fovea/rank.h"
#include "report/report.h"
#include "tasks/fields.h"
#include "tasks/task.h"

// How alike rows become with depth, of a fresh model or of a run's: measured and shown.
namespace fovea::tasks {

// The model of explain::FreshConfig as settings.
struct FreshSettings final : Settings {
  explain::FreshConfig config;
  void visit(Fields&) override;
};

// Refused where there is no memory for it.
std::vector<explain::RankCurve> rank_fresh(const explain::FreshConfig&, const ShareDone& = {});
// Over sequences that the run held out; refused where it has no Transformer.
std::vector<explain::RankCurve> rank_run(const Run&, int64_t sequences, const ShareDone& = {});

// With norms and without: a row for each layer.
std::vector<report::Table> tables_of(const std::vector<explain::RankCurve>&);
// The same drawn, and the first once more on a logarithmic axis.
std::vector<report::Chart> charts_of(const std::vector<explain::RankCurve>&);
// [{"skip", "mlp", "norm", "residual": […]}]
nlohmann::ordered_json to_json(const std::vector<explain::RankCurve>&);

}  // namespace fovea::tasks
