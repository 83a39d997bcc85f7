#include <fmt/format.h>

#include "explorer/answers.h"
#include "fovea/error.h"
#include "report/picture.h"
#include "report/shaded.h"

// What the page shows as a file, drawn by the code behind the commands.
namespace fovea::explorer {
namespace {

std::string quoted(const std::string& cell) {
  std::string text = "\"";
  for (const char c : cell) text += c == '"' ? std::string("\"\"") : std::string(1, c);
  return text + '"';
}

// row, column and weight, a line each: what spreadsheets take apart by themselves.
std::string to_csv(const Drawn& d) {
  std::string text = "picture,row,column,weight\r\n";
  for (const report::Heatmap& m : d.maps) {
    for (size_t i = 0; i < m.rows.size(); ++i) {
      for (size_t j = 0; j < m.columns.size(); ++j) {
        text += fmt::format("{},{},{},{}\r\n", quoted(m.title), quoted(m.rows[i]),
                            quoted(m.columns[j]), m.weights[i * m.columns.size() + j]);
      }
    }
  }
  for (const report::ShadedText& t : d.texts) {
    for (size_t i = 0; i < t.lines.size(); ++i) {
      const report::ShadedText::Line& l = t.lines[i];
      for (size_t j = 0; j < l.words.size(); ++j) {
        text += fmt::format("{},{},{},{}\r\n", quoted(t.title), i + 1, quoted(l.words[j]),
                            report::weight_in_text(l, j));
      }
    }
  }
  return text;
}

std::string to_page(const Drawn& d) {
  report::Page page{.title = "Where it looked"};
  report::Section s{"Pictures", {}};
  if (!d.maps.empty()) {
    report::Gallery gallery;
    for (const report::Heatmap& m : d.maps) gallery.items.push_back({m.title, m});
    s.blocks.emplace_back(gallery);
  }
  if (!d.texts.empty()) s.blocks.emplace_back(report::ShadedTexts{d.texts});
  page.sections.push_back(s);
  return report::to_html(page);
}

std::string to_list(const Drawn& d) {
  Json list = Json::array();
  for (const report::Heatmap& m : d.maps) list.push_back(Json::parse(report::to_json(m)));
  for (const report::ShadedText& t : d.texts) list.push_back(Json::parse(report::to_json(t)));
  return list.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace

Response draw(const Drawn& d, const std::string& format) {
  if (d.maps.empty() && d.texts.empty()) throw Error("draw", "there is nothing to draw");
  const auto file = [&](const char* type, std::string body) {
    return Response{.type = type,
                    .body = std::move(body),
                    .headers = {{"Content-Disposition",
                                 fmt::format("attachment; filename=\"fovea.{}\"", format)}}};
  };
  if (format == "csv") return file("text/csv; charset=utf-8", to_csv(d));
  if (format == "json") return file("application/json", to_list(d));
  if (format == "html") return file("text/html; charset=utf-8", to_page(d));
  if (format == "svg") {
    return file("image/svg+xml", d.maps.empty() ? report::to_svg(d.texts) : report::to_svg(d.maps));
  }
  if (format == "png") {
    return file("image/png", d.maps.empty() ? report::to_png(d.texts) : report::to_png(d.maps));
  }
  throw NotThere{fmt::format("no format '{}'; there are svg, png, json, csv, html", format)};
}

}  // namespace fovea::explorer
