#include "explorer/uploads.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "explorer/asked.h"
#include "fovea/error.h"
#include "io/atomic_file.h"
#include "io/folder.h"
#include "io/json.h"
#include "io/plain_file.h"

namespace fovea::explorer {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view kOwn = "own-", kAbout = ".json";

// Of a task's endings, the longest that this name has.
std::string ending_of(const tasks::Task& task, const std::string& name) {
  if (task.data_endings.empty()) {
    throw Error("upload", fmt::format("{} is not trained with one file: {}; `fovea train {}` takes "
                                      "the name of a folder",
                                      task.title, task.data_about, task.name));
  }
  std::string lower = name, best;
  std::ranges::transform(lower, lower.begin(), [](unsigned char c) { return std::tolower(c); });
  for (const std::string& ending : task.data_endings) {
    if (lower.ends_with(ending) && ending.size() > best.size()) best = ending;
  }
  if (!best.empty()) return best;
  throw Error("upload", fmt::format("expected a file whose name ends in {}, found {}",
                                    fmt::join(task.data_endings, ", "), plain_name(name)));
}

// N of own-N.ending; 0 of any other name.
int64_t number_in(const std::string& name) {
  if (!name.starts_with(kOwn)) return 0;
  int64_t n = 0;
  const char *begin = name.data() + kOwn.size(), *end = name.data() + name.size();
  const auto [dot, error] = std::from_chars(begin, end, n);
  return error == std::errc() && dot != end && *dot == '.' && n > 0 ? n : 0;
}

// What a file was called when it was sent; its own name where nobody knows.
std::string name_beside(const fs::path& folder, int64_t number, const std::string& own) {
  try {
    const auto about = read_json(folder / fmt::format("{}{}{}", kOwn, number, kAbout));
    return plain_name(about.at("name").get<std::string>());
  } catch (const std::exception&) {
    return own;
  }
}

bool holds(const fs::path& file, std::string_view bytes) {
  try {
    return read_plain_file(file, bytes.size()) == bytes;
  } catch (const Unreadable&) {
    return false;
  }
}

}  // namespace

std::vector<Uploads::File> Uploads::found() const {
  std::vector<File> files;
  std::error_code none;
  for (const fs::directory_entry& e : fs::directory_iterator(folder_, none)) {
    const std::string name = e.path().filename().string();
    const int64_t number = number_in(name);
    if (number == 0 || name.ends_with(kAbout) || !fs::is_regular_file(e.symlink_status(none))) {
      continue;
    }
    files.push_back({number, name_beside(folder_, number, name), fs::absolute(e.path()).string(),
                     e.file_size(none)});
  }
  std::ranges::sort(files, {}, &File::number);
  return files;
}

std::vector<Uploads::File> Uploads::list() {
  const std::lock_guard lock(mutex_);
  return found();
}

Uploads::File Uploads::at(int64_t number) {
  for (File& f : list()) {
    if (f.number == number) return std::move(f);
  }
  throw Error("train", fmt::format("there is no file {} of yours here: choose it again", number));
}

Uploads::File Uploads::add(const tasks::Task& task, const std::string& name,
                           std::string_view bytes) {
  const std::string ending = ending_of(task, name);
  if (bytes.empty()) throw Error("upload", plain_name(name) + " is empty");
  if (bytes.size() > kMostBytes) {
    throw Error("upload", fmt::format("{} has {} bytes, at most {} are taken here; `fovea train "
                                      "{}` takes files of any size",
                                      plain_name(name), bytes.size(), kMostBytes, task.name));
  }
  const std::lock_guard lock(mutex_);
  const std::vector<File> there = found();
  for (const File& f : there) {
    if (f.bytes == bytes.size() && f.path.ends_with(ending) && holds(f.path, bytes)) return f;
  }
  if (there.size() >= kMostFiles) {
    throw Error("upload", fmt::format("{} files were sent already; remove some from {}",
                                      there.size(), folder_.string()));
  }
  const int64_t number = there.empty() ? 1 : there.back().number + 1;
  make_folder("upload", folder_);
  const fs::path path = folder_ / fmt::format("{}{}{}", kOwn, number, ending);
  AtomicFile out(path);
  out.write(bytes.data(), bytes.size());
  out.commit();
  write_json(folder_ / fmt::format("{}{}{}", kOwn, number, kAbout), {{"name", plain_name(name)}});
  return {number, plain_name(name), fs::absolute(path).string(), bytes.size()};
}

}  // namespace fovea::explorer
