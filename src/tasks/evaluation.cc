#include "tasks/evaluation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "fovea/error.h"
#include "io/json.h"
#include "report/table_text.h"

namespace fovea::tasks {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kBy = "by_";

train::Scores scores_from(const Json& j) {
  train::Scores scores;
  for (const auto& [name, value] : j.items()) {
    // JSON has no word for what is not finite.
    scores.emplace_back(
        name, value.is_null() ? std::numeric_limits<double>::quiet_NaN() : value.get<double>());
  }
  return scores;
}

Json json_of(const ScoredPart& part, const std::string& unit) {
  Json j = Json::object();
  if (const auto* range = std::get_if<Between>(&part.what)) {
    j["from"] = range->low;
    j["to"] = range->high;
  } else {
    j["what"] = std::get<std::string>(part.what);
  }
  j[unit] = part.count;
  j["scores"] = tasks::to_json(part.scores);
  return j;
}

ScoredPart part_from(const Json& j, const std::string& unit) {
  ScoredPart part{.count = whole_number(j.at(unit)), .scores = scores_from(j.at("scores"))};
  if (j.contains("what")) {
    part.what = j["what"].get<std::string>();
  } else {
    part.what = Between{whole_number(j.at("from")), whole_number(j.at("to"))};
  }
  return part;
}

}  // namespace

const Measure* find_measure(const std::vector<Measure>& all, const std::string& name) {
  for (const Measure& m : all) {
    if (m.name == name) return &m;
  }
  return nullptr;
}

double mean_of(const std::vector<double>& values) {
  double total = 0;
  for (const double v : values) total += v;
  return values.empty() ? std::nan("") : total / static_cast<double>(values.size());
}

double score_of(const train::Scores& scores, const std::string& name) {
  for (const auto& [n, value] : scores) {
    if (n == name) return value;
  }
  return std::numeric_limits<double>::quiet_NaN();
}

std::string label_of(const ScoredPart& part) {
  if (const auto* name = std::get_if<std::string>(&part.what)) return *name;
  const Between& range = std::get<Between>(part.what);
  return fmt::format("{}–{}", range.low, range.high);
}

const Breakdown* find_breakdown(const Evaluation& e, const std::string& by) {
  for (const Breakdown& b : e.breakdowns) {
    if (b.by == by) return &b;
  }
  return nullptr;
}

Json to_json(const train::Scores& scores) {
  Json j = Json::object();
  for (const auto& [name, value] : scores) j[name] = value;
  return j;
}

Json to_json(const Evaluation& e) {
  Json j = {{e.unit, e.count}, {"scores", to_json(e.scores)}};
  for (const Breakdown& b : e.breakdowns) {
    Json parts = Json::array();
    for (const ScoredPart& part : b.parts) parts.push_back(json_of(part, e.unit));
    j[kBy + b.by] = parts;
  }
  return j;
}

Evaluation evaluation_from_json(const Json& j) {
  Evaluation e{.scores = scores_from(j.at("scores"))};
  for (const auto& [name, value] : j.items()) {
    if (name == "scores" || value.is_array()) continue;
    e.unit = name;
    e.count = whole_number(value);
  }
  if (e.unit.empty()) throw Error("evaluation", "says not how many were judged");
  for (const auto& [name, value] : j.items()) {
    if (!name.starts_with(kBy)) continue;
    Breakdown& b = e.breakdowns.emplace_back(Breakdown{.by = name.substr(std::string(kBy).size())});
    for (const Json& part : value) b.parts.push_back(part_from(part, e.unit));
  }
  return e;
}

report::Table table_of(const Evaluation& e, const Breakdown& b) {
  report::Table t{{b.by, e.unit}, {}};
  if (b.parts.empty()) return t;
  for (const auto& [name, value] : b.parts.front().scores) t.header.push_back(name);
  std::vector<std::string> whole;
  for (size_t i = 2; i < t.header.size(); ++i) {
    const bool is_whole = std::all_of(b.parts.begin(), b.parts.end(), [&](const ScoredPart& part) {
      const double x = score_of(part.scores, t.header[i]);
      return x == std::floor(x);
    });
    if (is_whole) whole.push_back(t.header[i]);
  }
  for (const ScoredPart& part : b.parts) {
    std::vector<std::string>& row = t.rows.emplace_back();
    row = {label_of(part), std::to_string(part.count)};
    for (const auto& [name, value] : part.scores) {
      // Counts have no decimals.
      row.push_back(std::find(whole.begin(), whole.end(), name) != whole.end()
                        ? fmt::format("{:.0f}", value)
                        : fmt::format("{:.2f}", value));
    }
  }
  return t;
}

std::string to_text(const Evaluation& e) {
  std::string text = fmt::format("{} {}{}\n", e.count, e.unit, e.of.empty() ? "" : " of " + e.of);
  for (const auto& [name, value] : e.scores) text += fmt::format("  {:<12} {:8.3f}\n", name, value);
  for (const Breakdown& b : e.breakdowns) {
    if (b.parts.size() > 1) text += '\n' + report::to_text(table_of(e, b), "  ");
  }
  return text;
}

}  // namespace fovea::tasks
