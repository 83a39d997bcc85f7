#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "report/report.h"
#include "tasks/evaluation.h"
#include "tasks/fields.h"
#include "tasks/task.h"

// A paper's experiment at a laptop's size: the paper's figures beside ours. It is a file in the
// folder of the task that gives the most of its trials, or in src/tasks where it trains nothing,
// papers/NAME.cc, and defines `extern const Paper paper_NAME`; CMake makes the table
// (cmake/Tables.cmake).
namespace fovea::tasks {

// A row of the experiment, as one would type it: fovea train TASK --OPTION VALUE …
struct Trial {
  std::string name;  // of the row; its runs are called NAME-SEED
  std::string task;
  Given options;
};
// One model of the row, trained or measured with one seed.
struct Outcome {
  Trial trial;
  uint64_t seed = 1;
  Evaluation test;
  double seconds = 0;
};

struct Paper {
  std::string name, title, about;
  int64_t seeds = 1;  // for each row
  // The user's file; empty: built-in. Null where nothing is trained.
  std::vector<Trial> (*trials)(const std::string& data) = nullptr;
  report::Page (*page)(const std::vector<Outcome>&) = nullptr;
  // After the training of a row with one seed: looks inside the run and adds to the outcome.
  void (*look_inside)(const Run&, Outcome&, const ShareDone&) = nullptr;
  // In place of trials: all rows of one seed, of no task.
  std::vector<Outcome> (*measure)(uint64_t seed, const ShareDone&) = nullptr;
};
std::span<const Paper* const> paper_table();
const Paper& paper(const std::string& name);  // throws, with the nearest name there is

// A mean with the half-width of its 95 % interval over seeds (t distribution).
struct Interval {
  double mean = 0, half = 0;
  int64_t n = 0;
};
Interval interval_of(const std::vector<double>&);
// "61.20 ± 1.30"; nothing where there is no number.
std::string shown(const Interval&, int digits = 2);
// Over the seeds of a row; NaN is left out.
Interval over_seeds(const std::vector<Outcome>&, const std::string& row,
                    const std::function<double(const Evaluation&)>&);
Interval over_seeds(const std::vector<Outcome>&, const std::string& row, const std::string& score);

}  // namespace fovea::tasks
