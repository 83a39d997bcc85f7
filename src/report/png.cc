#include <fmt/format.h>

#include "image/svg.h"
#include "report/label.h"
#include "report/picture.h"
#include "report/written.h"

namespace fovea::report {
namespace {

// librsvg fills the outlines of letters; of a font of pictures that leaves silhouettes.
std::vector<Heatmap> drawable(std::vector<Heatmap> maps) {
  for (Heatmap& map : maps) {
    map.title = without_pictures(map.title);
    for (std::string& label : map.rows) label = without_pictures(label);
    for (std::string& label : map.columns) label = without_pictures(label);
  }
  return maps;
}

}  // namespace

std::string to_png(const std::vector<Heatmap>& given) {
  const std::vector<Heatmap> maps = drawable(given);
  const Sheet sheet = sheet_of(maps);
  const double scale =
      png_scale(sheet.width, sheet.height,
                fmt::format("{} heat-map{}", maps.size(), maps.size() == 1 ? "" : "s"));
  const std::string svg = to_svg(sheet, Hints::no);
  return image::to_png({svg, sheet.width, sheet.height, scale});
}

}  // namespace fovea::report
