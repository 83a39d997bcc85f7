#include "report/shaded_text.h"

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

void check(const Picture& picture) {
  for (const ShadedText::Line& line : picture.get<ShadedText>().lines) {
    if (line.words.size() == line.weights.size()) continue;
    throw Error("shaded", fmt::format("{} weights for {} words of a line", line.weights.size(),
                                      line.words.size()));
  }
}

float heaviest_line(const ShadedText& text) {
  float heaviest = 1e-9f;
  for (const ShadedText::Line& line : text.lines) heaviest = std::max(heaviest, line.weight);
  return heaviest;
}

// ---- In a terminal ------------------------------------------------------------------------------

// As far as letters stay legible on it.
constexpr double kDarkestOnWhite = 0.55, kLightestOnBlack = 0.42;
// Below this share of the full weight a word has no sign of its own: grey print would show none.
constexpr float kSigned = 0.1f;

// The ground of a word, everywhere: terminal, drawing, page.
Colour ground_of(double share, Scale scale, Background background) {
  const double most = background == Background::white ? kDarkestOnWhite : kLightestOnBlack;
  return scale == Scale::from_zero ? colour_of(most * share, background)
                                   : signed_colour_of(most * share, background);
}

std::string grounded(const std::string& word, double share, Scale scale) {
  const Colour c = ground_of(std::clamp(share, -1.0, 1.0), scale, Background::black);
  return fmt::format("\x1b[48;2;{};{};{}m\x1b[38;2;255;255;255m{}\x1b[0m", c[0], c[1], c[2], word);
}

// A word of a terminal by its share of the full weight.
std::string inked(const std::string& word, float share, Scale scale, Ink ink) {
  const float size = std::abs(share);
  if (ink == Ink::colour) {
    return size < 0.06f ? word : grounded(word, static_cast<double>(share), scale);
  }
  const auto marks = static_cast<size_t>((size > kSigned) + (size > 0.3f) + (size > 0.7f));
  const std::string around(marks, share < 0 ? '_' : '*');
  return fmt::format("{0}{1}{0}", around, word);
}

// What the colours, or the marks in their place, stand for.
std::string legend_line(const ShadedText& text, Ink ink) {
  const std::string full = number(full_weight(text));
  if (text.scale == Scale::around_zero) {
    return fmt::format("     {} for the output, {} against it; the fullest is {}\n",
                       inked("+", 1, text.scale, ink), inked("−", -1, text.scale, ink), full);
  }
  if (ink == Ink::colour) {
    return fmt::format("     {} weighs most, {} of all\n", inked("word", 1, text.scale, ink), full);
  }
  return fmt::format("     *word* from 10 %, **word** 30 %, ***word*** 70 % of the largest, {}\n",
                     full);
}

// 0.62 ██████  The film is ***superb***.
std::string text(const Picture& picture, Ink ink, int width) {
  const auto& text = picture.get<ShadedText>();
  constexpr int kBar = 6, kMargin = 4 + 1 + kBar + 2;
  const float full = full_weight(text);
  const int room = std::max(width - kMargin, 20);
  const float heaviest = heaviest_line(text);
  std::string out = text.title.empty() ? "" : visible(text.title) + "\n";
  for (const ShadedText::Line& line : text.lines) {
    const int bars = static_cast<int>(
        std::lround(static_cast<float>(kBar) * std::max(line.weight, 0.0f) / heaviest));
    std::string bar;
    for (int i = 0; i < kBar; ++i) bar += i < bars ? "█" : " ";
    out += fmt::format("{:4.2f} {}  ", line.weight, bar);
    int used = 0;
    for (size_t w = 0; w < line.words.size(); ++w) {
      const std::string word = visible(line.words[w]);
      const float share = weight_in_text(line, w) / full;
      const int columns =
          columns_of(ink == Ink::colour ? word : inked(word, share, text.scale, ink));
      if (used > 0 && used + 1 + columns > room) {
        out += '\n';
        out.append(kMargin, ' ');
        used = 0;
      }
      if (used > 0) out += ' ';
      out += inked(word, share, text.scale, ink);
      used += columns + (used > 0);
    }
    out += '\n';
  }
  return out + (text.lines.empty() ? "" : legend_line(text, ink));
}

// ---- As a drawing, in a font whose letters are of one width
// --------------------------------------

constexpr double kShadedLetter = 8.6, kShadedLine = 24, kShadedMargin = 20, kBar = 72,
                 kText = kShadedMargin + kBar + 62;
