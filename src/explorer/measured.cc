#include "explorer/answers.h"
#include "explorer/asked.h"
#include "explorer/measurement_slot.h"
#include "fovea/error.h"
#include "tasks/faithful.h"
#include "tasks/rank.h"

// What takes long: measured by the code behind `fovea faithful` and `fovea rank`.
namespace fovea::explorer {
Json faithful(Runs& runs, const std::string& name, const Json& asked,
              const tasks::ShareDone& done) {
  const MeasurementSlot slot;
  tasks::FaithfulSettings settings;
  take_settings(asked, settings);
  const Runs::Opened opened = runs.open(name);
  const tasks::FaithfulFound found = tasks::measure_faithful(*opened.run, {}, {}, settings, done);
  Json each = Json::array();
  for (size_t i = 0; i < found.each.size(); ++i) {
    const explain::Faithful& f = found.each[i];
    each.push_back({{"input", found.of[i].input},
                    {"output", found.of[i].output},
                    {"row", found.of[i].row},
                    {"tau_gradient", number(f.tau_gradient)},
                    {"tau_left_out", number(f.tau_left_out)},
                    {"permuted", number(f.permuted)},
                    {"uniform", number(f.uniform)},
                    {"uniform_distance", number(f.uniform_distance)},
                    {"adversarial", number(f.adversarial)},
                    {"largest", number(f.largest)}});
  }
  return {{"verdict", tasks::verdict(found)},
          {"table", json_of(tasks::table_of(found))},
          {"inputs", found.inputs},
          {"allowed", settings.allowed},
          {"each", each}};
}

Json rank(Runs& runs, const std::string& name, const Json& asked, const tasks::ShareDone& done) {
  const MeasurementSlot slot;
  const auto sequences = asked.value("sequences", int64_t{8});
  if (sequences < 1 || sequences > 1000) {
    throw Error("rank", "sequences must be in [1, 1000], found " + std::to_string(sequences));
  }
  const Runs::Opened opened = runs.open(name);
  const auto curves = tasks::rank_run(*opened.run, sequences, done);
  return {{"title", opened.run->config().model()}, {"charts", json_of(tasks::charts_of(curves))}};
}

}  // namespace fovea::explorer
