#include "report/written.h"

#include <fmt/format.h>

#include "fovea/error.h"
#include "image/svg.h"
#include "io/atomic_file.h"

namespace fovea::report {

std::string dump(const nlohmann::ordered_json& json) {
  return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

void write_file(const std::filesystem::path& path, const std::string& bytes) {
  AtomicFile file(path);
  file.write(bytes.data(), bytes.size());
  file.commit();
}

double png_scale(double width, double height, const std::string& what) {
  constexpr double kManyPixels = 1 << 24;
  image::Drawing drawing{.svg = "", .width = width, .height = height, .scale = 2};
  if (4 * width * height > kManyPixels || !fits(drawing)) drawing.scale = 1;
  if (fits(drawing)) return drawing.scale;
  throw Error("write",
              fmt::format("{} would be a picture of {:.0f} × {:.0f} pixels, at most {:.0f} on a "
                          "side and {:.0f} million in all are drawn; write .svg or .json instead, "
                          "or fewer of them",
                          what, width, height, image::kLargestSide, image::kMostPixels / 1e6));
}

}  // namespace fovea::report