constexpr int kColumns = 96;

// A ground of one of a few shades, by class, so that a dark page has its own.
std::string ground_rules(Background background) {
  std::string css;
  for (int k = 0; k < kShades; ++k) {
    const double share = static_cast<double>(k) / (kShades - 1);
    css += fmt::format(".g{}{{fill:{}}}.p{}{{fill:{}}}.m{}{{fill:{}}}", k,
                       hex(ground_of(share, Scale::from_zero, background)), k,
                       hex(ground_of(share, Scale::around_zero, background)), k,
                       hex(ground_of(-share, Scale::around_zero, background)));
  }
  return css + (background == Background::white ? ".line{fill:#c8550a}" : ".line{fill:#f08a4b}");
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

// A small plus or minus before a word: grey print loses the colours.
std::string signed_word(const std::string& word, float share, Scale scale) {
  if (scale == Scale::from_zero || !(std::abs(share) >= kSigned)) return word;
  return (share > 0 ? "⁺" : "⁻") + word;
}

// −0.31 [shades] +0.31: for the output, against it.
void put_key(Markup& svg, const ShadedText& text, double y) {
  const bool is_signed = text.scale == Scale::around_zero;
  const std::string full = number(full_weight(text));
  constexpr double kKey = 160;
  const double begin = kText + kShadedLetter * 8, step = kKey / kShades;
  svg.put(R"(<text class="muted end" x="{:.1f}" y="{:.1f}">{}</text>)", begin - 8, y,
          is_signed ? "−" + full : "0");
  for (int k = 0; k < kShades; ++k) {
    const int from_middle = 2 * k - (kShades - 1);
    const char kind = !is_signed ? 'g' : from_middle < 0 ? 'm' : 'p';
    svg.put(R"(<rect class="{}{}" x="{:.1f}" y="{:.1f}" width="{:.2f}" height="12"/>)", kind,
            is_signed ? std::abs(from_middle) : k, begin + step * k, y - 11, step + 0.3);
  }
  svg.put(R"(<text class="muted" x="{:.1f}" y="{:.1f}">{}</text>)", begin + kKey + 8, y,
          is_signed ? "+" + full + "  orange: for the output, blue: against it"
                    : full + "  of all weight, the largest here");
}

double put_text(Markup& svg, const ShadedText& text, double y) {
  const float full = full_weight(text);
  const float heaviest = heaviest_line(text);
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
      pen.word(signed_word(visible(line.words[w]), share, text.scale), kind,
               known ? static_cast<int>(std::clamp(size, 0.0f, 1.0f) * (kShades - 1)) : 0);
    }
    y = pen.y + kShadedLine;
  }
  put_key(svg, text, y);
  return y + kShadedLine * 1.5;
}

Drawing drawing(std::span<const Picture> texts, Target) {
  Markup body;
  double y = kShadedMargin + 14;
  for (const Picture& text : texts) y = put_text(body, text.get<ShadedText>(), y);
  return svg_file(kText + kShadedLetter * kColumns + kShadedMargin, y,
                  fmt::format("{}{}@media(prefers-color-scheme:dark){{{}}}", files::picture_css,
                              ground_rules(Background::white), ground_rules(Background::black)),
                  body.text());
}

// ---- On a page: a bar and a figure for each line, words that stand out by their ground
// -----------

// No space before a mark, as it is usual to write.
bool hugs(const std::string& word) {
  static constexpr std::string_view kMarks = ".,!?;:)]}%";
  return word.size() == 1 && kMarks.find(word[0]) != kMarks.npos;
}

void add_line(Html& html, const ShadedText& text, const ShadedText::Line& line, float full,
              float heaviest) {
  html.put(R"(<li><span class="bar"><i style="width:{:.1f}%"></i>{:.2f}</span><span dir="auto">)",
           100 * std::max(line.weight, 0.0f) / heaviest, line.weight);
  for (size_t w = 0; w < line.words.size(); ++w) {
    if (w > 0 && !hugs(line.words[w])) html.put(" ");
    const float share = weight_in_text(line, w) / full;
    const bool is_signed = text.scale == Scale::around_zero;
    const char* marked = !is_signed ? "" : share > 0 ? R"( class="above")" : R"( class="below")";
    const std::string word = escape(signed_word(visible(line.words[w]), share, text.scale));
    if (!(std::abs(share) >= 0.03f)) {
      html.put("{}", word);
    } else {
      html.put(
          R"(<mark{} style="--w:{:.2f}" title="{:.3f} of the sentence, {:.3f} in all">{}</mark>)",
          marked, std::min(std::abs(share), 1.0f), line.weights[w], weight_in_text(line, w), word);
    }
  }
  html.put("</span></li>\n");
}

