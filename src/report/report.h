#pragma once

#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "report/picture.h"

// A page that opens anywhere: one file, no network, light and dark, printable.
namespace fovea::report {

struct Text {
  std::string paragraph;
};
struct Table {
  std::vector<std::string> header;
  std::vector<std::vector<std::string>> rows;  // numbers are aligned right
};
struct Curve {
  std::string name;
  std::vector<std::pair<double, double>> points;
};
// Lines over a common axis.
struct Chart {
  std::string x, y;
  std::vector<Curve> curves;
  bool log_y = false;
};
// Files of their own, one chart below the other; the ending says which, .svg or .png.
std::string to_svg(const std::vector<Chart>&);
std::string to_png(const std::vector<Chart>&);
void write(const std::filesystem::path&, const std::vector<Chart>&);  // whole or not at all

// Groups of bars: a value per series in each group; NaN leaves one out.
struct Bars {
  std::string x, y;
  std::vector<std::string> groups, series;
  std::vector<std::vector<double>> values;  // [series][group]
};
// Where a model looked, a figure for each; their titles are the captions.
struct Pictures {
  std::vector<Picture> items;
};

struct Section {
  std::string heading;
  std::vector<std::variant<Text, Table, Chart, Bars, Pictures>> blocks;
};
struct Page {
  std::string title, subtitle;
  std::vector<std::pair<std::string, std::string>> headline;  // a few large figures: name, value
  std::vector<Section> sections;
};

std::string to_html(const Page&);
void write_page(const std::filesystem::path&, const Page&);  // whole or not at all

}  // namespace fovea::report
