#include "report/lines.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "fovea/error.h"
#include "report/drawing.h"
#include "report/files.h"
#include "report/label.h"
#include "report/packed.h"
#include "report/page.h"
#include "report/written.h"

namespace fovea::report {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kLineStep = 20, kLineGap = 420, kLineEdge = 16, kLineLetter = 8.6;
constexpr double kFaintest = 1.0 / 255;  // of the full weight: what is below cannot be seen
constexpr int kLongestToken = 24;
constexpr size_t kMostTokens = 4096, kMostHeads = 4096;

void check(const Picture& picture) {
  const auto& l = picture.get<Lines>();
  const size_t expected = l.heads.size() * l.rows.size() * l.columns.size();
  if (std::ranges::any_of(l.heads, [](int64_t head) { return head < 1; })) {
    throw Error("lines", "heads are numbered from 1");
  }
  if (l.weights.size() == expected) return;
  throw Error("lines", fmt::format("{} weights for {} heads, {} rows and {} columns, expected {}",
                                   l.weights.size(), l.heads.size(), l.rows.size(),
                                   l.columns.size(), expected));
}

// One head by itself.
Heatmap map_of(const Lines& l, size_t head) {
  const size_t size = l.rows.size() * l.columns.size();
  const auto first = l.weights.begin() + static_cast<ptrdiff_t>(head * size);
  return {.title = fmt::format("head {}", l.heads[head]),
          .rows = l.rows,
          .columns = l.columns,
          .weights = {first, first + static_cast<ptrdiff_t>(size)},
          .axes = {"query", "key"}};
}

// What an opaque line weighs: 1, or the largest, where that is small or above. Most lines are weak,
// and where they all were opaque nobody could tell them apart.
double full_of(const Lines& l) {
  float largest = 0;
  for (const float weight : l.weights) {
    if (std::isfinite(weight)) largest = std::max(largest, weight);
  }
  return largest > 0 && (largest < 0.05f || largest > 1.0f) ? largest : 1.0;
}

// A terminal has no lines: head by head, as maps.
std::string text(const Picture& picture, Ink ink, int width) {
  const auto& l = picture.get<Lines>();
  std::string all = visible(l.title) + "\n";
  for (size_t h = 0; h < l.heads.size(); ++h) all += text_of(map_of(l, h), ink, width);
  return all;
}

// ---- As a drawing -------------------------------------------------------------------------------

// Hues as far apart as the golden ratio puts them, from blue on, dark enough for white paper: as in
// the page. Of hue, saturation and lightness its red, green and blue.
Colour colour_of_head(int64_t number) {
  constexpr double kFirst = 0.58, kTurn = 0.382, kSaturation = 0.75, kLight = 0.38;
  const double hue = 6 * std::fmod(kFirst + static_cast<double>(number - 1) * kTurn, 1.0);
  const double chroma = kSaturation * std::min(kLight, 1 - kLight);
  const auto channel = [&](double shift) {
    const double k = std::fmod(shift + 2 * hue, 12);
    const double value = kLight - chroma * std::max(-1.0, std::min({k - 3, 9 - k, 1.0}));
    return static_cast<uint8_t>(std::lround(255 * value));
  };
  return {channel(0), channel(8), channel(4)};
}

struct LinesLayout {
  double left = 0, right = 0, top = 0;  // where lines begin and end, and the first token's place
  double width = 0, height = 0;
};

double widest_of(const std::vector<std::string>& labels) {
  double columns = 5;  // the axis is named there
  for (const std::string& label : labels) {
    columns = std::max(columns, drawn_columns_of(cut(visible(label), kLongestToken)));
  }
  return std::ceil(kLineLetter * columns);
}

LinesLayout laid_out(const Lines& l) {
  LinesLayout at;
  at.left = widest_of(l.rows) + kLineEdge / 2;
  at.right = at.left + kLineGap;
  at.top = kLineStep;
  at.width = at.right + kLineEdge / 2 + widest_of(l.columns);
  at.height =
      at.top + kLineStep * (static_cast<double>(std::max(l.rows.size(), l.columns.size())) + 2);
  return at;
}

double middle_of_line(const LinesLayout& at, size_t i) {
  return at.top + kLineStep * (static_cast<double>(i) + 0.5);
}

void put_tokens(Markup& svg, const Lines& l, const LinesLayout& at) {
  const auto put = [&](const std::vector<std::string>& labels, double x, const char* side) {
    for (size_t i = 0; i < labels.size(); ++i) {
      svg.put(R"(<text class="{}" x="{:.1f}" y="{:.1f}">{}</text>)", side, x,
              middle_of_line(at, i) + 5, escape(cut(visible(labels[i]), kLongestToken)));
    }
  };
  svg.put(R"(<text class="muted end" x="{:.1f}" y="14">query</text>)", at.left - kLineEdge / 2);
  svg.put(R"(<text class="muted" x="{:.1f}" y="14">key</text>)", at.right + kLineEdge / 2);
  put(l.rows, at.left - kLineEdge / 2, "end");
  put(l.columns, at.right + kLineEdge / 2, "start");
}

void put_head(Markup& svg, const Lines& l, const LinesLayout& at, size_t head) {
  const size_t n = l.rows.size(), m = l.columns.size();
  const double full = full_of(l);
  svg.put(R"(<g class="head" stroke="{}" stroke-width="2" fill="none">)",
          hex(colour_of_head(l.heads[head])));
  for (size_t i = 0; i < n; ++i) {
    for (size_t j = 0; j < m; ++j) {
      const double share = l.weights[(head * n + i) * m + j] / full;
      if (!(share >= kFaintest)) continue;
      svg.put(R"(<path d="M{:g} {:g}L{:g} {:g}" stroke-opacity="{:.3f}"/>)", at.left,
              middle_of_line(at, i), at.right, middle_of_line(at, j), std::min(share, 1.0));
    }
  }
  svg.put("</g>");
}

// A swatch for each head, and what an opaque line weighs.
void put_key(Markup& svg, const Lines& l, const LinesLayout& at) {
  const double y = at.height - kLineStep / 2;
  double x = 0;
  for (const int64_t head : l.heads) {
    const std::string name = std::to_string(head);
    svg.put(R"(<rect x="{:.1f}" y="{:.1f}" width="12" height="12" fill="{}"/>)", x, y - 11,
            hex(colour_of_head(head)));
    svg.put(R"(<text class="muted" x="{:.1f}" y="{:.1f}">{}</text>)", x + 16, y, name);
    x += 24 + kLineLetter * static_cast<double>(name.size());
  }
  svg.put(R"(<text class="muted" x="{:.1f}" y="{:.1f}">heads · opaque: {}</text>)", x + 4, y,
          number(full_of(l)));
}

double width_of_key(const Lines& l) {
  double width = kLineLetter * 24;
  for (const int64_t head : l.heads) {
    width += 24 + kLineLetter * static_cast<double>(std::to_string(head).size());
  }
  return width;
}

void put_lines(Markup& svg, const Lines& l, const LinesLayout& at) {
  for (size_t h = 0; h < l.heads.size(); ++h) put_head(svg, l, at, h);
  put_tokens(svg, l, at);
  put_key(svg, l, at);
}

Drawing drawing(std::span<const Picture> all, Target target) {
  Markup svg;
  double y = kLineEdge, width = 0;
  for (const Picture& picture : all) {
    Lines l = picture.get<Lines>();
    if (target == Target::png) {
      l.title = without_pictures(l.title);
      for (std::string& label : l.rows) label = without_pictures(label);
      for (std::string& label : l.columns) label = without_pictures(label);
    }
    const LinesLayout at = laid_out(l);
    const std::string title = cut(visible(l.title), 120);
    svg.put(R"x(<g transform="translate({:g} {:g})"><text class="title" x="0" y="14">{}</text>)x",
            kLineEdge, y, escape(title));
    svg.put(R"x(<g transform="translate(0 {:g})">)x", 1.5 * kLineStep);
    put_lines(svg, l, at);
    svg.put("</g></g>\n");
    y += at.height + 1.5 * kLineStep + kLineEdge;
    width = std::max({width, at.width, width_of_key(l), kLineLetter * drawn_columns_of(title)});
  }
  return svg_file(width + 2 * kLineEdge, y, files::picture_css, svg.text());
}

void page(Html& html, std::span<const Picture> all) {
  for (const Picture& picture : all) {
    const auto& l = picture.get<Lines>();
    const LinesLayout at = laid_out(l);
    html.put(R"(<figure class="drawn-lines"><figcaption dir="auto">{}</figcaption>)",
             escape(l.title));
    html.put(R"(<div class="scroll"><svg viewBox="0 0 {0:.0f} {1:.0f}" style="width:{0:.0f}px" )"
             R"(role="img" aria-label="Lines from {2} queries to {3} keys">)",
             std::max(at.width, width_of_key(l)), at.height, l.rows.size(), l.columns.size());
    put_lines(html, l, at);
    html.put("</svg></div></figure>");
  }
}

// ---- As data ------------------------------------------------------------------------------------

Json json(const Picture& picture) {
  const auto& l = picture.get<Lines>();
  Json heads = Json::array();
  for (size_t h = 0; h < l.heads.size(); ++h) {
    Json one = Json::parse(to_json(map_of(l, h)));
    heads.push_back({{"head", l.heads[h]}, {"weights", one.at("weights")}});
  }
  return {{"title", l.title}, {"rows", l.rows}, {"columns", l.columns}, {"heads", heads}};
}

std::string csv(std::span<const Picture> all) {
  std::string lines = "picture,head,row,column,weight,row_number,column_number\r\n";
  for (const Picture& picture : all) {
    const auto& l = picture.get<Lines>();
    const size_t n = l.rows.size(), m = l.columns.size();
    for (size_t at = 0; at < l.weights.size(); ++at) {
      const size_t i = at / m % n, j = at % m;
      lines += fmt::format("{},{},{},{},{},{},{}\r\n", quoted(l.title), l.heads[at / m / n],
                           quoted(l.rows[i]), quoted(l.columns[j]), l.weights[at], i + 1, j + 1);
    }
  }
  return lines;
}

Json pack(const Picture& picture, Numbers numbers) {
  const auto& l = picture.get<Lines>();
  Json packed = {{"title", l.title}, {"rows", l.rows}, {"columns", l.columns}, {"heads", l.heads}};
  put_weights(packed, l.weights, numbers);
  return packed;
}

Picture unpack(const Json& json) {
  Lines l{.title = json.value("title", ""),
          .rows = json.at("rows").get<std::vector<std::string>>(),
          .columns = json.at("columns").get<std::vector<std::string>>(),
          .heads = json.at("heads").get<std::vector<int64_t>>(),
          .weights = weights_in(json)};
  if (std::max({l.rows.size(), l.columns.size()}) > kMostTokens || l.heads.size() > kMostHeads) {
    throw Error("draw", fmt::format("lines are drawn of at most {} tokens of a side and {} heads",
                                    kMostTokens, kMostHeads));
  }
  return l;
}

Picture example() {
  return Lines{.title = "decoder layer 1",
               .rows = {"le", "chat"},
               .columns = {"the", "cat"},
               .heads = {1, 3},
               .weights = {0.9f, 0.1f, 0.25f, 0.75f, 0.5f, 0.5f, 0, 1}};
}

}  // namespace

extern const PictureKind picture_lines = {
    .name = "lines",
    .plural = "pictures of lines",
    .about =
        "Where several heads looked: a line from each query to each key, as opaque as it "
        "weighs, a colour for each head.",
    .check = check,
    .text = text,
    .drawing = drawing,
    .json = json,
    .csv = csv,
    .page = page,
    .pack = pack,
    .unpack = unpack,
    .titled = with_title<Lines>,
    .example = example,
};
const PictureKind& Lines::kind() { return picture_lines; }

}  // namespace fovea::report
