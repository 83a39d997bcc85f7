#include "report/shaded.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "fovea/error.h"
#include "image/svg.h"
#include "report/label.h"
#include "report/shaded_svg.h"
#include "report/written.h"

namespace fovea::report {
namespace {

using Json = nlohmann::ordered_json;

Json json_of(const ShadedText& text) {
  check(text);
  Json lines = Json::array();
  for (const ShadedText::Line& line : text.lines) {
    lines.push_back({{"weight", line.weight}, {"words", line.words}, {"weights", line.weights}});
  }
  return {{"title", text.title}, {"lines", lines}};
}

// A word of a terminal by its share of the full weight.
std::string inked(const std::string& word, float share, Ink ink) {
  if (ink == Ink::colour) {
    if (std::abs(share) < 0.06f) return word;
    const float x = std::sqrt(std::min(std::abs(share), 1.0f));
    if (share < 0) {
      return fmt::format("\x1b[48;2;{};{};{}m\x1b[38;2;255;255;255m{}\x1b[0m",
                         static_cast<int>(24 + 20 * x), static_cast<int>(24 + 70 * x),
                         static_cast<int>(40 + 140 * x), word);
    }
    return fmt::format("\x1b[48;2;{};{};{}m\x1b[38;2;255;255;255m{}\x1b[0m",
                       static_cast<int>(24 + 150 * x), static_cast<int>(24 + 60 * x),
                       static_cast<int>(40 + 30 * x), word);
  }
  const float size = std::abs(share);
  const auto marks = static_cast<size_t>((size > 0.1f) + (size > 0.3f) + (size > 0.7f));
  const std::string around(marks, share < 0 ? '_' : '*');
  return fmt::format("{0}{1}{0}", around, word);
}

}  // namespace

void check(const ShadedText& text) {
  for (const ShadedText::Line& line : text.lines) {
    if (line.words.size() == line.weights.size()) continue;
    throw Error("shaded", fmt::format("{} weights for {} words of a line", line.weights.size(),
                                      line.words.size()));
  }
}

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

std::string to_json(const ShadedText& text) { return dump(json_of(text)); }

// 0.62 ██████  The film is ***superb***.
std::string to_text(const ShadedText& text, Ink ink, int width) {
  check(text);
  constexpr int kBar = 6, kMargin = 4 + 1 + kBar + 2;
  const float full = full_weight(text);
  const int room = std::max(width - kMargin, 20);
  float heaviest = 1e-9f;
  for (const ShadedText::Line& line : text.lines) heaviest = std::max(heaviest, line.weight);
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
      const int columns = columns_of(ink == Ink::colour ? word : inked(word, share, ink));
      if (used > 0 && used + 1 + columns > room) {
        out += '\n';
        out.append(kMargin, ' ');
        used = 0;
      }
      if (used > 0) out += ' ';
      out += inked(word, share, ink);
      used += columns + (used > 0);
    }
    out += '\n';
  }
  return out;
}

std::string to_svg(const std::vector<ShadedText>& texts) { return drawing_of(texts).svg; }

std::string to_png(const std::vector<ShadedText>& texts) {
  const ShadedDrawing d = drawing_of(texts);
  const double scale = png_scale(d.width, d.height, fmt::format("{} texts", texts.size()));
  return image::to_png({d.svg, d.width, d.height, scale});
}

void write(const std::filesystem::path& path, const std::vector<ShadedText>& texts) {
  const PictureFormat format = picture_format(path);
  if (format == PictureFormat::json) {
    Json list = Json::array();
    for (const ShadedText& text : texts) list.push_back(json_of(text));
    return write_file(path, dump(texts.size() == 1 ? list[0] : list) + "\n");
  }
  if (texts.empty()) throw Error("write", fmt::format("{}: no text to draw", path.string()));
  write_file(path, format == PictureFormat::svg ? to_svg(texts) : to_png(texts));
}

}  // namespace fovea::report
