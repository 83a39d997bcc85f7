#include "tasks/paper.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <limits>

#include "core/nearest.h"
#include "fovea/error.h"

namespace fovea::tasks {
namespace {

// Half-width of a 95 % interval in standard errors, by degrees of freedom.
double student95(int64_t freedom) {
  constexpr std::array<double, 10> kTable = {12.706, 4.303, 3.182, 2.776, 2.571,
                                             2.447,  2.365, 2.306, 2.262, 2.228};
  if (freedom < 1) return 0;
  return freedom <= 10 ? kTable[static_cast<size_t>(freedom - 1)] : 2.0;
}

}  // namespace

const Paper& paper(const std::string& name) {
  std::vector<std::string> names;
  for (const Paper* p : paper_table()) {
    if (p->name == name) return *p;
    names.push_back(p->name);
  }
  throw Error("reproduce",
              fmt::format("there is no paper \"{}\"{}", name, nearest_hint(name, names)));
}

Interval interval_of(const std::vector<double>& values) {
  Interval i{.n = static_cast<int64_t>(values.size())};
  if (values.empty()) return {.mean = std::numeric_limits<double>::quiet_NaN()};
  const auto n = static_cast<double>(i.n);
  for (const double v : values) i.mean += v / n;
  double squares = 0;
  for (const double v : values) squares += (v - i.mean) * (v - i.mean);
  if (i.n > 1) i.half = student95(i.n - 1) * std::sqrt(squares / (n - 1) / n);
  return i;
}

std::string shown(const Interval& i, int digits) {
  if (std::isnan(i.mean)) return "";
  const std::string mean = fmt::format("{:.{}f}", i.mean, digits);
  return i.n > 1 ? fmt::format("{} ± {:.{}f}", mean, i.half, digits) : mean;
}

Interval over_seeds(const std::vector<Outcome>& all, const std::string& row,
                    const std::function<double(const Evaluation&)>& value_of) {
  std::vector<double> values;
  for (const Outcome& o : all) {
    if (o.trial.name != row) continue;
    const double value = value_of(o.test);
    if (!std::isnan(value)) values.push_back(value);
  }
  return interval_of(values);
}

Interval over_seeds(const std::vector<Outcome>& all, const std::string& row,
                    const std::string& score) {
  return over_seeds(all, row, [&](const Evaluation& e) { return score_of(e.scores, score); });
}

}  // namespace fovea::tasks
