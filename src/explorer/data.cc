#include <algorithm>

#include "explorer/answers.h"
#include "explorer/asked.h"
#include "explorer/measurement_slot.h"
#include "fovea/error.h"
#include "fovea/text.h"
#include "io/json.h"
#include "tasks/one_by_one.h"

// Held-out inputs one by one: a table of what came of each, and one of them whole.
namespace fovea::explorer {
namespace {

constexpr size_t kMostRows = 10000, kShown = 300;  // of a text, characters

// The beginning of a text; what is cut is asked for when it is opened.
std::string begun(const std::string& text) {
  if (text.size() <= kShown) return text;
  std::vector<std::string> all = text::characters(text.substr(0, 4 * kShown));
  if (all.size() <= kShown && text.size() <= 4 * kShown) return text;
  all.resize(std::min(all.size(), kShown));
  std::string shown;
  for (const std::string& c : all) shown += c;
  return shown;
}

}  // namespace

Json held_out(Runs& runs, const std::string& name, const Json& asked,
              const tasks::ShareDone& done) {
  const MeasurementSlot slot;
  const auto most = asked.contains("most") ? whole_number(asked["most"]) : int64_t{kMostRows};
  if (most < 1 || most > static_cast<int64_t>(kMostRows)) {
    throw Error("data", "most must be in [1, 10000], found " + std::to_string(most));
  }
  const Runs::Opened opened = runs.open(name);
  const tasks::AnsweredInputs found = tasks::one_by_one(*opened.task, *opened.run, tasks::Set::test,
                                                        static_cast<size_t>(most), done);
  Json rows = Json::array();
  for (const tasks::AnsweredInput& o : found.all) {
    const std::string input = begun(o.input);
    rows.push_back({input, begun(o.output), begun(o.expected), number(o.error), number(o.score),
                    o.right, o.length, input.size() < o.input.size()});
  }
  return {{"columns", {"input", "output", "expected", "error", "score", "right", "length", "cut"}},
          {"rows", rows},
          {"measured", found.measured},
          {"about", name_of(found.rows)},
          {"of", tasks::described(opened.run->held_out_set())}};
}

Json held_out_input(Runs& runs, const std::string& name, const Json& asked) {
  const int64_t row = whole_number(asked.at("row"));
  if (row < 0 || row >= static_cast<int64_t>(kMostRows)) {
    throw Error("data", "there is no row " + std::to_string(row));
  }
  const Runs::Opened opened = runs.open(name);
  const auto all = opened.run->solved(tasks::Set::test, static_cast<size_t>(row) + 1);
  if (static_cast<int64_t>(all.size()) <= row) {
    throw Error("data", "there is no row " + std::to_string(row));
  }
  return {{"input", name_of(all.back().input)}};
}

}  // namespace fovea::explorer
