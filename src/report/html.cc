#include <algorithm>
#include <cctype>

#include "fovea/runtime.h"
#include "report/files.h"
#include "report/label.h"
#include "report/page.h"

namespace fovea::report {
namespace {

bool is_empty(const std::string& cell) {
  return cell.empty() || cell == "-" || cell == "–" || cell == "—" || cell == "NaN";
}

// Starts with a digit, perhaps after a sign, and has at most a unit's worth of letters.
bool is_number(const std::string& cell) {
  const size_t start = cell.find_first_not_of("+-.,~<>≈≤≥±−× ");
  if (start == std::string::npos || std::isdigit(static_cast<unsigned char>(cell[start])) == 0) {
    return false;
  }
  return std::count_if(cell.begin(), cell.end(),
                       [](unsigned char c) { return std::isalpha(c) != 0; }) <= 4;
}

bool is_numeric(const Table& table, size_t column) {
  bool some = false;
  for (const std::vector<std::string>& row : table.rows) {
    if (column >= row.size() || is_empty(row[column])) continue;
    if (!is_number(row[column])) return false;
    some = true;
  }
  return some;
}

void add_head(Html& html, const Page& page) {
  html.put(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n"
      "<meta name=\"color-scheme\" content=\"light dark\"/>\n"
      "<meta name=\"generator\" content=\"Fovea {}\"/>\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
      "style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:; base-uri 'none'; "
      "form-action 'none'\"/>\n<title>{}</title>\n<style>\n{}{}</style>\n</head>\n",
      version(), escape(page.title), files::page_css, heat_colours());
}

void add_headline(Html& html, const Page& page) {
  html.put("<header><h1>{}</h1>", escape(page.title));
  if (!page.subtitle.empty()) html.put(R"(<p class="sub">{}</p>)", escape(page.subtitle));
  if (!page.headline.empty()) {
    html.put(R"(<dl class="cards">)");
    for (const auto& [name, value] : page.headline) {
      html.put("<div><dt>{}</dt><dd>{}</dd></div>", escape(name), escape(value));
    }
    html.put("</dl>");
  }
  html.put("</header>\n");
}

void add_contents(Html& html, const Page& page) {
  if (page.sections.size() < 3) return;
  html.put(R"(<nav aria-label="Sections"><ul>)");
  for (size_t i = 0; i < page.sections.size(); ++i) {
    html.put(R"(<li><a href="#s{}">{}</a></li>)", i + 1, escape(page.sections[i].heading));
  }
  html.put("</ul></nav>\n");
}

}  // namespace

// A blank line starts a new paragraph.
void add(Html& html, const Text& text) {
  for (size_t from = 0; from < text.paragraph.size();) {
    const size_t to = std::min(text.paragraph.find("\n\n", from), text.paragraph.size());
    html.put("<p>{}</p>", escape(std::string_view(text.paragraph).substr(from, to - from)));
    from = to + 2;
  }
}

void add(Html& html, const Table& table) {
  size_t columns = table.header.size();
  for (const auto& row : table.rows) columns = std::max(columns, row.size());
  std::vector<const char*> aligned;
  for (size_t j = 0; j < columns; ++j) {
    aligned.push_back(is_numeric(table, j) ? R"( class="num")" : "");
  }
  html.put(R"(<div class="scroll" role="region" aria-label="Table" tabindex="0"><table>)");
  if (!table.header.empty()) {
    html.put("<thead><tr>");
    for (size_t j = 0; j < table.header.size(); ++j) {
      html.put(R"(<th scope="col"{}>{}</th>)", aligned[j], escape(table.header[j]));
    }
    html.put("</tr></thead>");
  }
  html.put("<tbody>");
  for (const std::vector<std::string>& row : table.rows) {
    html.put("<tr>");
    for (size_t j = 0; j < columns; ++j) {
      html.put("<td{}>{}</td>", aligned[j], j < row.size() ? escape(row[j]) : "");
    }
    html.put("</tr>");
  }
  html.put("</tbody></table></div>");
}

std::string to_html(const Page& page) {
  Html html;
  add_head(html, page);
  html.put("<body>\n<main>\n");
  add_headline(html, page);
  add_contents(html, page);
  for (size_t i = 0; i < page.sections.size(); ++i) {
    html.put("<section id=\"s{0}\" aria-labelledby=\"h{0}\"><h2 id=\"h{0}\">{1}</h2>\n", i + 1,
             escape(page.sections[i].heading));
    for (const auto& block : page.sections[i].blocks) {
      std::visit([&](const auto& part) { add(html, part); }, block);
      html.put("\n");
    }
    html.put("</section>\n");
  }
  html.put("</main>\n<footer>Fovea {}</footer>\n", version());
  html.put("<script type=\"application/json\" id=\"figures\">{}</script>\n<script>\n{}</script>\n",
           for_script(html.figures().dump(-1, ' ', false,
                                          nlohmann::ordered_json::error_handler_t::replace)),
           files::page_js);
  html.put("</body>\n</html>\n");
  return html.text();
}

}  // namespace fovea::report
