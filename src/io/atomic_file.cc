#include "io/atomic_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <system_error>

#include "fovea/error.h"

namespace fovea {
namespace fs = std::filesystem;
namespace {

fs::path folder_of(const fs::path& file) {
  return file.has_parent_path() ? file.parent_path() : fs::path(".");
}

// A link is written through; devices, folders and the like are refused rather than replaced.
fs::path resolve(const fs::path& target) {
  std::error_code error;
  if (fs::is_symlink(target, error)) {
    fs::path real = fs::canonical(target, error);
    if (error) throw Error("write_file", target.string() + ": " + error.message());
    return resolve(real);
  }
  if (fs::exists(target, error) && !fs::is_regular_file(target, error)) {
    throw Error("write_file", target.string() + " exists and is no regular file");
  }
  return target;
}

fs::path temporary_name(const fs::path& target) {
  static std::atomic<unsigned> count{0};
  return folder_of(target) / fmt::format(".{}.{}.{}.tmp", target.filename().string().substr(0, 200),
                                         ::getpid(), count++);
}

}  // namespace

AtomicFile::AtomicFile(const fs::path& target) : target_(resolve(target)) {
  do {
    temporary_ = temporary_name(target_);
    file_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  } while (file_ < 0 && (errno == EEXIST || errno == EINTR));
  if (file_ < 0) fail("cannot create", errno);
}

AtomicFile::~AtomicFile() {
  if (file_ < 0) return;
  ::close(file_);
  ::unlink(temporary_.c_str());
}

void AtomicFile::write(const void* data, size_t bytes) {
  constexpr size_t kAtOnce = size_t{1} << 30;
  const auto* from = static_cast<const std::byte*>(data);
  while (bytes > 0) {
    const ssize_t written = ::write(file_, from, std::min(bytes, kAtOnce));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail("cannot write", errno);
    from += written;
    bytes -= static_cast<size_t>(written);
  }
}

void AtomicFile::commit() {
  if (::fsync(file_) != 0) fail("cannot sync", errno);
  if (::rename(temporary_.c_str(), target_.c_str()) != 0) fail("cannot replace", errno);
  const int file = file_;
  file_ = -1;
  if (::close(file) != 0) fail("cannot close", errno);
  const int folder = ::open(folder_of(target_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) return;  // a folder that may be written but not read: nothing to sync through
  const int error = ::fsync(folder) == 0 ? 0 : errno;
  ::close(folder);
  if (error != 0 && error != EINVAL) fail("cannot sync the folder of", error);
}

void AtomicFile::fail(const char* what, int error) const {
  throw Error("write_file", fmt::format("{} {}: {}", what, target_.string(),
                                        std::generic_category().message(error)));
}

}  // namespace fovea
