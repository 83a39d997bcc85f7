#include "report/word_map.h"

#include <fmt/format.h>

#include <algorithm>
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

constexpr size_t kMostWords = size_t{1} << 20;

void check(const Picture& picture) {
  const auto& map = picture.get<WordMap>();
  const size_t cells = map.rows.size() * map.columns.size();
  if (map.weights.size() == cells && map.words.size() == cells &&
      (map.notes.empty() || map.notes.size() == cells)) {
    return;
  }
  throw Error("word_map",
              fmt::format("{} weights, {} words and {} notes for {} rows and {} columns",
                          map.weights.size(), map.words.size(), map.notes.size(), map.rows.size(),
                          map.columns.size()));
}

// The scale, as a heat-map of the same weights has it.
Heatmap bare(const WordMap& m) {
  return {.title = m.title,
          .rows = m.rows,
          .columns = m.columns,
          .weights = m.weights,
          .scale = m.scale};
}

// A weight's share of the full one; below 0 nothing, where weights have no sign.
double share_of(const WordMap& m, size_t cell, double full) {
  const double share = static_cast<double>(m.weights[cell]) / full;
  return m.scale == Scale::from_zero ? std::max(share, 0.0) : share;
}

// ---- In a terminal ------------------------------------------------------------------------------

constexpr int kLongestLabel = 14, kLongestWord = 10;

// A word on its ground, or with a mark that fills up.
std::string inked(const std::string& word, double share, Scale scale, Ink ink) {
  if (std::isnan(share)) return word + (ink == Ink::colour ? "" : "?");
  if (ink == Ink::colour) {
    constexpr double kMost = 0.55;  // as far as letters stay legible
    const Colour c = scale == Scale::from_zero ? colour_of(kMost * share, Background::black)
                                               : signed_colour_of(kMost * share, Background::black);
    return fmt::format("\x1b[48;2;{};{};{}m\x1b[38;2;255;255;255m{}\x1b[0m", c[0], c[1], c[2],
                       word);
  }
  static constexpr const char* kMarks[] = {"·", "░", "▒", "▓", "█"};
  const double size = std::abs(share);
  const char* mark = kMarks[(size > 0.05) + (size > 0.2) + (size > 0.45) + (size > 0.7)];
  return word + (share < 0 && size > 0.05 ? "−" : " ") + mark;
}

std::string text(const Picture& picture, Ink ink, int width) {
  const auto& m = picture.get<WordMap>();
  std::string out = m.title.empty() ? "" : visible(m.title) + "\n";
  if (m.words.empty()) return out + "(nothing)\n";
  const double full = full_weight(bare(m));
  int left = 0;
  for (const std::string& row : m.rows) left = std::max(left, columns_of(visible(row)));
  left = std::min(left, kLongestLabel);
  const int marks = ink == Ink::colour ? 0 : 2;
  std::vector<int> wide;  // by column
  int used = left + 1;
  for (size_t j = 0; j < m.columns.size(); ++j) {
    int most = std::min(columns_of(visible(m.columns[j])), kLongestWord + marks);
    for (size_t i = 0; i < m.rows.size(); ++i) {
      const int word =
          std::min(columns_of(visible(m.words[i * m.columns.size() + j])), kLongestWord);
      most = std::max(most, word + marks);
    }
    if (j > 0 && used + most + 2 > width) break;
    wide.push_back(most);
    used += most + 1;
  }
  const std::string more = wide.size() < m.columns.size() ? "…\n" : "\n";
  out += padded("", left + 1);
  for (size_t j = 0; j < wide.size(); ++j) {
    out += padded(cut(visible(m.columns[j]), wide[j]), wide[j] + 1);
  }
  out += more;
  for (size_t i = 0; i < m.rows.size(); ++i) {
    out += padded(cut(visible(m.rows[i]), left), left + 1);
    for (size_t j = 0; j < wide.size(); ++j) {
      const size_t cell = i * m.columns.size() + j;
      const std::string word =
          padded(cut(visible(m.words[cell]), wide[j] - marks), wide[j] - marks);
      out += inked(word, share_of(m, cell, full), m.scale, ink) + " ";
    }
    out += more;
  }
  const std::string legend = inked("", 1, m.scale, Ink::plain).substr(1);
  return out + fmt::format("{}{} = {}\n", padded("", left + 1),
                           ink == Ink::colour ? inked("fullest", 1, m.scale, ink) : legend,
                           number(full));
}

// ---- As a drawing -------------------------------------------------------------------------------

constexpr double kWordLetter = 8.6, kWordLine = 24, kWordMargin = 16, kKey = 128;
constexpr int kDrawnWord = 14, kDrawnLabel = 20;

struct Placed {
  double left = 0, wide = 0;  // of the cells
};

Placed placed(const WordMap& m) {
  int labels = 1, words = 3;
  for (const std::string& row : m.rows) labels = std::max(labels, columns_of(visible(row)));
  for (const std::string& word : m.words) words = std::max(words, columns_of(visible(word)));
  for (const std::string& column : m.columns) words = std::max(words, columns_of(visible(column)));
  return {kWordMargin + kWordLetter * std::min(labels, kDrawnLabel) + 10,
          kWordLetter * std::min(words, kDrawnWord) + 12};
}

