#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "report/label.h"
#include "tasks/load.h"
#include "tasks/run_folder.h"
#include "tasks/task.h"

// What the runs of all tasks share, by the types of one: its settings, its model and its data. The
// only place where settings of any task become those of a certain one.
namespace fovea::tasks {

template <class Own, class Any>
const Own& settings_as(const Any& settings) {
  return dynamic_cast<const Own&>(settings);
}

// Of {train, valid, test}, where Set::test is what held_out_set() says.
template <class Three>
Set held_out_of(const Three& s) {
  return s.test.empty() ? Set::valid : Set::test;
}
template <class Three>
const auto& chosen_of(const Three& s, Set set) {
  if (set == Set::test) set = held_out_of(s);
  return set == Set::train ? s.train : set == Set::valid ? s.valid : s.test;
}

// Config … Predict are the task's own settings. Model: {config, …, model}, complete when it is
// given; Sets: {…, fingerprint}, read when they are first needed, by whoever comes first.
template <class Model, class Sets, class Evaluate, class Predict>
class RunOf : public Run {
 public:
  explicit RunOf(Model m, std::optional<Sets> sets = {})
      : model_(std::move(m)), sets_(std::move(sets)) {}

  const TaskConfig& config() const final { return model_.config; }
  std::unique_ptr<TaskConfig> copy_of_config() const final {
    return std::make_unique<decltype(Model::config)>(model_.config);
  }
  int64_t weights() const final { return weights_of(model_.model).count(); }
  Tensors tensors() const final { return weights_of(model_.model).all(); }
  std::string fingerprint() const final { return sets().fingerprint; }

  Evaluation final_scores(const ShareDone& done) const final {
    Evaluation e = score_held_out(done);
    e.of = described(held_out_set());
    return e;
  }
  Evaluation evaluate(const Judged& what, const Settings& how, const ShareDone& done) const final {
    Evaluation e = evaluate_as(what, settings_as<Evaluate>(how), done);
    const Set set = what.set == Set::test ? held_out_set() : what.set;
    e.of = what.file.empty() ? described(set) : report::visible(what.file);
    for (auto& score : more_scores()) e.scores.push_back(std::move(score));
    return e;
  }
  std::vector<Predictions> predict(std::span<const Input> inputs, const Settings& how,
                                   const Predicting& p) const final {
    return predict_as(inputs, settings_as<Predict>(how), p);
  }

 protected:
  virtual train::Scores more_scores() const { return {}; }  // of the model, whatever is judged
  virtual Sets read_sets() const = 0;
  virtual Evaluation score_held_out(const ShareDone&) const = 0;  // as final_scores()
  virtual Evaluation evaluate_as(const Judged&, const Evaluate&, const ShareDone&) const = 0;
  virtual std::vector<Predictions> predict_as(std::span<const Input>, const Predict&,
                                              const Predicting&) const = 0;

  const Model& model() const { return model_; }
  const Sets& sets() const {
    const std::lock_guard one_reads(reading_);
    if (!sets_) sets_ = read_sets();
    return *sets_;
  }

 private:
  const Model model_;
  mutable std::mutex reading_;
  mutable std::optional<Sets> sets_;
};

// For Task::begin and Task::open: begin(const Config&, former) → a run, load(folder) → its model.
template <class Config, auto begin>
std::unique_ptr<Run> begin_as(const TaskConfig& config, const RunFolder* former) {
  return begin(settings_as<Config>(config), former);
}
template <class RunOfTask, auto load>
std::unique_ptr<const Run> open_as(const RunFolder& folder) {
  return std::make_unique<const RunOfTask>(load(folder));
}
template <class Config>
Config config_as(const RunFolder& folder, const Task& task) {
  return settings_as<Config>(*folder.config_of(task));
}

}  // namespace fovea::tasks
