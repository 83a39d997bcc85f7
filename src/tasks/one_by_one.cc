#include "tasks/one_by_one.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>

#include "fovea/error.h"
#include "fovea/text.h"

namespace fovea::tasks {
namespace {

constexpr size_t kAtOnce = 64;  // inputs of a batch

int64_t words_in(const Input& input) {
  const auto* text = std::get_if<Text>(&input);
  if (text == nullptr) return 0;
  int64_t words = 0;
  bool inside = false;
  for (const char c : text->text) {
    const bool space = std::isspace(static_cast<unsigned char>(c)) != 0;
    words += !space && !inside ? 1 : 0;
    inside = !space;
  }
  return words;
}

// Every class, where the task has such a setting.
std::unique_ptr<Settings> with_all_classes(const Task& task) {
  std::unique_ptr<Settings> settings = task.predict_settings();
  if (task.scored && to_json(*settings).contains("n-best")) {
    from_options({{"n-best", "1000000"}}, *settings);
  }
  return settings;
}

double probability_of(const Predictions& all, const std::string& label) {
  const auto found = std::ranges::find(all, label, &Prediction::text);
  return found == all.end() ? 0.0 : std::clamp(found->score, 0.0, 1.0);
}

AnsweredInput answered(const Task& task, const Solved& known, const Predictions& said) {
  AnsweredInput o{.input = name_of(known.input),
                  .expected = known.expected.empty() ? "" : known.expected.front(),
                  .length = words_in(known.input)};
  if (!said.empty()) {
    o.output = said.front().text;
    o.score = said.front().score;
  }
  o.right = std::ranges::find(known.expected, o.output) != known.expected.end();
  if (task.scored) {
    o.error = 1 - probability_of(said, o.expected);
  } else if (!o.right && !known.expected.empty()) {
    const std::string output = o.output;
    o.error = 1 - text::chrf({&output, 1}, {known.expected}) / 100;
  }
  return o;
}

AnsweredInputs foreseen_in(const Run& run, const std::vector<Solved>& known,
                           const ShareDone& done) {
  AnsweredInputs outcomes{.measured = "the loss: mean −log p of a token, in nats",
                          .rows = RowKind::texts};
  std::vector<Input> inputs;
  for (const Solved& one : known) inputs.push_back(one.input);
  const std::vector<Foreseen> all = run.foreseen(inputs, done);
  for (size_t i = 0; i < all.size(); ++i) {
    outcomes.all.push_back({.input = name_of(inputs[i]),
                            .output = all[i].instead,
                            .expected = all[i].hardest,
                            .score = all[i].accuracy,
                            .error = all[i].loss,
                            .right = all[i].accuracy == 1,
                            .length = all[i].tokens});
  }
  return outcomes;
}

}  // namespace

const char* name_of(RowKind rows) {
  return rows == RowKind::classes ? "classes" : rows == RowKind::answers ? "answers" : "texts";
}

AnsweredInputs one_by_one(const Task& task, const Run& run, Set set, size_t most,
                          const ShareDone& done) {
  const std::vector<Solved> known = run.solved(set, most);
  if (known.empty()) {
    throw Error("data", fmt::format("of {} there is no table: its data are not there", task.title));
  }
  if (known.front().expected.empty()) return foreseen_in(run, known, done);
  const std::unique_ptr<Settings> settings = with_all_classes(task);
  AnsweredInputs outcomes{.measured = task.scored
                                          ? "1 − the probability of the expected class"
                                          : "1 − chrF of the output against what was expected",
                          .rows = task.scored ? RowKind::classes : RowKind::answers};
  for (size_t at = 0; at < known.size(); at += kAtOnce) {
    const size_t end = std::min(at + kAtOnce, known.size());
    std::vector<Input> inputs;
    for (size_t i = at; i < end; ++i) inputs.push_back(known[i].input);
    const double before = static_cast<double>(at) / static_cast<double>(known.size());
    if (done) done(before);
    const std::vector<Predictions> said = run.predict(inputs, *settings, {.done = [&](double) {
                                                        if (done) done(before);
                                                      }});
    for (size_t i = at; i < end; ++i) {
      outcomes.all.push_back(answered(task, known[i], said[i - at]));
    }
  }
  return outcomes;
}

}  // namespace fovea::tasks