struct Spot {
  double x = 0, y = 0, wide = 0;
};
void put_cell(Markup& svg, const WordMap& m, size_t cell, double full, const Spot& at) {
  const double share = share_of(m, cell, full);
  const bool known = std::isfinite(share);
  const int k = known ? shade_of(share, m.scale) : 0;
  const std::string fill = known ? hex(shade(k, Background::white, m.scale)) : "#bebebe";
  const std::string shaded = known ? fmt::format("{}{}", shade_letter(m.scale), k) : "unknown";
  svg.put(R"(<g><title>{}</title><rect class="{}" x="{:.1f}" y="{:.1f}" width="{:.1f}" )"
          R"(height="{}" fill="{}"/>)",
          escape(m.notes.empty() ? visible(m.words[cell]) + "  " + number(m.weights[cell])
                                 : m.notes[cell]),
          shaded, at.x, at.y, at.wide - 1, kWordLine - 1, fill);
  const bool dark = std::abs(share) > (m.scale == Scale::from_zero ? 0.5 : 0.7);
  svg.put(R"(<text class="mid{}" x="{:.1f}" y="{:.1f}">{}</text></g>)", dark ? " on" : "",
          at.x + at.wide / 2, at.y + 16.5, escape(cut(visible(m.words[cell]), kDrawnWord)));
}

void put_scale_below(Markup& svg, const WordMap& m, double x, double y) {
  const Heatmap map = bare(m);
  const std::string low = low_end(map);
  const double begin = x + kWordLetter * (columns_of(low) + 1), step = kKey / shades_of(m.scale);
  svg.put(R"(<text class="muted" x="{:.1f}" y="{:.1f}">{}</text>)", x, y, low);
  for (int k = 0; k < shades_of(m.scale); ++k) {
    svg.put(R"(<rect class="{}{}" x="{:.1f}" y="{:.1f}" width="{:.2f}" height="12" fill="{}"/>)",
            shade_letter(m.scale), k, begin + step * k, y - 11, step,
            hex(shade(k, Background::white, m.scale)));
  }
  svg.put(R"(<text class="muted" x="{:.1f}" y="{:.1f}">{}</text>)", begin + kKey + 8, y,
          number(full_weight(map)));
}

double put_words(Markup& svg, const WordMap& m, double y) {
  const Placed at = placed(m);
  const double full = full_weight(bare(m));
  svg.put(R"(<text class="title" x="{}" y="{:.1f}">{}</text>)", kWordMargin, y,
          escape(cut(visible(m.title), 120)));
  y += kWordLine;
  if (m.words.empty()) {
    svg.put(R"(<text class="muted" x="{}" y="{:.1f}">(nothing)</text>)", kWordMargin, y);
    return y + kWordLine;
  }
  for (size_t j = 0; j < m.columns.size(); ++j) {
    svg.put(R"(<text class="mid" x="{:.1f}" y="{:.1f}">{}</text>)",
            at.left + at.wide * (static_cast<double>(j) + 0.5), y,
            escape(cut(visible(m.columns[j]), kDrawnWord)));
  }
  y += 8;
  for (size_t i = 0; i < m.rows.size(); ++i, y += kWordLine) {
    svg.put(R"(<text class="end" x="{:.1f}" y="{:.1f}">{}</text>)", at.left - 8, y + 16.5,
            escape(cut(visible(m.rows[i]), kDrawnLabel)));
    for (size_t j = 0; j < m.columns.size(); ++j) {
      put_cell(svg, m, i * m.columns.size() + j, full,
               {at.left + at.wide * static_cast<double>(j), y, at.wide});
    }
  }
  put_scale_below(svg, m, at.left, y + 20);
  return y + 2 * kWordLine;
}

double width_of(const WordMap& m) {
  const Placed at = placed(m);
  return std::max({at.left + at.wide * static_cast<double>(m.columns.size()),
                   at.left + kKey + kWordLetter * 16,
                   kWordLetter * columns_of(cut(visible(m.title), 120))}) +
         2 * kWordMargin;
}

// librsvg fills the outlines of letters; of a font of pictures that leaves silhouettes.
WordMap drawable(WordMap m) {
  const auto plain = [](std::vector<std::string>& all) {
    for (std::string& one : all) one = without_pictures(one);
  };
  m.title = without_pictures(m.title);
  plain(m.rows), plain(m.columns), plain(m.words);
  return m;
}

Drawing drawing(std::span<const Picture> maps, Target target) {
  Markup body;
  double y = kWordMargin + 14, width = 0;
  for (const Picture& picture : maps) {
    const WordMap m =
        target == Target::png ? drawable(picture.get<WordMap>()) : picture.get<WordMap>();
    y = put_words(body, m, y) + kWordMargin;
    width = std::max(width, width_of(m));
  }
  return svg_file(width, y,
                  fmt::format("{}.on{{fill:#fff}}@media(prefers-color-scheme:dark){{{}"
                              ".on{{fill:#14171c}}}}",
                              files::picture_css, shade_rules(Background::black)),
                  body.text());
}

