#include "report/table_text.h"

#include <algorithm>

#include "report/label.h"

namespace fovea::report {
namespace {

using Row = std::vector<std::string>;

std::vector<int> widths_of(const Table& table) {
  std::vector<int> widths;
  const auto measure = [&](const Row& row) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], columns_of(row[i]));
  };
  measure(table.header);
  for (const Row& row : table.rows) measure(row);
  return widths;
}

std::string line_of(const Row& row, const std::vector<int>& widths) {
  std::string line;
  for (size_t i = 0; i < row.size(); ++i) {
    const std::string space(static_cast<size_t>(widths[i] - columns_of(row[i])), ' ');
    line += i == 0 ? row[i] + space : "  " + space + row[i];
  }
  return line + '\n';
}

}  // namespace

std::string to_text(const Table& of, const std::string& indent) {
  Table table = of;
  table.rows.push_back(table.header);
  for (Row& row : table.rows) {
    for (std::string& cell : row) cell = visible(cell);
  }
  table.header = std::move(table.rows.back());
  table.rows.pop_back();
  const std::vector<int> widths = widths_of(table);
  std::string text = indent + line_of(table.header, widths);
  for (const Row& row : table.rows) text += indent + line_of(row, widths);
  return text;
}

std::string tables_as_text(const Page& page) {
  std::string text;
  for (const Section& section : page.sections) {
    for (const auto& block : section.blocks) {
      if (const auto* table = std::get_if<Table>(&block)) text += to_text(*table) + '\n';
    }
  }
  return text;
}

}  // namespace fovea::report
