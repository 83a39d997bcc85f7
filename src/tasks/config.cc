#include "tasks/config.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "fovea/error.h"
#include "tasks/task.h"

namespace fovea::tasks {

void TaskConfig::visit_training(Fields& f, const std::vector<Measure>& to_watch) {
  using train::Decay;
  using train::Method;
  std::vector<std::string> measures;
  for (const Measure& m : to_watch) measures.push_back(m.name);
  train::TrainConfig& t = train;
  f.group("Training");
  f.integer("steps", t.steps, "the run ends after so many; 0: no limit", {0, 1e12});
  f.integer("epochs", t.epochs, "the run ends after so many passes over the data; 0: no limit",
            {0, 1e9});
  f.real("minutes", t.minutes, "the run ends after so many; 0: no limit", {0, 1e7});
  f.integer("batches", t.batches,
            "batches of a step, whose gradients add up; several processes share them", {1, 1e6});
  f.named("optimizer", t.optimizer.method, "how a gradient becomes a step",
          std::vector<Method>{Method::adam, Method::adamw, Method::sgd});
  f.real("rate", t.schedule.rate, "learning rate", {0, 100});
  f.named("decay", t.schedule.decay, "how the learning rate falls during the run",
          std::vector<Decay>{Decay::constant, Decay::cosine, Decay::inverse_root, Decay::plateau});
  f.integer("warmup", t.schedule.warmup, "steps in which the learning rate grows from 0", {0, 1e9});
  f.real("rate-floor", t.schedule.floor,
         "the learning rate falls to this share of itself, no further", {0, 1});
  f.real("plateau-factor", t.schedule.factor, "plateau: multiplies the learning rate", {0.001, 1});
  f.integer("plateau-patience", t.schedule.patience,
            "plateau: validations without a better score before that", {1, 1e6});
  f.real("beta1", t.optimizer.beta1, "adam: decay of the mean gradient", {0, 0.99999});
  f.real("beta2", t.optimizer.beta2, "adam: decay of the mean squared gradient", {0, 0.99999999});
  f.real("epsilon", t.optimizer.epsilon, "adam: added to the divisor", {0, 1});
  f.real("momentum", t.optimizer.momentum, "sgd: share of the last step that is added",
         {0, 0.99999});
  f.real("weight-decay", t.optimizer.weight_decay, "pulls weights towards 0; 0: none", {0, 10});
  f.real("clip", t.clip, "largest gradient norm; 0: no limit", {0, 1e9});
  f.real("average", t.average, "keep a moving average of the weights, with this decay; 0: none",
         {0, 0.999999});
  f.integer("validate-every", t.validate_every, "steps between validations; 0: after each epoch",
            {0, 1e9});
  f.named("keep", t.keep, "the weights of the best validation, or the last",
          std::vector<train::Kept>{train::Kept::best, train::Kept::last});
  f.choice("watch", watch, "the validation score by which the best weights are chosen", measures);
  f.integer("stop-after", t.stop_after,
            "end after so many validations without a better score; 0: never", {0, 1e6});
  f.integer("save-every", t.save_every, "steps between checkpoints; 0: at validations", {0, 1e9});
  auto seed = static_cast<int64_t>(t.seed);
  f.integer("seed", seed, "of weights, shuffles, dropout, splits and draws", {0, 9e15});
  t.seed = static_cast<uint64_t>(seed);
  f.record("fingerprint", fingerprint);
  f.record("former-limits", former_limits);
}

std::unique_ptr<TaskConfig> config_from(const Task& task, const Given& typed) {
  std::unique_ptr<TaskConfig> c = task.config();
  from_options(typed, *c);
  c->suit_data();
  from_options(typed, *c);
  replace_limits(*c, typed);
  return c;
}

std::unique_ptr<TaskConfig> as_saved(const Task& task, TaskConfig& config) {
  std::unique_ptr<TaskConfig> c = task.config();
  from_json(to_json(config), *c, task.name);
  return c;
}

namespace {

bool is_limit(const std::string& name) {
  return name == "steps" || name == "epochs" || name == "minutes";
}

// Typed again as it was.
bool changes_nothing(const Task& task, TaskConfig& config, const std::string& name,
                     const std::string& value) {
  const std::unique_ptr<TaskConfig> trial = as_saved(task, config);
  from_options({{name, value}}, *trial);
  make_paths_absolute(*trial);
  return to_json(*trial) == to_json(config);
}

}  // namespace

void replace_limits(TaskConfig& c, const Given& typed) {
  if (std::none_of(typed.begin(), typed.end(), [](const auto& t) { return is_limit(t.first); })) {
    return;
  }
  if (!typed.contains("steps")) c.train.steps = 0;
  if (!typed.contains("epochs")) c.train.epochs = 0;
  if (!typed.contains("minutes")) c.train.minutes = 0;
}

void change_limits(const Task& task, TaskConfig& config, const Given& typed) {
  Given limits;
  for (const auto& [name, value] : typed) {
    if (is_limit(name)) {
      limits[name] = value;
    } else if (!changes_nothing(task, config, name, value)) {
      throw Error("train",
                  fmt::format("{} cannot change in a resumed run; only --steps, --epochs and "
                              "--minutes can",
                              name == task.data_field ? "DATA (--" + name + ")" : "--" + name));
    }
  }
  from_options(limits, config);
  replace_limits(config, limits);
}

}  // namespace fovea::tasks
