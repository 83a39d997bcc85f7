#include "tasks/translate/results.h"

#include <nlohmann/json.hpp>

#include "tasks/config.h"

namespace fovea::tasks {
namespace {

using Json = nlohmann::ordered_json;

train::Scores scores_from(const Json& j) {
  train::Scores scores;
  for (const auto& [name, value] : j.items()) scores.emplace_back(name, value.get<double>());
  return scores;
}

}  // namespace

Json to_json(const train::Scores& scores) {
  Json j = Json::object();
  for (const auto& [name, value] : scores) j[name] = value;
  return j;
}

Json to_json(const Evaluation& e) {
  Json buckets = Json::array();
  for (const Bucket& b : e.by_length) {
    buckets.push_back({{"from", b.low},
                       {"to", b.high},
                       {"sentences", b.sentences},
                       {"scores", to_json(b.scores)}});
  }
  return {{"sentences", e.sentences}, {"scores", to_json(e.scores)}, {"by_length", buckets}};
}

Evaluation evaluation_from_json(const Json& j) {
  Evaluation e{.sentences = j.at("sentences").get<int64_t>(),
               .scores = scores_from(j.at("scores"))};
  for (const Json& b : j.at("by_length")) {
    e.by_length.push_back({b.at("from").get<int64_t>(), b.at("to").get<int64_t>(),
                           b.at("sentences").get<int64_t>(), scores_from(b.at("scores"))});
  }
  return e;
}

void save_results(const std::filesystem::path& run, const Trained& trained) {
  const train::Finished& f = trained.finished;
  write_json(run / "results.json",
             {{"steps", f.steps},
              {"epochs", f.epochs},
              {"seconds", f.seconds},
              {"ended", f.why == train::Ended::stopped_early ? "early" : "limit"},
              {"best_step", f.best_step},
              {"valid", to_json(f.best)},
              {"test", to_json(trained.test)}});
}

}  // namespace fovea::tasks
