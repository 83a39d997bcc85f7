#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "fovea/error.h"
#include "report/files.h"
#include "report/label.h"
#include "report/packed.h"
#include "report/page.h"
#include "report/written.h"

// A kind of picture that the library does not have, in one file: a bar for each thing that was
// looked at, as long as it weighs.
namespace fovea::report {
namespace {

using Json = nlohmann::ordered_json;

struct Ranking {
  std::string title;
  std::vector<std::string> labels;
  std::vector<float> weights;
  static const PictureKind& kind();
};

constexpr double kRow = 22, kLeft = 120, kLongest = 300, kEdge = 16;

void check(const Picture& picture) {
  const auto& r = picture.get<Ranking>();
  if (r.labels.size() == r.weights.size()) return;
  throw Error("ranking",
              fmt::format("{} weights for {} labels", r.weights.size(), r.labels.size()));
}

std::string text(const Picture& picture, Ink, int width) {
  const auto& r = picture.get<Ranking>();
  std::string lines = visible(r.title) + "\n";
  for (size_t i = 0; i < r.labels.size(); ++i) {
    lines += padded(cut(visible(r.labels[i]), 12), 13);
    const int blocks = static_cast<int>(r.weights[i] * static_cast<float>(std::max(width - 20, 1)));
    for (int n = 0; n < blocks; ++n) lines += "█";
    lines += fmt::format(" {:.2f}\n", r.weights[i]);
  }
  return lines;
}

double height_of(const Ranking& r) { return kRow * static_cast<double>(r.labels.size() + 1); }

void put(Markup& svg, const Ranking& r, double y) {
  for (size_t i = 0; i < r.labels.size(); ++i, y += kRow) {
    svg.put(R"(<text x="{}" y="{:.1f}">{}</text>)", kEdge, y + 14,
            escape(cut(visible(r.labels[i]), 12)));
    svg.put(R"(<rect fill="#c8550a" x="{}" y="{:.1f}" width="{:.1f}" height="16"/>)", kLeft, y,
            kLongest * std::clamp(static_cast<double>(r.weights[i]), 0.0, 1.0));
  }
}

Drawing drawing(std::span<const Picture> all, Target) {
  Markup svg;
  double y = kEdge;
  for (const Picture& picture : all) {
    const auto& r = picture.get<Ranking>();
    svg.put(R"(<text class="title" x="{}" y="{:.1f}">{}</text>)", kEdge, y + 14,
            escape(visible(r.title)));
    put(svg, r, y + kRow);
    y += height_of(r) + kEdge;
  }
  return svg_file(kLeft + kLongest + kEdge, y, files::picture_css, svg.text());
}

void page(Html& html, std::span<const Picture> all) {
  for (const Picture& picture : all) {
    const auto& r = picture.get<Ranking>();
    html.put(R"(<figure class="ranking"><figcaption>{}</figcaption><svg viewBox="0 0 {} {}">)",
             escape(r.title), kLeft + kLongest + kEdge, height_of(r));
    put(html, r, 0);
    html.put("</svg></figure>");
  }
}

Json json(const Picture& picture) {
  const auto& r = picture.get<Ranking>();
  return {{"title", r.title}, {"labels", r.labels}, {"weights", r.weights}};
}

std::string csv(std::span<const Picture> all) {
  std::string lines = "picture,label,weight\r\n";
  for (const Picture& picture : all) {
    const auto& r = picture.get<Ranking>();
    for (size_t i = 0; i < r.labels.size(); ++i) {
      lines += fmt::format("{},{},{}\r\n", quoted(r.title), quoted(r.labels[i]), r.weights[i]);
    }
  }
  return lines;
}

Json pack(const Picture& picture, Numbers numbers) {
  const auto& r = picture.get<Ranking>();
  Json packed = {{"title", r.title}, {"labels", r.labels}};
  put_weights(packed, r.weights, numbers);
  return packed;
}

Picture unpack(const Json& packed) {
  return Ranking{packed.value("title", ""), packed.at("labels").get<std::vector<std::string>>(),
                 weights_in(packed)};
}

Picture example() { return Ranking{"the largest", {"3", "14"}, {0.25f, 0.75f}}; }

}  // namespace

extern const PictureKind picture_ranking = {
    .name = "ranking",
    .plural = "rankings",
    .about = "Where the model looked: a bar for each number, as long as it weighs.",
    .check = check,
    .text = text,
    .drawing = drawing,
    .json = json,
    .csv = csv,
    .page = page,
    .pack = pack,
    .unpack = unpack,
    .titled = with_title<Ranking>,
    .example = example,
};
const PictureKind& Ranking::kind() { return picture_ranking; }

}  // namespace fovea::report
