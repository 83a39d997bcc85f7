#include "tasks/reproduce.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "fovea/error.h"
#include "tasks/config.h"
#include "tasks/papers/papers.h"
#include "tasks/translate/results.h"

namespace fovea::tasks {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

// Half-width of a 95 % interval in standard errors, by degrees of freedom.
double student95(int64_t freedom) {
  constexpr std::array<double, 10> kTable = {12.706, 4.303, 3.182, 2.776, 2.571,
                                             2.447,  2.365, 2.306, 2.262, 2.228};
  if (freedom < 1) return 0;
  return freedom <= 10 ? kTable[static_cast<size_t>(freedom - 1)] : 2.0;
}

Json settings_of(TranslateConfig c) {
  c.data.fingerprint.clear();
  return to_json([&](Fields& f) { visit(f, c); });
}

// What an earlier, finished run of the same settings found.
bool find_outcome(const fs::path& run, Outcome& outcome) {
  if (!fs::exists(run / "results.json")) return false;
  if (settings_of(read_config(run)) != settings_of(outcome.trial.config)) {
    fs::remove_all(run);
    return false;
  }
  const Json results = read_json(run / "results.json");
  outcome.test = evaluation_from_json(results.at("test"));
  outcome.seconds = results.at("seconds").get<double>();
  return true;
}

bool half_done(const fs::path& run, const Trial& trial) {
  if (!fs::exists(run / "config.json")) return false;
  if (settings_of(read_config(run)) == settings_of(trial.config)) return true;
  fs::remove_all(run);
  return false;
}

void save(const fs::path& out, const Paper& paper, const Reproduced& r) {
  Json trials = Json::array();
  for (const Outcome& o : r.outcomes) {
    trials.push_back({{"name", o.trial.name},
                      {"seed", o.trial.seed},
                      {"seconds", o.seconds},
                      {"test", to_json(o.test)}});
  }
  write_json(out / "results.json", {{"paper", paper.name}, {"trials", trials}});
  report::write_page(out / "report.html", r.page);
}

}  // namespace

double score_of(const train::Scores& scores, const std::string& name) {
  for (const auto& [n, value] : scores) {
    if (n == name) return value;
  }
  return std::numeric_limits<double>::quiet_NaN();
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

std::string shown(const Interval& i) {
  if (std::isnan(i.mean)) return "";
  return i.n > 1 ? fmt::format("{:.2f} ± {:.2f}", i.mean, i.half) : fmt::format("{:.2f}", i.mean);
}

std::span<const Paper> papers() {
  static const std::array<Paper, 2> all = {kBahdanau2015, kLuong2015};
  return all;
}

const Paper& paper(const std::string& name) {
  std::string known;
  for (const Paper& p : papers()) {
    if (p.name == name) return p;
    known += (known.empty() ? "" : ", ") + p.name;
  }
  throw Error("reproduce", fmt::format("no paper '{}'; there are {}", name, known));
}

Reproduced reproduce(const Paper& paper, const fs::path& out, const ReproduceOptions& options,
                     const Watching& watching) {
  const std::vector<Trial> trials = paper.trials(options);
  fs::create_directories(out);
  Reproduced r;
  for (const Trial& trial : trials) {
    Outcome outcome{.trial = trial};
    const fs::path run = out / trial.name;
    if (watching.say) {
      watching.say(fmt::format("{}: {} of {}", trial.name, r.outcomes.size() + 1, trials.size()));
    }
    if (!find_outcome(run, outcome)) {
      const TranslateConfig config = half_done(run, trial) ? read_config(run) : trial.config;
      const Trained trained = train_translate(run, config, watching);
      if (trained.finished.why == train::Ended::interrupted) {
        r.interrupted = true;
        return r;
      }
      outcome.test = trained.test;
      outcome.seconds = trained.finished.seconds;
    }
    r.outcomes.push_back(std::move(outcome));
  }
  r.page = paper.page(r.outcomes);
  save(out, paper, r);
  return r;
}

std::string tables_as_text(const report::Page& page) {
  std::string text;
  for (const report::Section& section : page.sections) {
    for (const auto& block : section.blocks) {
      const auto* table = std::get_if<report::Table>(&block);
      if (table == nullptr) continue;
      std::vector<size_t> widths;
      const auto measure = [&](const std::vector<std::string>& row) {
        widths.resize(std::max(widths.size(), row.size()));
        for (size_t i = 0; i < row.size(); ++i) {
          widths[i] = std::max(widths[i], static_cast<size_t>(text::columns(row[i])));
        }
      };
      measure(table->header);
      for (const auto& row : table->rows) measure(row);
      const auto put = [&](const std::vector<std::string>& row) {
        for (size_t i = 0; i < row.size(); ++i) {
          const std::string space(widths[i] - static_cast<size_t>(text::columns(row[i])), ' ');
          text += i == 0 ? row[i] + space : "  " + space + row[i];
        }
        text += '\n';
      };
      put(table->header);
      for (const auto& row : table->rows) put(row);
      text += '\n';
    }
  }
  return text;
}

}  // namespace fovea::tasks
