#include "report/shaded_svg.h"

#include <algorithm>
#include <cmath>

#include "report/files.h"
#include "report/label.h"
#include "report/markup.h"
#include "report/picture.h"

namespace fovea::report {
namespace {

constexpr double kShadedLetter = 8.6, kShadedLine = 24, kShadedMargin = 20, kBar = 72,
                 kText = kShadedMargin + kBar + 62;
constexpr int kColumns = 96;
// As far as letters stay legible on it.
constexpr double kDarkestOnWhite = 0.55, kLightestOnBlack = 0.42;

// A ground of one of a few shades, by class, so that a dark page has its own.
std::string ground_rules(Paper paper) {
  std::string css;
  const double most = paper == Paper::white ? kDarkestOnWhite : kLightestOnBlack;
  for (int k = 0; k < kShades; ++k) {
    const double share = most * k / (kShades - 1);
    css += fmt::format(".g{}{{fill:{}}}.p{}{{fill:{}}}.m{}{{fill:{}}}", k,
                       hex(colour_of(share, paper)), k, hex(signed_colour_of(share, paper)), k,
                       hex(signed_colour_of(-share, paper)));
  }
  return css + (paper == Paper::white ? ".line{fill:#c8550a}" : ".line{fill:#f08a4b}");
}

// Writes a word at its place and gives the next.
struct Pen {
  Markup& svg;
  double y;
  int column = 0;

  void word(const std::string& text, char kind, int shade) {
    const int columns = columns_of(text);
    if (column > 0 && column + 1 + columns > kColumns) y += kShadedLine, column = 0;
    const double x = kText + kShadedLetter * column, width = kShadedLetter * columns;
    if (shade > 0) {
      svg.put(R"(<rect class="{}{}" x="{:.1f}" y="{:.1f}" width="{:.1f}" height="20" rx="3"/>)",
              kind, shade, x - 2, y - 15, width + 4);
    }
    svg.put(R"(<text x="{:.1f}" y="{:.1f}" textLength="{:.1f}">{}</text>)", x, y, width,
            escape(text));
    column += columns + 1;
  }
};

double put_text(Markup& svg, const ShadedText& text, double y) {
  check(text);
  const float full = full_weight(text);
  float heaviest = 1e-9f;
  for (const ShadedText::Line& line : text.lines) heaviest = std::max(heaviest, line.weight);
  svg.put(R"(<text class="title" x="{}" y="{:.1f}">{}</text>)", kShadedMargin, y,
          escape(cut(visible(text.title), kColumns)));
  y += kShadedLine * 1.25;
  for (const ShadedText::Line& line : text.lines) {
    const double bar = kBar * std::max(line.weight, 0.0f) / heaviest;
    svg.put(R"(<rect class="line" x="{:.1f}" y="{:.1f}" width="{:.1f}" height="10" rx="2"/>)",
            kShadedMargin + kBar - bar, y - 10, bar);
    svg.put(R"(<text class="muted" x="{:.1f}" y="{:.1f}">{:.2f}</text>)", kShadedMargin + kBar + 10,
            y, line.weight);
    Pen pen{svg, y};
    for (size_t w = 0; w < line.words.size(); ++w) {
      const float share = weight_in_text(line, w) / full;
      const bool known = std::isfinite(share);
      const char kind = text.scale == Scale::from_zero ? 'g' : share < 0 ? 'm' : 'p';
      const float size = text.scale == Scale::from_zero ? share : std::abs(share);
      pen.word(visible(line.words[w]), kind,
               known ? static_cast<int>(std::clamp(size, 0.0f, 1.0f) * (kShades - 1)) : 0);
    }
    y = pen.y + kShadedLine;
  }
  return y + kShadedLine / 2;
}

}  // namespace

ShadedDrawing drawing_of(const std::vector<ShadedText>& texts) {
  Markup body;
  double y = kShadedMargin + 14;
  for (const ShadedText& text : texts) y = put_text(body, text, y);
  ShadedDrawing d{
      .svg = {}, .width = kText + kShadedLetter * kColumns + kShadedMargin, .height = y};
  Markup svg;
  svg.put(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:g} {1:g}\" width=\"{0:g}\" "
      "height=\"{1:g}\">\n<style>{2}{3}@media(prefers-color-scheme:dark){{{4}}}</style>\n"
      "<rect class=\"paper\" width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n{5}</svg>\n",
      d.width, d.height, files::picture_css, ground_rules(Paper::white), ground_rules(Paper::black),
      body.text());
  d.svg = svg.text();
  return d;
}

}  // namespace fovea::report
