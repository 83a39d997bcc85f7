#include "report/picture.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "fovea/error.h"
#include "image/svg.h"
#include "report/page.h"
#include "report/written.h"

// What is done with pictures of any kind.
namespace fovea::report {
namespace {

using Json = nlohmann::ordered_json;

// Neighbours of one kind, a group after the other.
template <class F>
void for_each_kind(std::span<const Picture> pictures, F f) {
  for (size_t from = 0, to = 0; from < pictures.size(); from = to) {
    const PictureKind& kind = pictures[from].kind();
    while (to < pictures.size() && &pictures[to].kind() == &kind) ++to;
    f(kind, pictures.subspan(from, to - from));
  }
}

Drawing drawing_of(const std::vector<Picture>& pictures, Target target) {
  if (pictures.empty()) throw Error("write", "there is no picture to draw");
  const PictureKind& kind = pictures.front().kind();
  for (const Picture& p : pictures) {
    if (&p.kind() == &kind) continue;
    throw Error("write", fmt::format("{} and {} make no one picture: write FILE.html or .json",
                                     kind.plural, p.kind().plural));
  }
  return kind.drawing(pictures, target);
}

}  // namespace

void Picture::check() const { kind_->check(*this); }

void Picture::expect(const PictureKind& kind) const {
  if (kind_ == &kind) return;
  throw Error("picture", fmt::format("expected a {}, found a {}", kind.name, kind_->name));
}

const PictureKind& picture_kind(const std::string& name) {
  std::string names;
  for (const PictureKind* kind : picture_table()) {
    if (kind->name == name) return *kind;
    names += fmt::format("{}{}", names.empty() ? "" : ", ", kind->name);
  }
  throw Error("picture", fmt::format("no kind '{}'; there are {}", name, names));
}

std::string to_text(const Picture& p, Ink ink, int width) { return p.kind().text(p, ink, width); }
std::string to_json(const Picture& p) { return dump(p.kind().json(p)); }

std::string to_svg(const std::vector<Picture>& pictures) {
  return drawing_of(pictures, Target::svg).svg;
}

std::string to_png(const std::vector<Picture>& pictures) {
  const Drawing d = drawing_of(pictures, Target::png);
  const std::string what = fmt::format("{} {}", pictures.size(), pictures.front().kind().plural);
  return image::to_png({d.svg, d.width, d.height, png_scale(d.width, d.height, what)});
}

std::string to_csv(const std::vector<Picture>& pictures) {
  std::string text;
  for_each_kind(pictures, [&](const PictureKind& kind, auto some) { text += kind.csv(some); });
  return text;
}

void add(Html& html, const Pictures& block) {
  for_each_kind(block.items, [&](const PictureKind& kind, auto some) { kind.page(html, some); });
}

PictureFormat picture_format(const std::filesystem::path& path) {
  const std::string ending = path.extension().string();
  if (ending == ".json") return PictureFormat::json;
  if (ending == ".svg") return PictureFormat::svg;
  if (ending == ".png") return PictureFormat::png;
  if (ending == ".csv") return PictureFormat::csv;
  throw Error("write",
              fmt::format("{}: a picture ends in .json, .csv, .svg or .png", path.string()));
}

void write(const std::filesystem::path& path, const std::vector<Picture>& pictures) {
  const PictureFormat format = picture_format(path);
  if (format == PictureFormat::csv) return write_file(path, to_csv(pictures));
  if (format != PictureFormat::json) {
    return write_file(path, format == PictureFormat::svg ? to_svg(pictures) : to_png(pictures));
  }
  Json list = Json::array();
  for (const Picture& p : pictures) list.push_back(p.kind().json(p));
  write_file(path, dump(list.size() == 1 ? list[0] : list) + "\n");
}

}  // namespace fovea::report
