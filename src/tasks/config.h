#pragma once

#include <memory>
#include <string>
#include <vector>

#include "fovea/train.h"
#include "tasks/evaluation.h"
#include "tasks/fields.h"

namespace fovea::tasks {

struct Task;

// The settings of a training, config.json: what all tasks share, and their own in what derives.
struct TaskConfig : Settings {
  train::TrainConfig train;
  std::string watch = "loss";  // the measure whose best weights are kept
  std::string fingerprint;     // of the data as read; a resumed run checks it
  std::string former_limits;   // "20 steps until step 20": those it had before it went on

  virtual void suit_data() {}                 // sets what suits the data that they name
  virtual std::string data_name() const = 0;  // "dates": names the run's folder
  virtual std::string model() const = 0;      // "gru 128, 1 layer"
  virtual std::string attention() const = 0;  // "global additive, softmax"

 protected:
  void visit_training(Fields&, const std::vector<Measure>& to_watch);
};

// Defaults, what suits the data that was typed, and on top of it what else was.
std::unique_ptr<TaskConfig> config_from(const Task&, const Given& typed);
// The same after config.json: what is no field has its default. A run begins with this, as it goes
// on with it, so that nothing decides a training which its folder does not say.
std::unique_ptr<TaskConfig> as_saved(const Task&, TaskConfig&);
// A limit that is typed takes the place of those that are not.
void replace_limits(TaskConfig&, const Given& typed);
// Of a run that goes on; all else but its limits stays as it was, or throws.
void change_limits(const Task&, TaskConfig&, const Given& typed);

}  // namespace fovea::tasks
