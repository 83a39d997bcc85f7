#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "report/report.h"
#include "tasks/config.h"
#include "tasks/translate.h"
#include "tasks/translate/results.h"
#include "tasks/translate/score.h"

namespace fovea::tasks {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr size_t kExamples = 12;

struct Log {
  report::Curve train{"training", {}}, valid{"validation", {}}, rate{"rate", {}};
  report::Curve bleu{"BLEU", {}}, exact{"exact match", {}};
};

Log read_log(const fs::path& file) {
  Log log;
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    const Json j = Json::parse(line, nullptr, false);
    if (!j.is_object() || !j.contains("step")) continue;
    const auto step = j["step"].get<double>();
    if (j.contains("loss")) log.train.points.emplace_back(step, j["loss"].get<double>());
    if (j.contains("rate")) log.rate.points.emplace_back(step, j["rate"].get<double>());
    if (!j.contains("valid")) continue;
    const Json& v = j["valid"];
    log.valid.points.emplace_back(step, v.value("loss", 0.0));
    if (v.contains("bleu")) log.bleu.points.emplace_back(step, v["bleu"].get<double>());
    if (v.contains("exact")) log.exact.points.emplace_back(step, v["exact"].get<double>());
  }
  return log;
}

std::string shown(const std::string& name, double value) {
  return name == "loss" || name == "perplexity" ? fmt::format("{:.3f}", value)
                                                : fmt::format("{:.2f}", value);
}

report::Section curves_of(const Log& log) {
  report::Section s{"Training", {}};
  s.blocks.push_back(
      report::Chart{.x = "step", .y = "loss a token", .curves = {log.train, log.valid}});
  if (!log.bleu.points.empty()) {
    s.blocks.push_back(
        report::Chart{.x = "step", .y = "validation score", .curves = {log.bleu, log.exact}});
  }
  s.blocks.push_back(report::Chart{.x = "step", .y = "learning rate", .curves = {log.rate}});
  return s;
}

report::Section scores_of(const Evaluation& e) {
  report::Section s{"Scores on held-out sentences", {}};
  report::Table table{{"measure", "value"}, {}};
  for (const auto& [name, value] : e.scores) table.rows.push_back({name, shown(name, value)});
  s.blocks.push_back(report::Text{fmt::format(
      "{} unique sources, none of them seen in training; every known translation of a source is a "
      "reference.",
      e.sentences)});
  s.blocks.push_back(table);
  return s;
}

report::Section lengths_of(const Evaluation& e) {
  report::Bars bars{.x = "source tokens", .y = "score", .series = {"BLEU", "exact match"}};
  bars.values.resize(2);
  for (const Bucket& b : e.by_length) {
    bars.groups.push_back(fmt::format("{}–{}", b.low, b.high));
    for (const auto& [name, value] : b.scores) {
      if (name == "bleu") bars.values[0].push_back(value);
      if (name == "exact") bars.values[1].push_back(value);
    }
  }
  return {"Score by source length", {bars}};
}

// Spread over the held-out sources, short to long.
report::Section examples_of(const Translator& t, const std::vector<text::Pair>& pairs) {
  References r = group_by_source(pairs);
  std::vector<size_t> order(r.sources.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return r.sources[a].size() < r.sources[b].size(); });
  const size_t n = std::min(kExamples, order.size());
  std::vector<std::string> lines;
  std::vector<size_t> which;
  for (size_t i = 0; i < n; ++i) {
    which.push_back(order[(2 * i + 1) * order.size() / (2 * n)]);
    lines.push_back(r.sources[which.back()]);
  }
  const auto translations = translate(t, lines, {.weights = true});
  report::Gallery gallery;
  report::Table table{{"source", "translation", "reference"}, {}};
  for (size_t i = 0; i < n; ++i) {
    const Translation& best = translations[i].front();
    table.rows.push_back({lines[i], best.text, r.targets[which[i]].front()});
    if (!best.map.weights.empty())
      gallery.items.push_back({lines[i] + " → " + best.text, best.map});
  }
  report::Section s{"Examples", {table}};
  if (!gallery.items.empty()) {
    s.blocks.push_back(report::Text{
        "Where the model looked while it wrote: a row for each token written, dark where its "
        "attention was."});
    s.blocks.push_back(std::move(gallery));
  }
  return s;
}

std::string model_line(const models::Seq2SeqConfig& m) {
  const std::string cell = fmt::format("{} {}, {} layer{}", name_of(m.cell), m.hidden, m.layers,
                                       m.layers == 1 ? "" : "s");
  if (m.context == models::Context::fixed) return cell + ", one fixed context";
  return fmt::format("{}, {} order{}, {} score, {}, {}", cell, name_of(m.order),
                     m.input_feeding ? " with input feeding" : "", m.score, name_of(m.locality),
                     m.weighting);
}

report::Section settings_of(TranslateConfig c) {
  report::Table table{{"setting", "value"}, {}};
  const Json settings = to_json([&](Fields& f) { visit(f, c); });
  for (const auto& [name, value] : settings.items()) {
    const std::string text = value.is_string() ? value.get<std::string>() : value.dump();
    if (!text.empty()) table.rows.push_back({name, text});
  }
  return {"Settings", {table}};
}

}  // namespace

report::Page translate_page(const fs::path& run) try {
  const Translator t = load_translator(run);
  const Json results = read_json(run / "results.json");
  const Evaluation test = evaluation_from_json(results.at("test"));
  const TranslateSets sets = load_data(t.config.data, t.config.train.seed);
  const auto& held_out = sets.pairs.test.empty() ? sets.pairs.valid : sets.pairs.test;

  report::Page page;
  page.title = "Translation: " + run.filename().string();
  page.subtitle = model_line(t.config.model);
  for (const auto& [name, value] : test.scores) {
    if (name == "bleu" || name == "exact" || name == "perplexity") {
      page.headline.emplace_back(name, shown(name, value));
    }
  }
  page.headline.emplace_back("training", fmt::format("{:.0f} s", results.value("seconds", 0.0)));
  page.headline.emplace_back(
      "weights", fmt::format("{:.2f} M", static_cast<double>(t.model.weights.count()) / 1e6));
  page.sections = {scores_of(test), lengths_of(test), examples_of(t, held_out),
                   curves_of(read_log(run / "log.jsonl")), settings_of(t.config)};
  return page;
} catch (const Json::exception& e) {
  throw Error("report", fmt::format("{}: results.json or log.jsonl is not a run's: {}",
                                    run.string(), e.what()));
}

}  // namespace fovea::tasks
