#include "image/class_folders.h"

#include <fmt/format.h>

#include <algorithm>

#include "fovea/error.h"
#include "image/image_file.h"
#include "image/resize.h"

namespace fovea::image {
namespace {

namespace fs = std::filesystem;

bool leads_nowhere(const fs::directory_entry& e) {
  std::error_code none;
  return e.is_symlink(none) && !e.exists(none);
}

// Of a folder that cannot be read the error is thrown.
template <class Iterator>
void each_entry(const fs::path& folder,
                const std::function<void(const fs::directory_entry&)>& use) {
  std::error_code error;
  for (Iterator at(folder, error), end; !error && at != end; at.increment(error)) use(*at);
  if (error) {
    throw Error("read_class_folders", fmt::format("{}: {}", folder.string(), error.message()));
  }
}

// A link that leads nowhere is an image, too, which cannot be read then.
std::vector<fs::path> sorted_files(const fs::path& folder) {
  std::vector<fs::path> files;
  each_entry<fs::recursive_directory_iterator>(folder, [&](const fs::directory_entry& e) {
    std::error_code none;
    if (is_image_name(e.path()) && (e.is_regular_file(none) || leads_nowhere(e))) {
      files.push_back(e.path());
    }
  });
  std::sort(files.begin(), files.end());
  return files;
}

struct ClassFolder {
  std::string name;
  std::vector<fs::path> files;
};
struct Found {
  std::vector<ClassFolder> classes;
  text::FirstFew empty;  // folders without images, and links that lead to none
};

Found class_folders(const fs::path& folder) {
  std::error_code none;
  if (!fs::is_directory(folder, none)) {
    throw Error("read_class_folders",
                folder.string() +
                    (fs::exists(folder, none) ? " is not a folder" : " is not there") +
                    "; expected one with a folder for each class");
  }
  std::vector<fs::path> entries;
  each_entry<fs::directory_iterator>(folder, [&](const fs::directory_entry& e) {
    const bool hidden = e.path().filename().string().starts_with('.');
    std::error_code unseen;
    if (!hidden && (e.is_directory(unseen) || leads_nowhere(e))) entries.push_back(e.path());
  });
  std::sort(entries.begin(), entries.end());
  Found found;
  for (const fs::path& entry : entries) {
    std::string name = entry.filename().string();
    std::vector<fs::path> files;
    if (fs::is_directory(entry, none)) files = sorted_files(entry);
    if (files.empty()) {
      found.empty.add(std::move(name));
    } else {
      found.classes.push_back({std::move(name), std::move(files)});
    }
  }
  if (found.classes.empty()) {
    throw Error("read_class_folders",
                fmt::format("{} has no folders with PNG or JPEG files; expected one for each class",
                            folder.string()));
  }
  return found;
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
    const bool among_the_first = broken_.add(std::string(e.message()));
    if (among_the_first && warn_) warn_(fmt::format("left out: {}", e.message()));
    return false;
  }
}

void BrokenImages::finish(const std::string& where) const {
  const int64_t broken = broken_.count();
  if (broken == 0) return;
  if (read_ == 0) {
    throw Error("read_image", fmt::format("none of the {} images of {} can be read; the first: {}",
                                          broken, where, broken_.first().front()));
  }
  if (!warn_) return;
  const size_t named = broken_.first().size();
  warn_(fmt::format("{} of {} images were left out{}", broken, broken + read_,
                    broken > static_cast<int64_t>(named)
                        ? fmt::format("; the first {} of them are named above", named)
                        : ""));
}

LabelledImages read_class_folders(const fs::path& folder, const Fit& fit, const Warn& warn) {
  LabelledImages all;
  BrokenImages broken(warn);
  Found found = class_folders(folder);
  text::FirstFew unreadable;
  for (const ClassFolder& c : found.classes) {
    const auto label = static_cast<int64_t>(all.classes.size());
    const size_t before = all.images.size();
    for (const fs::path& file : c.files) {
      broken.read([&] { all.images.push_back({read_fitted(file, fit), label, file.string()}); });
    }
    if (all.images.size() > before) {
      all.classes.push_back(c.name);
    } else {
      unreadable.add(c.name);
    }
  }
  broken.finish(folder.string());
  const auto say = [&](const text::FirstFew& few, const char* why) {
    if (few.count() > 0 && warn) {
      warn(fmt::format("{} {} {} and left out: {}", few.count(),
                       few.count() == 1 ? "folder is" : "folders are", why, few.text()));
    }
  };
  say(found.empty, "without PNG or JPEG files");
  say(unreadable, "of images none of which can be read");
  return all;
}

int64_t count_images(const fs::path& folder) {
  int64_t n = 0;
  for (const ClassFolder& c : class_folders(folder).classes)
    n += static_cast<int64_t>(c.files.size());
  return n;
}

}  // namespace fovea::image
