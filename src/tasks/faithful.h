#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "fovea/faithful.h"
#include "report/report.h"
#include "tasks/paper.h"
#include "tasks/pointing.h"
#include "tasks/task.h"

// Whether a run's attention explains what it does: over many inputs, beside other seeds' runs.
namespace fovea::tasks {

struct FaithfulSettings final : Settings {
  int64_t inputs = 50;  // at most, spread over what there is
  int64_t permutations = 10;
  int64_t steps = 150;    // of the adversary
  double allowed = 0.01;  // change of an output that counts as none, in total variation
  int64_t seed = 1;
  void visit(Fields&) override;
};

struct FaithfulFound {
  std::vector<explain::Faithful> each;  // an output of an input
  struct Of {
    std::string input, output;
    int64_t row = 0;  // of the look's weights
  };
  std::vector<Of> of;         // by each
  std::vector<double> seeds;  // Jensen–Shannon distances to other seeds' weights
  // Of each run beside it that has no attention: Kendall τ of the weights here and the Jacobian
  // there, where both wrote the same. A mean over outputs, and of what inputs come to in all.
  struct Implicit {
    std::vector<double> by_output, in_all;
  };
  std::vector<Implicit> implicit;
  Pointing pointing;  // where things that outputs name have a known place
  int64_t inputs = 0;
};
// `beside`: runs of the same data, with other seeds or without attention. Refused where the run has
// no look that can be changed, or where there are no inputs.
FaithfulFound measure_faithful(const Run&, const Judged&, std::span<const Run* const> beside,
                               const FaithfulSettings&, const ShareDone& = {});

// Means over what has a value, by name; what papers and tables show.
train::Scores scores_of(const FaithfulFound&);
std::string verdict(const FaithfulFound&);
report::Table table_of(const FaithfulFound&);
report::Table implicit_of(const FaithfulFound&);  // no rows where no such run stood beside it
report::Page page_of(const std::string& name, const FaithfulFound&);
nlohmann::ordered_json to_json(const FaithfulFound&);

}  // namespace fovea::tasks
