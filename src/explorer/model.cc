#include "explorer/answers.h"
#include "fovea/error.h"
#include "report/packed.h"
#include "tasks/model_graph.h"

// What a run's model is made of, and its weights as pictures.
namespace fovea::explorer {

Json model_of(Runs& runs, const std::string& name) {
  const Runs::Opened opened = runs.open(name);
  Json parts = Json::array();
  for (const tasks::ModelPart& p : tasks::parts_of(*opened.run)) {
    Json tensors = Json::array();
    for (const auto& [tensor, values] : p.tensors) {
      tensors.push_back({{"name", tensor}, {"shape", values.shape()}, {"numbers", values.numel()}});
    }
    parts.push_back({{"name", p.name},
                     {"title", p.title},
                     {"about", p.about},
                     {"reads", p.reads},
                     {"looks", p.looks},
                     {"numbers", p.numbers()},
                     {"tensors", tensors}});
  }
  return {{"model", opened.run->config().model()},
          {"numbers", opened.run->weights()},
          {"parts", parts}};
}

Json weights_in(Runs& runs, const std::string& name, const Json& asked) {
  constexpr int64_t kMost = 160;  // cells of a side
  const Runs::Opened opened = runs.open(name);
  const Tensors all = opened.run->tensors();
  const auto found = all.find(asked.at("name").get<std::string>());
  if (found == all.end()) throw Error("weights", "the model has no such tensor");
  const tasks::MatrixSeen seen = tasks::seen_of(found->second, kMost);
  return {{"picture", report::packed(tasks::picture_of(found->first, seen))},
          {"rows", seen.rows},
          {"columns", seen.columns},
          {"mean", number(seen.mean)},
          {"deviation", number(seen.deviation)},
          {"least", number(seen.least)},
          {"largest", number(seen.largest)},
          {"norm", number(seen.norm)}};
}

}  // namespace fovea::explorer
