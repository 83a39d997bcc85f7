#include "report/written.h"

#include <fmt/format.h>

#include "fovea/error.h"
#include "image/svg.h"
#include "io/atomic_file.h"

namespace fovea::report {

std::string dump(const nlohmann::ordered_json& json) {
  return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

std::string quoted(const std::string& cell) {
  std::string text = "\"";
  for (const char c : cell) text += c == '"' ? std::string("\"\"") : std::string(1, c);
  return text + '"';
}

void write_file(const std::filesystem::path& path, const std::string& bytes) {
  AtomicFile file(path);
  file.write(bytes.data(), bytes.size());
  file.commit();
}

Drawing svg_file(double width, double height, std::string_view style, const std::string& body) {
  return {fmt::format("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:g} {1:g}\" "
                      "width=\"{0:g}\" height=\"{1:g}\">\n<style>{2}</style>\n<rect "
                      "class=\"paper\" width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n{3}</svg>\n",
                      width, height, style, body),
          width, height};
}

double png_scale(double width, double height, const std::string& what) {
  constexpr double kManyPixels = 1 << 24;
  image::SvgDrawing drawing{.svg = "", .width = width, .height = height, .scale = 2};
  if (4 * width * height > kManyPixels || !fits(drawing)) drawing.scale = 1;
  if (fits(drawing)) return drawing.scale;
  throw Error("write",
              fmt::format("{} would be a picture of {:.0f} × {:.0f} pixels, at most {:.0f} on a "
                          "side and {:.0f} million in all are drawn; write .svg or .json instead, "
                          "or fewer of them",
                          what, width, height, image::kLargestSide, image::kMostPixels / 1e6));
}

}  // namespace fovea::report
