#include <fmt/format.h>

#include "explorer/answers.h"
#include "fovea/error.h"
#include "report/packed.h"

// What the page shows as a file, drawn by the code behind the commands.
namespace fovea::explorer {
namespace {

using Pictures = std::vector<report::Picture>;

std::string to_list(const Pictures& pictures) {
  Json list = Json::array();
  for (const report::Picture& p : pictures) list.push_back(p.kind().json(p));
  return list.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string to_page(const Pictures& pictures) {
  return report::to_html(
      {.title = "Where it looked", .sections = {{"Pictures", {report::Pictures{pictures}}}}});
}

struct Format {
  const char *name, *type;
  std::string (*file)(const Pictures&);
};
constexpr Format kFormats[] = {{"svg", "image/svg+xml", report::to_svg},
                               {"png", "image/png", report::to_png},
                               {"json", "application/json", to_list},
                               {"csv", "text/csv; charset=utf-8", report::to_csv},
                               {"html", "text/html; charset=utf-8", to_page}};

}  // namespace

Json packed(const Pictures& pictures) {
  Json list = Json::array();
  for (const report::Picture& p : pictures) list.push_back(report::packed(p));
  return list;
}

Response draw(const Json& asked, const std::string& format) {
  Pictures pictures;
  for (const Json& j : asked.at("pictures")) pictures.push_back(report::unpacked(j));
  if (pictures.empty()) throw Error("draw", "there is nothing to draw");
  for (const Format& f : kFormats) {
    if (f.name != format) continue;
    return {.type = f.type,
            .body = f.file(pictures),
            .headers = {
                {"Content-Disposition", fmt::format("attachment; filename=\"fovea.{}\"", format)}}};
  }
  throw NotThere{fmt::format("no format '{}'; there are svg, png, json, csv, html", format)};
}

}  // namespace fovea::explorer
