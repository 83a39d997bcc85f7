#include "image/csv.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <map>
#include <optional>
#include <string_view>

#include "fovea/error.h"
#include "text/messages.h"
#include "text/utf8.h"

namespace fovea::image {
namespace {

constexpr int64_t kMostClasses = 1000, kLargestSide = 1024;
constexpr float kLargest = 255;

std::string_view without_quotes(std::string_view cell) {
  while (!cell.empty() && cell.front() == ' ') cell.remove_prefix(1);
  while (!cell.empty() && cell.back() == ' ') cell.remove_suffix(1);
  const bool quoted = cell.size() > 1 && cell.front() == '"' && cell.back() == '"';
  return quoted ? cell.substr(1, cell.size() - 2) : cell;
}

std::vector<std::string_view> cells_of(std::string_view line, char separator) {
  std::vector<std::string_view> cells;
  for (size_t from = 0; from <= line.size();) {
    const size_t to = std::min(line.find(separator, from), line.size());
    cells.push_back(without_quotes(line.substr(from, to - from)));
    from = to + 1;
  }
  return cells;
}

std::optional<float> number_in(std::string_view cell) {
  float value = 0;
  const auto [end, error] = std::from_chars(cell.data(), cell.data() + cell.size(), value);
  if (error != std::errc() || end != cell.data() + cell.size()) return {};
  return value;
}

// The lines as numbers, before it is known which of them are classes.
struct Rows {
  std::vector<std::string> names;  // of the columns, where a first line says them
  std::vector<std::vector<float>> values;
  std::vector<int64_t> lines;  // where each stood
  size_t columns = 0;
  int64_t side = 0;
};

// side² + 1 values.
void check_columns(const text::LineReader& lines, Rows& rows, size_t columns) {
  const auto root = [](size_t n) {
    return static_cast<int64_t>(std::lround(std::sqrt(static_cast<double>(n))));
  };
  const auto is_square = [&](size_t n) {
    return n > 0 && root(n) * root(n) == static_cast<int64_t>(n);
  };
  if (columns < 2 || !is_square(columns - 1) || root(columns - 1) > kLargestSide) {
    lines.fail(fmt::format(
        "{} values{}: expected those of a square image and its class, by commas", columns,
        is_square(columns) && columns > 1
            ? fmt::format(", an image of {0} × {0} without its class", root(columns))
            : ""));
  }
  rows.columns = columns;
  rows.side = root(columns - 1);
}

Rows rows_of(text::LineReader& lines) {
  Rows rows;
  char separator = 0;
  for (std::string line; lines.next(line);) {
    if (line.empty()) continue;
    if (separator == 0) separator = text::separator_in(line);
    const std::vector<std::string_view> cells = cells_of(line, separator);
    if (rows.columns == 0 && rows.names.empty() && !number_in(cells[0])) {
      rows.names.assign(cells.begin(), cells.end());
      continue;
    }
    if (rows.columns == 0) {
      check_columns(lines, rows, cells.size());
      if (!rows.names.empty() && rows.names.size() != rows.columns) {
        lines.fail(fmt::format("{} values, the first line names {} columns", rows.columns,
                               rows.names.size()));
      }
    }
    if (cells.size() != rows.columns) {
      lines.fail(fmt::format("{} values, the lines before have {}", cells.size(), rows.columns));
    }
    std::vector<float>& values = rows.values.emplace_back();
    for (size_t i = 0; i < cells.size(); ++i) {
      const std::optional<float> value = number_in(cells[i]);
      if (!value || !(*value >= 0 && *value < static_cast<float>(kMostClasses))) {
        lines.fail(fmt::format("value {} is {}, expected a number from 0 to {}", i + 1,
                               text::quoted_piece(cells[i]), kLargest));
      }
      values.push_back(*value);
    }
    rows.lines.push_back(lines.number());
  }
  if (rows.values.empty()) lines.fail("there are no images");
  return rows;
}

// ---- Which column is the class -----------------------------------------------------------------

constexpr const char* kFirst = "first";
constexpr const char* kLast = "last";

[[noreturn]] void fail(const text::LineReader& lines, const std::string& what) {
  throw Error("csv", fmt::format("{}: {}", lines.name(), what));
}

size_t asked_for(const text::LineReader& lines, const Rows& rows, const std::string& column) {
  if (column == kFirst) return 0;
  if (column == kLast) return rows.columns - 1;
  const auto named = std::find(rows.names.begin(), rows.names.end(), column);
  if (named != rows.names.end()) return static_cast<size_t>(named - rows.names.begin());
  const std::optional<float> number = number_in(column);
  const bool whole = number && *number == std::floor(*number);
  if (!whole || *number < 1 || *number > static_cast<float>(rows.columns)) {
    fail(lines,
         fmt::format("there is no column {}; --class-column takes first, last, a number from "
                     "1 to {}, or a name of the first line",
                     text::quoted_piece(column), rows.columns));
  }
  return static_cast<size_t>(*number) - 1;
}

// By what a first line calls it.
std::optional<size_t> named_so(const Rows& rows) {
  constexpr std::array kNames = {"label", "class", "target", "digit", "y"};
  for (const char* name : kNames) {
    for (size_t i = 0; i < rows.names.size(); ++i) {
      if (text::lowercase(rows.names[i]) == name) return i;
    }
  }
  return {};
}

// Classes are whole numbers, at least two; mostly 0 … k−1 or 1 … k, each of them more than once.
enum class ClassColumn { unlike, possible, likely };
ClassColumn like_a_class(const Rows& rows, size_t column) {
  std::map<float, int64_t> count;
  for (const std::vector<float>& row : rows.values) {
    if (row[column] != std::floor(row[column])) return ClassColumn::unlike;
    ++count[row[column]];
  }
  if (count.size() < 2) return ClassColumn::unlike;
  const float lowest = count.begin()->first, highest = count.rbegin()->first;
  const bool without_gap = lowest <= 1 && highest - lowest + 1 == static_cast<float>(count.size());
  const bool often =
      std::all_of(count.begin(), count.end(), [](const auto& c) { return c.second > 1; });
  return without_gap && often ? ClassColumn::likely : ClassColumn::possible;
}

// The margin of most pictures is black, and so holds one value: what is left is the class.
size_t found_in(const text::LineReader& lines, const Rows& rows) {
  const ClassColumn first = like_a_class(rows, 0), last = like_a_class(rows, rows.columns - 1);
  if (first == ClassColumn::unlike && last == ClassColumn::unlike) {
    fail(lines,
         "neither the first nor the last column holds two classes or more; --class-column says "
         "which is the class: first, last, its number, or its name");
  }
  if (last == ClassColumn::unlike || (first == ClassColumn::likely && last != ClassColumn::likely))
    return 0;
  if (first == ClassColumn::unlike ||
      (last == ClassColumn::likely && first != ClassColumn::likely)) {
    return rows.columns - 1;
  }
  fail(lines,
       "both the first and the last column may be the class; --class-column first or "
       "--class-column last says which");
}

std::string name_of(const Rows& rows, size_t column) {
  if (column == 0) return kFirst;
  return column == rows.columns - 1 ? kLast : std::to_string(column + 1);
}

LabelledImage image_of(const text::LineReader& lines, const Rows& rows, size_t i, size_t class_at) {
  const std::vector<float>& values = rows.values[i];
  LabelledImage one{{rows.side, rows.side, 1, {}}, static_cast<int64_t>(values[class_at])};
  if (values[class_at] != std::floor(values[class_at])) {
    lines.fail_at(rows.lines[i],
                  fmt::format("value {} is {}, expected a class, a whole number from "
                              "0 to {}; --class-column says where it stands",
                              class_at + 1, values[class_at], kMostClasses - 1));
  }
  one.image.pixels.reserve(values.size() - 1);
  for (size_t k = 0; k < values.size(); ++k) {
    if (k == class_at) continue;
    if (values[k] > kLargest) {
      lines.fail_at(rows.lines[i], fmt::format("value {} is {}, expected a number from 0 to {}",
                                               k + 1, values[k], kLargest));
    }
    one.image.pixels.push_back(values[k]);
  }
  return one;
}

}  // namespace

CsvImages parse_csv(text::LineReader lines, const std::string& class_column) {
  Rows rows = rows_of(lines);
  const std::optional<size_t> named = named_so(rows);
  const size_t class_at = !class_column.empty() ? asked_for(lines, rows, class_column)
                          : named               ? *named
                                                : found_in(lines, rows);
  CsvImages all;
  all.class_column = name_of(rows, class_at);
  float largest = 0;
  int64_t classes = 0;
  for (size_t i = 0; i < rows.values.size(); ++i) {
    all.images.push_back(image_of(lines, rows, i, class_at));
    rows.values[i] = {};
    const LabelledImage& one = all.images.back();
    classes = std::max(classes, one.label + 1);
    for (const float v : one.image.pixels) largest = std::max(largest, v);
  }
  const float white = largest <= 1 ? 1.0f : largest <= 16 ? 16.0f : kLargest;
  for (LabelledImage& one : all.images) {
    for (float& v : one.image.pixels) v /= white;
  }
  for (int64_t k = 0; k < classes; ++k) all.classes.push_back(std::to_string(k));
  return all;
}

CsvImages read_csv(const std::filesystem::path& path, const std::string& class_column) {
  return parse_csv(text::LineReader::of_file("csv", path), class_column);
}

}  // namespace fovea::image