void page(Html& html, std::span<const Picture> texts) {
  for (const Picture& picture : texts) {
    const auto& text = picture.get<ShadedText>();
    const float full = full_weight(text), heaviest = heaviest_line(text);
    html.put(R"(<figure class="shaded"><figcaption dir="auto">{}</figcaption><ol>)",
             escape(text.title));
    for (const ShadedText::Line& line : text.lines) add_line(html, text, line, full, heaviest);
    html.put(R"(</ol><p class="key{}">{}<i></i>{}</p></figure>)",
             text.scale == Scale::around_zero ? " signed" : "",
             text.scale == Scale::around_zero ? "against the output −" + number(full) : "0",
             text.scale == Scale::around_zero ? "+" + number(full) + " for it"
                                              : number(full) + " of all weight, the largest here");
  }
}

std::string caption(const Answered& a) {
  const bool right = a.output == a.expected;
  return fmt::format("{}{} {:.2f}{}", right ? "✓ " : "✗ ", a.output, a.score,
                     right ? "" : ", expected " + a.expected);
}

// ---- As data ------------------------------------------------------------------------------------

Json json(const Picture& picture) {
  const auto& text = picture.get<ShadedText>();
  Json lines = Json::array();
  for (const ShadedText::Line& line : text.lines) {
    lines.push_back({{"weight", line.weight}, {"words", line.words}, {"weights", line.weights}});
  }
  Json json = {{"title", text.title}, {"lines", lines}};
  put_scale(json, text.scale);
  return json;
}

std::string csv(std::span<const Picture> texts) {
  std::string text = kCellNames;
  for (const Picture& picture : texts) {
    const auto& t = picture.get<ShadedText>();
    for (size_t i = 0; i < t.lines.size(); ++i) {
      const ShadedText::Line& l = t.lines[i];
      for (size_t j = 0; j < l.words.size(); ++j) {
        text += fmt::format("{},{},{},{},{},{}\r\n", quoted(t.title), i + 1, quoted(l.words[j]),
                            weight_in_text(l, j), i + 1, j + 1);
      }
    }
  }
  return text;
}

Json pack(const Picture& picture, Numbers numbers) {
  const auto& text = picture.get<ShadedText>();
  Json lines = Json::array();
  for (const ShadedText::Line& line : text.lines) {
    Json& one = lines.emplace_back(Json{{"weight", line.weight}, {"words", line.words}});
    put_weights(one, line.weights, numbers);
  }
  Json json = {{"title", text.title}, {"lines", lines}};
  put_scale(json, text.scale);
  return json;
}

Picture unpack(const Json& json) {
  ShadedText text{.title = json.value("title", ""), .lines = {}, .scale = scale_in(json)};
  for (const Json& line : json.at("lines")) {
    text.lines.push_back({line.at("weight").get<float>(),
                          line.at("words").get<std::vector<std::string>>(), weights_in(line)});
  }
  return text;
}

Picture example() {
  return ShadedText{"positive",
                    {{0.75f, {"a", "superb", "film"}, {0.1f, 0.8f, 0.1f}},
                     {0.25f, {"it", "rained"}, {0.5f, 0.5f}}}};
}

}  // namespace

float weight_in_text(const ShadedText::Line& line, size_t word) {
  return line.weight * line.weights[word];
}

float full_weight(const ShadedText& text) {
  float full = 0;
  for (const ShadedText::Line& line : text.lines) {
    for (size_t w = 0; w < line.weights.size(); ++w) {
      const float weight = std::abs(weight_in_text(line, w));
      if (std::isfinite(weight)) full = std::max(full, weight);
    }
  }
  return full > 0 ? full : 1.0f;
}

extern const PictureKind picture_shaded_text = {
    .name = "shaded_text",
    .plural = "texts",
    .about =
        "Where the model looked: a bar for the weight of a sentence, words dark by their own "
        "weight times their sentence's.",
    .caption = caption,
    .check = check,
    .text = text,
    .drawing = drawing,
    .json = json,
    .csv = csv,
    .page = page,
    .pack = pack,
    .unpack = unpack,
    .titled = with_title<ShadedText>,
    .example = example,
};
const PictureKind& ShadedText::kind() { return picture_shaded_text; }

}  // namespace fovea::report
