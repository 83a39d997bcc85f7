#include "tasks/paper.h"

// An experiment whose trials are of two tasks: this one, and one of the library's own.
namespace fovea::tasks {
namespace {

std::vector<Trial> trials(const std::string& data) {
  std::vector<Trial> all;
  for (const char* width : {"1", "8"}) {
    Given options = {{"width", width}, {"examples", "200"}, {"epochs", "2"}};
    if (!data.empty()) options["file"] = data;
    all.push_back({std::string("width ") + width, "largest", options});
  }
  all.push_back({"dates",
                 "translate",
                 {{"examples", "120"},
                  {"hidden", "8"},
                  {"embedding", "4"},
                  {"steps", "2"},
                  {"valid-sentences", "2"}}});
  return all;
}

report::Page page(const std::vector<Outcome>& all) {
  report::Page p{.title = "Width 2000"};
  report::Table table{{"row", "right"}, {}};
  for (const char* row : {"width 1", "width 8", "dates"}) {
    table.rows.push_back({row, shown(over_seeds(all, row, "exact"))});
  }
  p.sections.push_back({"Right, in percent", {table}});
  return p;
}

}  // namespace

extern const Paper paper_width2000 = {
    .name = "width2000",
    .title = "How wide must a judge of numbers be?",
    .about = "widths 1 and 8, and dates beside them",
    .trials = trials,
    .page = page,
};

}  // namespace fovea::tasks
