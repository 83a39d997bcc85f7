#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "report/report.h"
#include "tasks/translate.h"

// A paper's experiment at a laptop's size: the paper's figures beside ours.
namespace fovea::tasks {

struct ReproduceOptions {
  std::string data;     // the user's pairs; empty: built-in
  int64_t seeds = 0;    // 0: as many as the experiment needs
  double effort = 1.0;  // multiplies the training of every row
};

// One model of the experiment, trained in its own run folder.
struct Trial {
  std::string name;  // of the row, and of the folder
  uint64_t seed = 1;
  TranslateConfig config;
};
struct Outcome {
  Trial trial;
  Evaluation test;
  double seconds = 0;
};

struct Paper {
  std::string name, title, about;
  std::vector<Trial> (*trials)(const ReproduceOptions&);
  report::Page (*page)(const std::vector<Outcome>&);
};
std::span<const Paper> papers();
const Paper& paper(const std::string& name);  // throws, with the names there are

// Trains what is not trained yet under `out`, a folder for each trial, so that a stopped
// reproduction goes on where it was; writes out/report.html and out/results.json.
// Interrupted: the outcomes are fewer than the trials.
struct Reproduced {
  std::vector<Outcome> outcomes;
  report::Page page;
  bool interrupted = false;
};
Reproduced reproduce(const Paper&, const std::filesystem::path& out, const ReproduceOptions&,
                     const Watching&);

// A page's tables as plain text, for a terminal.
std::string tables_as_text(const report::Page&);

}  // namespace fovea::tasks
