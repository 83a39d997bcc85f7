#include "image/class_folders.h"

#include <fmt/format.h>

#include <algorithm>

#include "fovea/error.h"
#include "image/image_file.h"
#include "image/resize.h"

namespace fovea::image {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> sorted_files(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const fs::directory_entry& e : fs::recursive_directory_iterator(folder)) {
    if (e.is_regular_file() && is_image_name(e.path())) files.push_back(e.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

struct ClassFolder {
  std::string name;
  std::vector<fs::path> files;
};

std::vector<ClassFolder> class_folders(const fs::path& folder) {
  if (!fs::is_directory(folder)) {
    throw Error("read_class_folders", folder.string() + " is not a folder");
  }
  std::vector<ClassFolder> all;
  for (const fs::directory_entry& e : fs::directory_iterator(folder)) {
    if (!e.is_directory()) continue;
    std::vector<fs::path> files = sorted_files(e.path());
    if (!files.empty()) all.push_back({e.path().filename().string(), std::move(files)});
  }
  std::sort(all.begin(), all.end(),
            [](const ClassFolder& a, const ClassFolder& b) { return a.name < b.name; });
  if (all.empty()) {
    throw Error("read_class_folders",
                fmt::format("{} has no folders with PNG or JPEG files; expected one for each class",
                            folder.string()));
  }
  return all;
}

}  // namespace

Warn keep_in(std::vector<std::string>& lines) {
  return [&lines](const std::string& line) { lines.push_back(line); };
}

Image fitted(const Image& x, const Fit& fit) {
  if (x.channels == fit.channels) return fitted(x, fit.height, fit.width);  // a photo is large
  return fitted(with_channels(x, fit.channels), fit.height, fit.width);
}

Image read_fitted(const fs::path& path, const Fit& fit) { return fitted(read_image(path), fit); }

bool BrokenImages::read(const std::function<void()>& one) {
  try {
    one();
    ++read_;
    return true;
  } catch (const Error& e) {
    if (broken_++ == 0) first_ = e.what();
    if (warn_) warn_(fmt::format("left out: {}", e.what()));
    return false;
  }
}

void BrokenImages::finish(const std::string& where) const {
  if (broken_ == 0) return;
  if (read_ == 0) {
    throw Error("read_image", fmt::format("none of the {} images of {} can be read; the first: {}",
                                          broken_, where, first_));
  }
  if (warn_) warn_(fmt::format("{} of {} images were left out", broken_, broken_ + read_));
}

LabelledImages read_class_folders(const fs::path& folder, const Fit& fit, const Warn& warn) {
  LabelledImages all;
  BrokenImages broken(warn);
  for (const ClassFolder& c : class_folders(folder)) {
    const auto label = static_cast<int64_t>(all.classes.size());
    all.classes.push_back(c.name);
    for (const fs::path& file : c.files) {
      broken.read([&] { all.images.push_back({read_fitted(file, fit), label, file.string()}); });
    }
  }
  broken.finish(folder.string());
  return all;
}

int64_t count_images(const fs::path& folder) {
  int64_t n = 0;
  for (const ClassFolder& c : class_folders(folder)) n += static_cast<int64_t>(c.files.size());
  return n;
}

}  // namespace fovea::image
