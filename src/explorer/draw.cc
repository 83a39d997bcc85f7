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
  for (const report::SeenImage& seen : d.images) {
    for (const report::SeenImage::Look& look : seen.looks) {
      const auto columns = static_cast<size_t>(seen.columns);
      for (size_t n = 0; n < look.weights.size(); ++n) {
        text += fmt::format("{},{},\"{}, {}\",{}\r\n", quoted(seen.title), quoted(look.label),
                            n / columns + 1, n % columns + 1, look.weights[n]);
      }
    }
  }
  return text;
}

// A line for each glimpse: where it was, what was said then and how likely each class was.
std::string to_csv(const std::vector<report::Scanpath>& paths) {
  std::string text = "picture,glimpse,x,y,side,said";
  for (const std::string& name : paths.front().classes) text += ',' + quoted(name);
  text += "\r\n";
  for (const report::Scanpath& path : paths) {
    for (size_t t = 0; t < path.glimpses.size(); ++t) {
      const report::Scanpath::Glimpse& g = path.glimpses[t];
      text += fmt::format("{},{},{},{},{},{}", quoted(path.title), t + 1, g.x, g.y,
                          g.sides.empty() ? 0 : g.sides.front(), quoted(g.said));
      for (const float share : g.shares) text += fmt::format(",{}", share);
      text += "\r\n";
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
  report::SeenImages seen;
  for (const report::SeenImage& image : d.images) seen.items.push_back({image.title, image});
  if (!seen.items.empty()) s.blocks.emplace_back(seen);
  if (!d.paths.empty()) s.blocks.emplace_back(report::Scanpaths{d.paths});
  page.sections.push_back(s);
  return report::to_html(page);
}

std::string to_list(const Drawn& d) {
  Json list = Json::array();
  for (const report::Heatmap& m : d.maps) list.push_back(Json::parse(report::to_json(m)));
  for (const report::ShadedText& t : d.texts) list.push_back(Json::parse(report::to_json(t)));
  for (const report::SeenImage& i : d.images) list.push_back(Json::parse(report::to_json(i)));
  for (const report::Scanpath& p : d.paths) list.push_back(Json::parse(report::to_json(p)));
  return list.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string to_svg(const Drawn& d) {
  return !d.maps.empty()     ? report::to_svg(d.maps)
         : !d.texts.empty()  ? report::to_svg(d.texts)
         : !d.images.empty() ? report::drawing_of(d.images).svg
                             : report::drawing_of(d.paths).svg;
}

std::string to_png(const Drawn& d) {
  return !d.maps.empty()     ? report::to_png(d.maps)
         : !d.texts.empty()  ? report::to_png(d.texts)
         : !d.images.empty() ? report::to_png(d.images)
                             : report::to_png(d.paths);
}

template <class T>
void take_all(const Json& asked, const char* kind, T (*from)(const Json&), std::vector<T>& to) {
  for (const Json& j : asked.value(kind, Json::array())) to.push_back(from(j));
}

}  // namespace

Drawn drawn_from(const Json& asked) {
  Drawn d;
  take_all(asked, "maps", heatmap_from, d.maps);
  take_all(asked, "texts", shaded_from, d.texts);
  take_all(asked, "images", seen_from, d.images);
  take_all(asked, "paths", path_from, d.paths);
  return d;
}

Response draw(const Drawn& d, const std::string& format) {
  if (d.maps.empty() && d.texts.empty() && d.images.empty() && d.paths.empty()) {
    throw Error("draw", "there is nothing to draw");
  }
  const auto file = [&](const char* type, std::string body) {
    return Response{.type = type,
                    .body = std::move(body),
                    .headers = {{"Content-Disposition",
                                 fmt::format("attachment; filename=\"fovea.{}\"", format)}}};
  };
  if (format == "csv") {
    return file("text/csv; charset=utf-8", d.paths.empty() ? to_csv(d) : to_csv(d.paths));
  }
  if (format == "json") return file("application/json", to_list(d));
  if (format == "html") return file("text/html; charset=utf-8", to_page(d));
  if (format == "svg") return file("image/svg+xml", to_svg(d));
  if (format == "png") return file("image/png", to_png(d));
  throw NotThere{fmt::format("no format '{}'; there are svg, png, json, csv, html", format)};
}

}  // namespace fovea::explorer
