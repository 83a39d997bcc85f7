#include <algorithm>
#include <cstring>

#include "explorer/answers.h"
#include "fovea/error.h"
#include "io/base64.h"

// Pictures as the page gets them and gives them back.
namespace fovea::explorer {
namespace {

constexpr size_t kMostCells = size_t{1} << 24, kMostLabels = size_t{1} << 16;

}  // namespace

std::string packed(const std::vector<float>& cells) {
  return to_base64({reinterpret_cast<const char*>(cells.data()), cells.size() * sizeof(float)});
}

std::vector<float> unpacked(const std::string& text) {
  const std::string bytes = from_base64(text);
  if (bytes.size() % sizeof(float) != 0 || bytes.size() / sizeof(float) > kMostCells) {
    throw Error("draw", "the weights are no numbers of 32 bits, or too many");
  }
  std::vector<float> cells(bytes.size() / sizeof(float));
  std::memcpy(cells.data(), bytes.data(), bytes.size());
  return cells;
}

Json for_page(const report::Heatmap& m) {
  return {{"title", m.title},
          {"rows", m.rows},
          {"columns", m.columns},
          {"cells", packed(m.weights)},
          {"signed", m.scale == report::Scale::around_zero}};
}

Json for_page(const report::ShadedText& t) {
  Json lines = Json::array();
  for (const report::ShadedText::Line& l : t.lines) {
    lines.push_back({{"weight", l.weight}, {"words", l.words}, {"cells", packed(l.weights)}});
  }
  return {{"title", t.title}, {"lines", lines}};
}

report::Heatmap heatmap_from(const Json& j) {
  report::Heatmap m;
  m.title = j.value("title", "");
  if (j.value("signed", false)) m.scale = report::Scale::around_zero;
  m.rows = j.at("rows").get<std::vector<std::string>>();
  m.columns = j.at("columns").get<std::vector<std::string>>();
  m.weights = unpacked(j.at("cells").get<std::string>());
  if (std::max(m.rows.size(), m.columns.size()) > kMostLabels) {
    throw Error("draw", "a map has more than 65536 rows or columns");
  }
  if (m.weights.size() != m.rows.size() * m.columns.size()) {
    throw Error("draw", "a map's weights are not rows times columns");
  }
  return m;
}

report::ShadedText shaded_from(const Json& j) {
  report::ShadedText t{.title = j.value("title", "")};
  for (const Json& line : j.at("lines")) {
    report::ShadedText::Line& l = t.lines.emplace_back();
    l.weight = line.at("weight").get<float>();
    l.words = line.at("words").get<std::vector<std::string>>();
    l.weights = unpacked(line.at("cells").get<std::string>());
  }
  report::check(t);
  return t;
}

}  // namespace fovea::explorer
