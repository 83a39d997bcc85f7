#include <fmt/format.h>

#include "fovea/error.h"
#include "image/svg.h"
#include "report/label.h"
#include "report/picture.h"

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

// Two pixels for each unit, so that letters are sharp, unless the picture is large without it.
std::string to_png(const std::vector<Heatmap>& given) {
  const std::vector<Heatmap> maps = drawable(given);
  constexpr double kManyPixels = 1 << 24;
  const Sheet sheet = sheet_of(maps);
  image::Drawing drawing{.svg = "", .width = sheet.width, .height = sheet.height, .scale = 2};
  if (4 * sheet.width * sheet.height > kManyPixels || !fits(drawing)) drawing.scale = 1;
  if (!fits(drawing)) {
    throw Error("write",
                fmt::format("{} heat-map{} would be a picture of {:.0f} × {:.0f} pixels, at most "
                            "{:.0f} on a side and {:.0f} million in all are drawn; write .svg or "
                            ".json instead, or fewer heat-maps",
                            maps.size(), maps.size() == 1 ? "" : "s", sheet.width, sheet.height,
                            image::kLargestSide, image::kMostPixels / 1e6));
  }
  const std::string svg = to_svg(sheet, Hints::no);
  drawing.svg = svg;
  return image::to_png(drawing);
}

}  // namespace fovea::report
