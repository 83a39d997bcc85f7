#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "fovea/error.h"
#include "io/json.h"
#include "tasks/caption/caption.h"
#include "text/lines.h"

namespace fovea::tasks::captions {
namespace {

using Json = nlohmann::ordered_json;

constexpr JsonLimits kLimits{.bytes = uint64_t{512} << 20};

// Images in the order in which they first come, each with all its captions.
class Listing {
 public:
  ListedImage& of(const std::string& name) {
    const auto [it, fresh] = at_.emplace(name, all_.size());
    if (fresh) all_.push_back({.name = name, .captions = {}});
    return all_[it->second];
  }
  std::vector<ListedImage> take() { return std::move(all_); }

 private:
  std::unordered_map<std::string, size_t> at_;
  std::vector<ListedImage> all_;
};

// "a.jpg#3" is the fourth caption of a.jpg.
std::string without_number(const std::string& name) {
  const size_t mark = name.rfind('#');
  if (mark == std::string::npos || mark + 1 == name.size()) return name;
  const bool digits = std::all_of(name.begin() + static_cast<int64_t>(mark) + 1, name.end(),
                                  [](char c) { return c >= '0' && c <= '9'; });
  return digits ? name.substr(0, mark) : name;
}

std::string trimmed(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  const size_t first = text.find_first_not_of(" \t\r"), last = text.find_last_not_of(" \t\r");
  return first == std::string::npos ? std::string() : text.substr(first, last - first + 1);
}

const Json& field(const std::string& file, const Json& object, const char* name) {
  if (!object.is_object() || !object.contains(name)) {
    throw Error("read_captions", fmt::format("{}: an entry has no \"{}\"", file, name));
  }
  return object.at(name);
}

std::string text_field(const std::string& file, const Json& object, const char* name) {
  const Json& value = field(file, object, name);
  if (!value.is_string()) {
    throw Error("read_captions", fmt::format("{}: \"{}\" is not a text", file, name));
  }
  return value.get<std::string>();
}

const Json& list_field(const std::string& file, const Json& object, const char* name) {
  const Json& value = field(file, object, name);
  if (!value.is_array()) {
    throw Error("read_captions", fmt::format("{}: \"{}\" is not a list", file, name));
  }
  return value;
}

std::vector<ListedImage> coco(const std::string& file, const Json& all) {
  std::map<int64_t, std::string> names;
  const auto id_of = [&](const Json& object, const char* name) {
    const Json& value = field(file, object, name);
    if (!value.is_number_integer()) {
      throw Error("read_captions", fmt::format("{}: \"{}\" is not a number", file, name));
    }
    return value.get<int64_t>();
  };
  for (const Json& image : list_field(file, all, "images")) {
    names[id_of(image, "id")] = text_field(file, image, "file_name");
  }
  Listing listing;
  for (const Json& a : list_field(file, all, "annotations")) {
    const int64_t id = id_of(a, "image_id");
    const auto found = names.find(id);
    if (found == names.end()) {
      throw Error("read_captions",
                  fmt::format("{}: a caption is of image {}, which is not listed", file, id));
    }
    listing.of(found->second).captions.push_back(trimmed(text_field(file, a, "caption")));
  }
  return listing.take();
}

std::vector<ListedImage> karpathy(const std::string& file, const Json& all) {
  Listing listing;
  for (const Json& image : list_field(file, all, "images")) {
    std::string name = text_field(file, image, "filename");
    if (image.contains("filepath")) name = text_field(file, image, "filepath") + "/" + name;
    ListedImage& listed = listing.of(name);
    for (const Json& sentence : list_field(file, image, "sentences")) {
      listed.captions.push_back(trimmed(text_field(file, sentence, "raw")));
    }
    if (!image.contains("split")) continue;
    const std::string split = text_field(file, image, "split");
    listed.side = split == "val" ? Side::valid : split == "test" ? Side::test : Side::train;
  }
  return listing.take();
}

std::vector<ListedImage> from_json(const std::string& file) {
  const Json all = read_json(file, kLimits);
  const Json& images = list_field(file, all, "images");
  if (all.contains("annotations")) return coco(file, all);
  if (!images.empty() && images[0].is_object() && images[0].contains("sentences")) {
    return karpathy(file, all);
  }
  throw Error("read_captions",
              file + ": neither \"annotations\" beside \"images\" nor \"sentences\" in them");
}

std::vector<ListedImage> from_lines(const std::string& file) {
  Listing listing;
  const text::Tsv read = text::parse_tsv(text::LineReader::of_file("read_captions", file),
                                         text::MoreColumns::refuse, "image<TAB>caption");
  for (const text::Pair& pair : read.pairs) {
    listing.of(without_number(pair.source)).captions.push_back(trimmed(pair.target));
  }
  return listing.take();
}

}  // namespace

std::vector<ListedImage> read_captions(const std::string& file) {
  std::vector<ListedImage> all =
      std::filesystem::path(file).extension() == ".json" ? from_json(file) : from_lines(file);
  for (ListedImage& image : all) std::erase(image.captions, std::string());
  std::erase_if(all, [](const ListedImage& image) { return image.captions.empty(); });
  if (all.empty()) throw Error("read_captions", file + " has no captions");
  return all;
}

}  // namespace fovea::tasks::captions
