#pragma once

#include <vector>

#include "report/report.h"
#include "tasks/run_folder.h"
#include "tasks/task.h"

// Pages of runs, whatever their task.
namespace fovea::tasks {

report::Page page_of(const RunFolder&, const Run&, const Trained&);
report::Page page_of(const RunFolder&, const Watching& = {});  // of what lies there
// Losses, scores, rates and speed by step, as its logs have them so far.
std::vector<report::Chart> training_charts(const RunFolder&);
// Finished runs in one table, of different tasks too.
report::Page compare_page(const std::vector<RunFolder>&);

// A score as a measure of the task's shows it.
std::string shown(const Measure&, double);

}  // namespace fovea::tasks
