#include <algorithm>

#include "fovea/error.h"
#include "image/svg.h"
#include "report/files.h"
#include "report/label.h"
#include "report/plot.h"
#include "report/written.h"

// Charts as files of their own, one below the other.
namespace fovea::report {
namespace {

constexpr double kChartMargin = 16, kWidth = 816, kChartLine = 20, kKey = 24, kChartLetter = 7;

struct ChartBody {
  std::string svg;
  double height;
};

// The names of the curves behind a stroke of theirs; gives the height.
double put_keys(Markup& svg, const Plot& plot, double y) {
  double x = 0;
  for (size_t i = 0; i < plot.names.size(); ++i) {
    const std::string name = visible(plot.names[i]);
    const double width = kKey + kChartLetter * drawn_columns_of(name) + kChartMargin;
    if (x > 0 && x + width > kWidth) x = 0, y += kChartLine;
    svg.put(R"(<path class="line key {}" d="M{:.1f} {:.1f}h18"/>)", series_class(i), x, y + 10);
    svg.put(R"(<text x="{:.1f}" y="{:.1f}">{}</text>)", x + kKey, y + 14, escape(name));
    x += width;
  }
  return y + kChartLine;
}

ChartBody body_of(const Chart& chart) {
  const Plot plot = plot_of(chart);
  Markup svg;
  svg.put(R"(<text class="title" x="0" y="14">{}</text>)", escape(visible(chart.y)));
  const double top = put_keys(svg, plot, kChartLine + 4);
  if (plot.xs.empty()) {
    svg.put(R"(<text class="none" x="0" y="{:.1f}">nothing to draw</text>)", top + 14);
    return {svg.text(), top + kChartLine};
  }
  const Frame at = frame_of(plot, kWidth);
  svg.put(R"x(<g transform="translate(0 {:.1f})">)x", top);
  put_axes(svg, at, plot);
  put_lines(svg, at, plot);
  svg.put("</g>");
  return {svg.text(), top + at.bottom()};
}

Drawing file_of(const std::vector<Chart>& charts) {
  Markup body;
  double y = kChartMargin;
  for (const Chart& chart : charts) {
    const ChartBody one = body_of(chart);
    body.put("<g transform=\"translate({} {:.1f})\" role=\"img\" aria-label=\"{}\">{}</g>\n",
             kChartMargin, y, escape(visible(chart.y)), one.svg);
    y += one.height + kChartMargin;
  }
  return svg_file(kWidth + 2 * kChartMargin, y, files::chart_css, body.text());
}

}  // namespace

std::string to_svg(const std::vector<Chart>& charts) { return file_of(charts).svg; }

std::string to_png(const std::vector<Chart>& charts) {
  const Drawing file = file_of(charts);
  return image::to_png({.svg = file.svg, .width = file.width, .height = file.height, .scale = 2});
}

void write(const std::filesystem::path& path, const std::vector<Chart>& charts) {
  const PictureFormat format = picture_format(path);
  if (format == PictureFormat::json || format == PictureFormat::csv) {
    throw Error("write", path.string() + ": a chart is drawn as .svg or .png");
  }
  const std::string bytes = format == PictureFormat::svg ? to_svg(charts) : to_png(charts);
  write_file(path, bytes);
}

}  // namespace fovea::report
