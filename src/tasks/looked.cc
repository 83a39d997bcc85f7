#include "tasks/looked.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "fovea/error.h"
#include "io/json.h"

namespace fovea::tasks {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kFile = "looks.json";
constexpr size_t kMostCells = size_t{1} << 14;  // of a look; larger ones are not kept

// Four places are more than a picture shows.
std::vector<double> rounded(const std::vector<float>& weights) {
  std::vector<double> some;
  for (const float w : weights) some.push_back(std::round(1e4 * static_cast<double>(w)) / 1e4);
  return some;
}

Json json_of(const LookedAt& at) {
  Json maps = Json::array(), texts = Json::array();
  for (const report::Heatmap& m : at.drawn.maps) {
    maps.push_back({{"title", m.title},
                    {"rows", m.rows},
                    {"columns", m.columns},
                    {"weights", rounded(m.weights)}});
  }
  for (const report::ShadedText& t : at.drawn.texts) {
    Json lines = Json::array();
    for (const report::ShadedText::Line& l : t.lines) {
      lines.push_back({{"weight", l.weight}, {"words", l.words}, {"weights", rounded(l.weights)}});
    }
    texts.push_back({{"title", t.title}, {"lines", lines}});
  }
  return {{"step", at.step}, {"output", at.output}, {"maps", maps}, {"texts", texts}};
}

LookedAt look_from(const Json& j) {
  LookedAt at{.step = j.at("step").get<int64_t>(), .output = j.at("output").get<std::string>()};
  for (const Json& m : j.at("maps")) {
    report::Heatmap map{.title = m.at("title").get<std::string>(),
                        .rows = m.at("rows").get<std::vector<std::string>>(),
                        .columns = m.at("columns").get<std::vector<std::string>>(),
                        .weights = m.at("weights").get<std::vector<float>>()};
    if (map.weights.size() != map.rows.size() * map.columns.size()) {
      throw Error("run", "a look's weights are not rows times columns");
    }
    at.drawn.maps.push_back(std::move(map));
  }
  for (const Json& t : j.at("texts")) {
    report::ShadedText text{.title = t.at("title").get<std::string>()};
    for (const Json& l : t.at("lines")) {
      text.lines.push_back({l.at("weight").get<float>(),
                            l.at("words").get<std::vector<std::string>>(),
                            l.at("weights").get<std::vector<float>>()});
    }
    report::check(text);
    at.drawn.texts.push_back(std::move(text));
  }
  return at;
}

size_t cells_of(const Drawn& d) {
  size_t n = 0;
  for (const report::Heatmap& m : d.maps) n += m.weights.size();
  for (const report::ShadedText& t : d.texts) {
    for (const report::ShadedText::Line& l : t.lines) n += l.weights.size();
  }
  return n;
}

}  // namespace

Looks looks_of(const RunFolder& folder) {
  if (!std::filesystem::exists(folder / kFile)) return {};
  const Json json = read_json(folder / kFile);
  try {
    Looks looks{.input = json.at("input").get<std::string>(), .each = {}};
    for (const Json& j : json.at("looks")) looks.each.push_back(look_from(j));
    return looks;
  } catch (const Json::exception& e) {
    throw Error("run", (folder / kFile).string() + " is not a run's: " + e.what());
  }
}

void thin(std::vector<LookedAt>& each, size_t most) {
  while (each.size() > std::max<size_t>(most, 2)) {
    size_t least = 1;  // the one whose neighbours are nearest to each other
    const auto gap = [&](size_t i) { return each[i + 1].step - each[i - 1].step; };
    for (size_t i = 2; i + 1 < each.size(); ++i) {
      if (gap(i) < gap(least)) least = i;
    }
    each.erase(each.begin() + static_cast<ptrdiff_t>(least));
  }
}

Looked::Looked(const Task& task, const RunFolder& folder, const Run& run, bool goes_on)
    : folder_(folder), run_(run) {
  if (task.takes != Takes::text) return;
  if (goes_on) looks_ = looks_of(folder);
  if (!looks_.input.empty()) return;
  const std::vector<Example> some = run.examples(1);
  if (!some.empty()) looks_.input = text_of(some.front().input);
}

void Looked::look() {
  latest_.reset();
  if (looks_.input.empty()) return;
  try {
    const std::optional<Inside> inside = run_.inside(Text{looks_.input});
    if (!inside || !inside->attention) return looks_.input.clear();
    LookedAt at{.output = inside->title,
                .drawn = drawn(*inside, explain(*inside, {.by = {By::attention}}))};
    if (cells_of(at.drawn) > kMostCells) return;
    latest_ = std::move(at);
  } catch (const Error&) {  // there is nothing to see of such a model
    looks_.input.clear();
  }
}

void Looked::keep(int64_t step) {
  if (!latest_) return;
  std::erase_if(looks_.each, [&](const LookedAt& at) { return at.step >= step; });
  latest_->step = step;
  looks_.each.push_back(std::move(*latest_));
  latest_.reset();
  thin(looks_.each, kMostLooks);
  Json list = Json::array();
  for (const LookedAt& at : looks_.each) list.push_back(json_of(at));
  write_json(folder_ / kFile, {{"input", looks_.input}, {"looks", list}});
}

}  // namespace fovea::tasks
