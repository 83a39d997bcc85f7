#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "explorer/answers.h"
#include "explorer/asked.h"
#include "fovea/error.h"
#include "fovea/look.h"
#include "io/json.h"
#include "tasks/explain.h"

// Where a model looks by other ways of asking, and what it says when its weights are taken in hand.
namespace fovea::explorer {
namespace {

// The weights to use: "uniform", "permuted", or a row of the held ones.
models::Intervention intervention_of(const Json& asked, const Tensor& own) {
  const std::string how = asked.at("weights").get<std::string>();
  if (how == "uniform") return models::interventions::uniform();
  if (how == "permuted") return models::interventions::permuted(asked.value("seed", uint64_t{1}));
  if (how != "given") throw Error("hold", fmt::format("no weights '{}'", how));
  const auto row = whole_number(asked.at("row")), column = whole_number(asked.at("column"));
  if (row < 0 || row >= own.size(0) || column < 0 || column >= own.size(1)) {
    throw Error("hold", fmt::format("no cell {}, {} in {}", row, column, to_string(own.shape())));
  }
  // All of the row's weight in one place, the other rows as they were.
  std::vector<float> weights = own.to_vector();
  const int64_t n = own.size(1);
  for (int64_t j = 0; j < n; ++j)
    weights[static_cast<size_t>(row * n + j)] = j == column ? 1.0f : 0.0f;
  return models::interventions::given(Tensor::from(weights, {1, own.size(0), n}));
}

// Outputs "from" … "from" + "count" − 1, from 0: where a text is long, not all at once.
std::vector<size_t> chosen_in(const Json& asked, const tasks::Inside& inside) {
  if (!asked.contains("from") || inside.side_by_side) return {};
  const auto n = static_cast<int64_t>(inside.outputs.size());
  const int64_t from = std::clamp<int64_t>(whole_number(asked.at("from")), 0, n - 1),
                count = std::clamp<int64_t>(whole_number(asked.at("count")), 1, n - from);
  std::vector<size_t> some;
  for (int64_t t = from; t < from + count; ++t) some.push_back(static_cast<size_t>(t));
  return some;
}

}  // namespace

tasks::Inside inside_of(const Runs::Opened& opened, const tasks::Input& input) {
  std::optional<tasks::Inside> inside = opened.run->inside(input);
  if (!inside) throw Error("explain", "of such a run there is nothing to see inside");
  return std::move(*inside);
}

Json ways_of_looking() {
  Json list = Json::array();
  for (const tasks::By by : tasks::ways()) {
    list.push_back({{"name", name_of(by)},
                    {"title", tasks::title_of(by)},
                    {"about", tasks::about(by)},
                    {"inputs", tasks::is_of_inputs(by)}});
  }
  return list;
}

Json explain(Runs& runs, const std::string& name, const Json& asked, const tasks::ShareDone& done) {
  const Runs::Opened opened = runs.open(name);
  const tasks::Inside inside = inside_of(opened, asked_about(*opened.task, asked));
  tasks::Explaining how;
  for (const Json& by : asked.at("by")) how.by.push_back(tasks::way(by.get<std::string>()));
  how.layer = asked.value("layer", "");
  how.head = asked.value("head", "");
  how.output = asked.value("output", "");
  how.against = asked.value("against", "");
  how.top = std::clamp<int64_t>(asked.value("top", how.top), 1, 100);
  how.only = chosen_in(asked, inside);
  std::optional<tasks::Inside> beside;
  if (asked.contains("beside")) {
    beside = inside_of(opened, asked_about(*opened.task, {{"input", asked.at("beside")}}));
    how.beside = &*beside;
  }
  how.done = done;
  const std::vector<tasks::Explanation> all = tasks::explain(inside, how);
  Json notes = Json::array(), tables = Json::array();
  for (const tasks::Explanation& e : all) {
    if (!e.table.rows.empty()) tables.push_back(json_of(e.table));
  }
  for (const tasks::Explanation& e : all) {
    if (!e.note.empty()) notes.push_back(fmt::format("{}: {}", title_of(e.by), e.note));
  }
  Json layers = Json::array();
  if (inside.attention) {
    const std::vector<tasks::LayerSeen> all_layers = inside.attention();
    for (const size_t i : tasks::natural_order(all_layers)) {
      const tasks::LayerSeen& l = all_layers[i];
      layers.push_back({{"name", l.name}, {"title", tasks::title_of(l.name)}, {"heads", l.heads}});
    }
  }
  return {{"title", inside.title},
          {"pictures", packed(tasks::pictures_of(inside, all))},
          {"notes", notes},
          {"tables", tables},
          {"outputs", inside.side_by_side ? 1 : inside.outputs.size()},
          {"layers", layers},
          {"agreement", json_of(tasks::agreement_of(all))},
          {"agreement_signed", json_of(tasks::agreement_of(all, tasks::TauOf::values))}};
}

// By output: how likely what it said is with its own weights and with those that were given.
Json hold(Runs& runs, const std::string& name, const Json& asked) {
  const Runs::Opened opened = runs.open(name);
  const tasks::Inside inside = inside_of(opened, asked_about(*opened.task, asked));
  if (!inside.look) throw Error("hold", "this model has no look that can be taken in hand");
  const NoGrad off;
  const explain::Seen own = inside.look({});
  const explain::Seen held = inside.look(intervention_of(asked, own.weights));
  const int64_t T = own.log_p.size(0), V = own.log_p.size(1);
  const std::vector<float> before = own.log_p.to_vector(), after = held.log_p.to_vector();
  Json rows = Json::array();
  for (int64_t t = 0; t < T; ++t) {
    const auto best = [&](const std::vector<float>& p) {
      return std::max_element(p.begin() + t * V, p.begin() + (t + 1) * V) - p.begin() - t * V;
    };
    const auto at = static_cast<size_t>(t * V + best(before));
    const bool labelled = static_cast<size_t>(t) < inside.outputs.size() && !inside.side_by_side;
    rows.push_back({{"output", labelled ? inside.outputs[static_cast<size_t>(t)] : inside.title},
                    {"before", std::exp(before[at])},
                    {"after", std::exp(after[at])},
                    {"same", best(before) == best(after)}});
  }
  return {{"rows", rows}};
}

}  // namespace fovea::explorer