// ---- On a page ----------------------------------------------------------------------------------

void page(Html& html, std::span<const Picture> maps) {
  for (const Picture& picture : maps) {
    const auto& m = picture.get<WordMap>();
    const double full = full_weight(bare(m));
    html.put(R"(<figure class="shaded"><figcaption dir="auto">{}</figcaption><div class="scroll">)"
             R"(<table class="words"><tr><td></td>)",
             escape(m.title));
    for (const std::string& column : m.columns) html.put("<th>{}</th>", escape(visible(column)));
    html.put("</tr>");
    for (size_t i = 0; i < m.rows.size(); ++i) {
      html.put("<tr><th>{}</th>", escape(visible(m.rows[i])));
      for (size_t j = 0; j < m.columns.size(); ++j) {
        const size_t cell = i * m.columns.size() + j;
        const double share = share_of(m, cell, full);
        html.put(R"(<td title="{}"><mark{} style="--w:{:.2f}">{}</mark></td>)",
                 escape(m.notes.empty() ? number(m.weights[cell]) : m.notes[cell]),
                 m.scale == Scale::from_zero ? ""
                 : share < 0                 ? R"( class="below")"
                                             : R"( class="above")",
                 std::isfinite(share) ? std::min(std::abs(share), 1.0) : 0.0,
                 escape(visible(m.words[cell])));
      }
      html.put("</tr>");
    }
    html.put(R"(</table></div><p class="key{}">{}<i></i>{}</p></figure>)",
             m.scale == Scale::from_zero ? "" : " signed", low_end(bare(m)), number(full));
  }
}

// ---- As data ------------------------------------------------------------------------------------

template <class T>
Json by_row(const std::vector<T>& all, size_t columns) {
  Json rows = Json::array();
  for (size_t i = 0; i < all.size(); i += columns) {
    rows.push_back(std::vector<T>(all.begin() + static_cast<ptrdiff_t>(i),
                                  all.begin() + static_cast<ptrdiff_t>(i + columns)));
  }
  return rows;
}

Json json(const Picture& picture) {
  const auto& m = picture.get<WordMap>();
  const size_t n = std::max<size_t>(m.columns.size(), 1);
  Json json = {{"title", m.title},
               {"rows", m.rows},
               {"columns", m.columns},
               {"words", by_row(m.words, n)},
               {"weights", by_row(m.weights, n)}};
  if (!m.notes.empty()) json["notes"] = by_row(m.notes, n);
  put_scale(json, m.scale);
  return json;
}

std::string csv(std::span<const Picture> maps) {
  std::string text = "picture,row,column,weight,row_number,column_number,word\r\n";
  for (const Picture& picture : maps) {
    const auto& m = picture.get<WordMap>();
    const size_t n = m.columns.size();
    for (size_t cell = 0; cell < m.words.size(); ++cell) {
      text += fmt::format("{},{},{},{},{},{},{}\r\n", quoted(m.title), quoted(m.rows[cell / n]),
                          quoted(m.columns[cell % n]), m.weights[cell], cell / n + 1, cell % n + 1,
                          quoted(m.words[cell]));
    }
  }
  return text;
}

Json pack(const Picture& picture, Numbers numbers) {
  const auto& m = picture.get<WordMap>();
  Json json = {{"title", m.title}, {"rows", m.rows}, {"columns", m.columns}, {"words", m.words}};
  if (!m.notes.empty()) json["notes"] = m.notes;
  put_weights(json, m.weights, numbers);
  put_scale(json, m.scale);
  return json;
}

Picture unpack(const Json& json) {
  const auto texts = [&](const char* key) {
    return json.value(key, Json::array()).get<std::vector<std::string>>();
  };
  WordMap m{.title = json.value("title", ""),
            .rows = texts("rows"),
            .columns = texts("columns"),
            .words = texts("words"),
            .notes = texts("notes"),
            .weights = weights_in(json),
            .scale = scale_in(json)};
  if (m.words.size() > kMostWords) throw Error("draw", "a map has more than 1048576 words");
  return m;
}

Picture example() {
  return WordMap{"what blocks say",
                 {"block 1", "block 2"},
                 {"the", "cat"},
                 {"a", "dog", "cat", "sat"},
                 {},
                 {0.25f, 0.125f, 0.5f, 0.75f}};
}

}  // namespace

extern const PictureKind picture_word_map = {
    .name = "word_map",
    .plural = "word maps",
    .about = "A word in each cell, which is as dark as its weight.",
    .check = check,
    .text = text,
    .drawing = drawing,
    .json = json,
    .csv = csv,
    .page = page,
    .pack = pack,
    .unpack = unpack,
    .titled = with_title<WordMap>,
    .example = example,
};
const PictureKind& WordMap::kind() { return picture_word_map; }

}  // namespace fovea::report
