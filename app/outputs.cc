#include "app/outputs.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "fovea/error.h"
#include "tasks/fields.h"
#include "tasks/task.h"

namespace fovea::app {
namespace {

namespace fs = std::filesystem;

// The same device and inode: hard links too. False where either is not there.
bool is_same(const fs::path& a, const fs::path& b) {
  std::error_code error;
  return fs::equivalent(a, b, error) && !error;
}

// Where bytes written to this name go: links are written through.
fs::path real_place(const fs::path& file) {
  std::error_code error;
  const fs::path real = fs::weakly_canonical(file, error);
  return error ? file : real;
}

fs::path folder_of(const fs::path& file) {
  return file.has_parent_path() ? file.parent_path() : fs::path(".");
}

// A file that is there, below an input that is a folder.
bool is_part_of(const fs::path& place, const fs::path& input) {
  std::error_code error;
  if (!fs::is_directory(input, error) || !fs::exists(place, error)) return false;
  for (fs::path above = place.parent_path(); above != above.parent_path();
       above = above.parent_path()) {
    if (is_same(above, input)) return true;
  }
  return false;
}

[[noreturn]] void refuse(const Output& output, const std::string& why) {
  throw Error(output.call, fmt::format("{} {}; name another file to write", output.file, why));
}

void check_against_data(const Output& output, const fs::path& place, const std::string& input) {
  if (input.empty()) return;
  if (is_same(place, input)) refuse(output, fmt::format("is an input ({})", input));
  if (is_part_of(place, input)) refuse(output, fmt::format("is part of an input, {}", input));
}

void check_against_run(const Output& output, const fs::path& place, const std::string& run) {
  const tasks::RunFolder folder(run);
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(run, error)) {
    if (is_same(place, entry.path()) && folder.owns(entry.path().filename().string())) {
      refuse(output, fmt::format("is part of the run {}", run));
    }
  }
  if (!folder.holds_run()) return;
  for (const std::string& file : tasks::files_named_in(*folder.config())) {
    check_against_data(output, place, file);
  }
}

}  // namespace

void check_output(const Output& output, const Reads& reads) {
  const fs::path folder = folder_of(output.file);
  std::error_code error;
  if (!fs::is_directory(folder, error)) {
    throw Error(output.call,
                fmt::format("{}: there is no folder {}", output.file, folder.string()));
  }
  if (::access(folder.c_str(), W_OK | X_OK) != 0) {
    throw Error(output.call, fmt::format("{}: nothing can be written in {}: {}", output.file,
                                         folder.string(), std::generic_category().message(errno)));
  }
  if (!output.owned.empty() && fs::is_symlink(output.owned, error)) {
    throw Error(output.call, fmt::format("{} is a link, and what it leads to may be no run's; "
                                         "remove it first",
                                         output.owned.string()));
  }
  const fs::path place = real_place(output.file);
  if (!output.owned.empty() && place == real_place(output.owned)) return;
  const tasks::RunFolder around(folder_of(place));
  if (around.holds_run() && around.owns(place.filename().string())) {
    refuse(output, fmt::format("is part of the run {}", around.path().string()));
  }
  for (const std::string& file : reads.files) check_against_data(output, place, file);
  for (const std::string& run : reads.runs) check_against_run(output, place, run);
}

bool is_one_file(const fs::path& a, const fs::path& b) {
  return is_same(a, b) || real_place(a) == real_place(b);
}

std::string file_named_by(const std::string& input) {
  std::error_code error;
  const size_t colon = input.rfind(':');
  if (fs::exists(input, error) || colon == std::string::npos) return input;
  const bool numbered = colon + 1 < input.size() &&
                        std::all_of(input.begin() + static_cast<long>(colon) + 1, input.end(),
                                    [](char c) { return c >= '0' && c <= '9'; });
  return numbered ? input.substr(0, colon) : input;
}

}  // namespace fovea::app
