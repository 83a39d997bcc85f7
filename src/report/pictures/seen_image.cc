#include "report/seen_image.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "fovea/error.h"
#include "image/image_file.h"
#include "io/json.h"
#include "report/drawing.h"
#include "report/files.h"
#include "report/label.h"
#include "report/packed.h"
#include "report/page.h"
#include "report/written.h"

namespace fovea::report {
namespace {

using Json = nlohmann::ordered_json;

void check(const Picture& picture) {
  const auto& seen = picture.get<SeenImage>();
  // By division: rows and columns may come from a request, and their product overflow.
  const auto covers = [&](int64_t n) {
    return seen.rows > 0 && n % seen.rows == 0 && n / seen.rows == seen.columns;
  };
  for (const SeenImage::Look& look : seen.looks) {
    const auto found = static_cast<int64_t>(look.weights.size());
    if (found == 0 || covers(found)) continue;
    throw Error("seen", fmt::format("'{}' has {} weights for {} × {} places", look.label, found,
                                    seen.rows, seen.columns));
  }
  if (seen.between.empty()) return;
  const auto places = static_cast<int64_t>(std::sqrt(static_cast<double>(seen.between.size())));
  if (places * places == static_cast<int64_t>(seen.between.size()) && covers(places)) return;
  throw Error("seen", fmt::format("{} weights between {} × {} places", seen.between.size(),
                                  seen.rows, seen.columns));
}

// The weight that gets the full colour: the largest; around 0, the one of the largest size.
double full_weight(const SeenImage::Look& look, Scale scale) {
  double most = 0;
  for (const float w : look.weights) {
    if (!std::isfinite(w)) continue;
    const auto x = static_cast<double>(w);
    most = std::max(most, scale == Scale::from_zero ? x : std::abs(x));
  }
  return most > 0 ? most : 1;
}

// ---- In a terminal ------------------------------------------------------------------------------

constexpr int64_t kMost = 16;  // rows and columns of a look
constexpr int kCell = 2;       // columns of the terminal that a place takes
constexpr int kBetween = 2;    // looks

// A look whose places are `side` times as wide and high: sums.
SeenImage::Look coarser(const SeenImage& seen, const SeenImage::Look& look, int64_t side) {
  const int64_t columns = (seen.columns + side - 1) / side, rows = (seen.rows + side - 1) / side;
  SeenImage::Look found{look.label, std::vector<float>(static_cast<size_t>(rows * columns))};
  for (int64_t n = 0; n < seen.rows * seen.columns; ++n) {
    const int64_t place = n / seen.columns / side * columns + n % seen.columns / side;
    found.weights[static_cast<size_t>(place)] += look.weights[static_cast<size_t>(n)];
  }
  return found;
}

std::string text(const Picture& picture, Ink ink, int width) {
  const auto& seen = picture.get<SeenImage>();
  const int64_t side = (std::max(seen.rows, seen.columns) + kMost - 1) / kMost;
  std::vector<SeenImage::Look> looks;
  for (const SeenImage::Look& look : seen.looks) {
    if (!look.weights.empty()) looks.push_back(coarser(seen, look, side));
  }
  const auto columns = static_cast<size_t>((seen.columns + side - 1) / side),
             rows = static_cast<size_t>((seen.rows + side - 1) / side);
  const int wide = static_cast<int>(columns) * kCell;
  const auto across = static_cast<size_t>(std::max((width + kBetween) / (wide + kBetween), 1));
  std::string text = seen.title.empty() ? "" : visible(seen.title) + "\n";
  for (size_t begin = 0; begin < looks.size(); begin += across) {
    const size_t end = std::min(begin + across, looks.size());
    for (size_t n = begin; n < end; ++n) {
      const std::string label = cut(visible(looks[n].label), wide);
      text += n + 1 == end ? label : padded(label, wide + kBetween);
    }
    text += "\n";
    for (size_t y = 0; y < rows; ++y) {
      for (size_t n = begin; n < end; ++n) {
        const auto full = static_cast<float>(full_weight(looks[n], seen.scale));
        for (size_t x = 0; x < columns; ++x) {
          const float share = looks[n].weights[y * columns + x] / full;
          text += cell_of(seen.scale == Scale::from_zero ? std::max(share, 0.0f) : share, ink);
        }
        if (n + 1 < end) text += std::string(kBetween, ' ');
      }
      text += "\n";
    }
    if (end < looks.size()) text += "\n";
  }
  return text;
}

// ---- As a drawing: sheets of panels -------------------------------------------------------------

constexpr double kPanel = 132, kSeenGap = 14, kSeenLine = 20, kSmall = 16, kSeenMargin = 16;
constexpr size_t kAcross = 6, kLeast = 3;  // panels of a row, and room for the legend
constexpr int kDarks = 12;                 // shades of what was not looked at
constexpr double kDarkest = 0.8;           // how much of it is hidden
constexpr double kOutline = 1.5;           // of what was looked at, in units of the drawing
constexpr double kPale = 0.6, kInk = 0.9;  // what hides the image below signed weights, and these

// In nats; weights that do not sum to 1 are taken as shares.
double entropy_of(const std::vector<float>& weights) {
  double sum = 0, h = 0;
  for (const float w : weights) sum += std::isfinite(w) ? std::max(w, 0.0f) : 0;
  for (const float w : weights) {
    if (w > 0 && std::isfinite(w)) h -= w / sum * std::log(w / sum);
  }
  return h;
}

void put_small(Markup& svg, double x, double y, const std::string& text) {
  svg.put(R"(<text class="muted" style="font-size:12px" x="{:.1f}" y="{:.1f}">{}</text>)", x, y,
          escape(text));
}

// One path for each shade, in units of a cell.
void put_darkness(Markup& svg, const SeenImage& seen, const SeenImage::Look& look) {
  const double full = full_weight(look, seen.scale);
  std::array<std::string, kDarks + 1> paths;
  for (size_t n = 0; n < look.weights.size(); ++n) {
    const double share = std::clamp(static_cast<double>(look.weights[n]) / full, 0.0, 1.0);
    const auto dark =
        static_cast<size_t>(std::lround((1 - (std::isnan(share) ? 0 : share)) * kDarks));
    const auto columns = static_cast<size_t>(seen.columns);
    paths[dark] += fmt::format("M{} {}h1v1h-1z", n % columns, n / columns);
  }
  for (size_t dark = 1; dark < paths.size(); ++dark) {
    if (paths[dark].empty()) continue;
    svg.put(R"(<path fill="#000" fill-opacity="{:.3f}" d="{}"/>)",
            kDarkest * static_cast<double>(dark) / kDarks, paths[dark]);
  }
}

// Around the places that have half of the largest weight or more, so that they are found on any
// image; in units of a cell, as `width` is.
void put_outline(Markup& svg, const SeenImage& seen, const SeenImage::Look& look, double width) {
  const double half = full_weight(look, seen.scale) / 2;
  const auto inside = [&](int64_t y, int64_t x) {
    return y >= 0 && x >= 0 && y < seen.rows && x < seen.columns &&
           static_cast<double>(look.weights[static_cast<size_t>(y * seen.columns + x)]) >= half;
  };
  std::string edges;
  for (int64_t y = 0; y <= seen.rows; ++y) {
    for (int64_t x = 0; x <= seen.columns; ++x) {
      if (inside(y, x) != inside(y - 1, x)) edges += fmt::format("M{} {}h1", x, y);
      if (inside(y, x) != inside(y, x - 1)) edges += fmt::format("M{} {}v1", x, y);
    }
  }
  svg.put(R"(<path fill="none" stroke="#35c8ff" stroke-width="{:.3f}" d="{}"/>)", width, edges);
}

// The same for signed weights, over a veil.
void put_signs(Markup& svg, const SeenImage& seen, const SeenImage::Look& look) {
  const double full = full_weight(look, seen.scale);
  std::array<std::string, 2 * kDarks + 1> paths;
  for (size_t n = 0; n < look.weights.size(); ++n) {
    const double share = std::clamp(static_cast<double>(look.weights[n]) / full, -1.0, 1.0);
    const auto at = std::lround((std::isnan(share) ? 0 : share) * kDarks) + kDarks;
    const auto columns = static_cast<size_t>(seen.columns);
    paths[static_cast<size_t>(at)] += fmt::format("M{} {}h1v1h-1z", n % columns, n / columns);
  }
  svg.put(R"(<rect fill="#fff" fill-opacity="{:.1f}" width="{}" height="{}"/>)", kPale,
          seen.columns, seen.rows);
  for (size_t at = 0; at < paths.size(); ++at) {
    const int sign = static_cast<int>(at) - kDarks;
    if (sign == 0 || paths[at].empty()) continue;
    svg.put(R"(<path fill="{}" fill-opacity="{:.3f}" d="{}"/>)",
            hex(signed_colour_of(sign > 0 ? 0.7 : -0.7, Background::white)),
            kInk * std::abs(sign) / kDarks, paths[at]);
  }
}

struct Frame {
  double width, height;  // of a panel's image
};

Frame frame_of(const SeenImage& seen) {
  const double tall = static_cast<double>(seen.image.height),
               wide = static_cast<double>(seen.image.width), scale = kPanel / std::max(tall, wide);
  return {wide * scale, tall * scale};
}

void put_panel(Markup& svg, const SeenImage& seen, const SeenImage::Look& look,
               const std::string& pixels, double x, double y) {
  const Frame f = frame_of(seen);
  const bool signs = seen.scale == Scale::around_zero;
  svg.put(R"x(<g transform="translate({:.1f} {:.1f})"><image width="{:.1f}" height="{:.1f}" )x"
          R"(preserveAspectRatio="none" href="{}"/>)",
          x, y, f.width, f.height, pixels);
  if (!look.weights.empty()) {
    svg.put(R"x(<g shape-rendering="crispEdges" transform="scale({:.4f} {:.4f})">)x",
            f.width / static_cast<double>(seen.columns), f.height / static_cast<double>(seen.rows));
    if (signs) {
      put_signs(svg, seen, look);
    } else {
      put_darkness(svg, seen, look);
      put_outline(svg, seen, look, kOutline * static_cast<double>(seen.columns) / f.width);
    }
    svg.put("</g>");
  }
  const double scale = f.width / static_cast<double>(seen.image.width);
  for (const SeenImage::Box& box : look.boxes) {
    svg.put(R"(<rect fill="none" stroke="{}" stroke-width="2" x="{:.1f}" y="{:.1f}" )"
            R"(width="{:.1f}" height="{:.1f}"/>)",
            signs ? "#333" : "#f5a623", box.left * scale, box.top * scale, box.width * scale,
            box.height * scale);
  }
  svg.put(R"(<text x="0" y="{:.1f}">{}</text>)", f.height + 15,
          escape(cut(visible(look.label), 16)));
  if (!look.weights.empty()) {
    const double most = full_weight(look, seen.scale);
    const double below = f.height + 15 + kSmall;
    put_small(svg, 0, below, fmt::format("maximum {}{:.2g}", signs ? "±" : "", most));
    if (!signs) {
      put_small(svg, 0, below + kSmall, fmt::format("entropy {:.3g}", entropy_of(look.weights)));
    }
  }
  svg.put("</g>");
}

// What bright and dark mean, and what would be said of weights that are all the same.
double put_legend(Markup& svg, const SeenImage& seen, double y) {
  const auto places = static_cast<double>(seen.rows * seen.columns);
  if (seen.scale == Scale::around_zero) {
    put_small(svg, kSeenMargin, y + kSmall,
              "orange: for it; blue: against it, each to its largest");
    return y + kSmall;
  }
  put_small(svg, kSeenMargin, y + kSmall,
            "bright: each picture's largest weight; blue: half of it");
  put_small(svg, kSeenMargin, y + 2 * kSmall,
            fmt::format("{} places; equal weights: {:.2g}, entropy {:.3g} nats", places, 1 / places,
                        std::log(places)));
  return y + 2 * kSmall;
}

// Gives where the next sheet begins.
double put_sheet(Markup& svg, const SeenImage& seen, double y) {
  const auto embedded = [](const image::Image& x) { return "data:image/png;base64," + packed(x); };
  const std::string pixels = embedded(seen.image),
                    below = seen.scale == Scale::from_zero
                                ? pixels
                                : embedded(image::with_channels(seen.image, 1));
  if (!seen.title.empty()) {
    svg.put(R"(<text class="title" x="{}" y="{:.1f}">{}</text>)", kSeenMargin, y + 14,
            escape(cut(visible(seen.title), 100)));
    y += kSeenLine + 6;
  }
  std::vector<SeenImage::Look> panels = seen.looks;
  panels.insert(panels.begin(), SeenImage::Look{});
  const double down = frame_of(seen).height + kSeenLine + 2 * kSmall + kSeenGap;
  for (size_t n = 0; n < panels.size(); ++n) {
    put_panel(svg, seen, panels[n], n == 0 ? pixels : below,
              kSeenMargin + (kPanel + kSeenGap) * double(n % kAcross),
              y + down * double(n / kAcross));
  }
  y += down * double((panels.size() + kAcross - 1) / kAcross);
  return (seen.looks.empty() ? y : put_legend(svg, seen, y)) + kSeenGap;
}

// The sheets, without the paper they lie on.
Drawing sheets_of(std::span<const Picture> images) {
  Markup body;
  size_t across = kLeast;
  double y = kSeenMargin;
  for (const Picture& picture : images) {
    const auto& seen = picture.get<SeenImage>();
    across = std::max(across, std::min(seen.looks.size() + 1, kAcross));
    y = put_sheet(body, seen, y);
  }
  return {body.text(),
          2 * kSeenMargin + static_cast<double>(across) * (kPanel + kSeenGap) - kSeenGap, y};
}

Drawing drawing(std::span<const Picture> images, Target) {
  const Drawing d = sheets_of(images);
  return svg_file(d.width, d.height, files::picture_css, d.svg);
}

// On a page the style is the page's, and the sheet shrinks with it.
void page(Html& html, std::span<const Picture> images) {
  for (const Picture& picture : images) {
    const std::string caption = escape(picture.get<SeenImage>().title);
    const Picture untitled = with_title<SeenImage>(picture, "");
    const Drawing d = sheets_of({&untitled, 1});
    html.put(R"(<figure class="seen"><figcaption dir="auto">{}</figcaption>)"
             R"(<div class="scroll" style="max-width:{:.0f}px" role="img" aria-label="{}">)",
             caption, d.width, caption);
    html.put(R"(<svg viewBox="0 0 {:g} {:g}">{}</svg></div></figure>)"
             "\n",
             d.width, d.height, d.svg);
  }
}

std::string caption(const Answered& a) {
  const bool right = a.output == a.expected;
  return fmt::format("{} {}{}", right ? "✓" : "✗", a.output,
                     right ? "" : "; expected: " + a.expected);
}

// ---- As data ------------------------------------------------------------------------------------

Json json(const Picture& picture) {
  const auto& seen = picture.get<SeenImage>();
  Json looks = Json::array();
  for (const SeenImage::Look& look : seen.looks) {
    Json rows = Json::array();
    for (size_t n = 0; n < look.weights.size(); n += static_cast<size_t>(seen.columns)) {
      const auto from = look.weights.begin() + static_cast<int64_t>(n);
      rows.push_back(std::vector<float>(from, from + seen.columns));
    }
    Json& one = looks.emplace_back(Json{{"label", look.label}, {"weights", rows}});
    for (const SeenImage::Box& b : look.boxes) {
      one["boxes"].push_back({b.left, b.top, b.width, b.height});
    }
  }
  return {{"title", seen.title}, {"height", seen.image.height}, {"width", seen.image.width},
          {"rows", seen.rows},   {"columns", seen.columns},     {"looks", looks}};
}

std::string csv(std::span<const Picture> images) {
  std::string text = kCellNames;
  for (const Picture& picture : images) {
    const auto& seen = picture.get<SeenImage>();
    const auto columns = static_cast<size_t>(seen.columns);
    for (size_t i = 0; i < seen.looks.size(); ++i) {
      const SeenImage::Look& look = seen.looks[i];
      for (size_t n = 0; n < look.weights.size(); ++n) {
        text += fmt::format("{},{},\"{}, {}\",{},{},{}\r\n", quoted(seen.title), quoted(look.label),
                            n / columns + 1, n % columns + 1, look.weights[n], i + 1, n + 1);
      }
    }
  }
  return text;
}

Json pack(const Picture& picture, Numbers numbers) {
  const auto& seen = picture.get<SeenImage>();
  Json looks = Json::array();
  for (const SeenImage::Look& look : seen.looks) {
    Json& one = looks.emplace_back(Json{{"label", look.label}});
    put_weights(one, look.weights, numbers);
    Json& boxes = one["boxes"] = Json::array();
    for (const SeenImage::Box& b : look.boxes) {
      boxes.push_back({b.left, b.top, b.width, b.height});
    }
  }
  Json json = {{"title", seen.title},
               {"image", packed(seen.image)},
               {"height", seen.image.height},
               {"width", seen.image.width},
               {"rows", seen.rows},
               {"columns", seen.columns},
               {"looks", looks}};
  put_scale(json, seen.scale);
  if (!seen.between.empty()) put_weights(json["between"], seen.between, numbers);
  return json;
}

Picture unpack(const Json& json) {
  SeenImage seen{.title = json.value("title", ""),
                 .image = image_in(json.at("image").get<std::string>()),
                 .rows = whole_number(json.at("rows")),
                 .columns = whole_number(json.at("columns")),
                 .scale = scale_in(json)};
  for (const Json& look : json.at("looks")) {
    SeenImage::Look& one = seen.looks.emplace_back();
    one.label = look.at("label").get<std::string>();
    one.weights = weights_in(look);
    for (const Json& box : look.value("boxes", Json::array())) {
      const auto b = box.get<std::array<double, 4>>();
      one.boxes.push_back({b[0], b[1], b[2], b[3]});
    }
  }
  if (json.contains("between")) seen.between = weights_in(json.at("between"));
  return seen;
}

Picture example() {
  SeenImage seen{.title = "a red circle", .image = {2, 3, 3}, .rows = 2, .columns = 3};
  seen.image.pixels.assign(18, 1.0f);
  seen.looks.push_back({"red", {0, 0, 0, 0, 0.25f, 0.75f}, {{0, 0, 1, 1}}});
  return seen;
}

}  // namespace

extern const PictureKind picture_seen_image = {
    .name = "seen_image",
    .plural = "images",
    .about =
        "Where the model looked: the image, and once more for each look, dark where its "
        "attention was not.",
    .caption = caption,
    .check = check,
    .text = text,
    .drawing = drawing,
    .json = json,
    .csv = csv,
    .page = page,
    .pack = pack,
    .unpack = unpack,
    .titled = with_title<SeenImage>,
    .example = example,
};
const PictureKind& SeenImage::kind() { return picture_seen_image; }

}  // namespace fovea::report
