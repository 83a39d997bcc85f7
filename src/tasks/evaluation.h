#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <variant>
#include <vector>

#include "fovea/train.h"
#include "report/report.h"

// What a model scored, for every task: shown as text, as JSON and on pages by the same code.
namespace fovea::tasks {

// A score that a task gives.
enum class Better : uint8_t { higher, lower };
struct Measure {
  std::string name;   // in files and options: "bleu"
  std::string title;  // for people: "BLEU"
  Better better = Better::higher;
  int digits = 2;
  bool leading = true;  // among the few of comparisons and headlines
};
const Measure* find_measure(const std::vector<Measure>&, const std::string& name);

// Scores of a part of what was judged: a class, or lengths from low to high.
struct Between {
  int64_t low = 0, high = 0;
};
struct ScoredPart {
  std::variant<std::string, Between> what;
  int64_t count = 0;
  train::Scores scores;
};
struct Breakdown {
  std::string by;  // "length"
  std::vector<ScoredPart> parts;
};

struct Evaluation {
  int64_t count = 0;
  std::string unit;  // of what: "sentences"
  std::string of;    // whose: "the test set"; not kept
  train::Scores scores;
  std::vector<Breakdown> breakdowns;
  std::vector<std::string> warnings;  // for whoever asked: what was left out; not kept
};

double mean_of(const std::vector<double>&);                      // NaN of none
double score_of(const train::Scores&, const std::string& name);  // NaN where absent
std::string label_of(const ScoredPart&);                         // "spam", "4–8"
const Breakdown* find_breakdown(const Evaluation&, const std::string& by);

//   {"sentences": 9, "scores": {"bleu": 31.2},
//    "by_length": [{"from": 4, "to": 8, "sentences": 3, "scores": {…}}]}
nlohmann::ordered_json to_json(const train::Scores&);
nlohmann::ordered_json to_json(const Evaluation&);
Evaluation evaluation_from_json(const nlohmann::ordered_json&);

std::string to_text(const Evaluation&);
report::Table table_of(const Evaluation&, const Breakdown&);

}  // namespace fovea::tasks
