#include "io/plain_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

namespace fovea {
namespace {

[[noreturn]] void fail(int error) { throw Unreadable(std::generic_category().message(error)); }

const char* kind_of(mode_t mode) {
  if (S_ISDIR(mode)) return "is a folder, expected a file";
  if (S_ISFIFO(mode)) return "is a pipe, expected a file: save what it gives to one";
  if (S_ISSOCK(mode)) return "is a socket, expected a file";
  return "is a device, expected a file";
}

}  // namespace

PlainFile::PlainFile(const std::filesystem::path& path)
    : file_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)) {
  // What cannot even be opened for reading, such as a socket, says in its own way that it is none.
  if (file_ < 0) fail(errno);
  struct stat info {};
  const int error = ::fstat(file_, &info) == 0 ? 0 : errno;
  if (error == 0 && S_ISREG(info.st_mode)) {
    bytes_ = static_cast<uint64_t>(info.st_size);
    return;
  }
  ::close(file_);
  if (error != 0) fail(error);
  throw Unreadable(kind_of(info.st_mode));
}

PlainFile::~PlainFile() {
  if (file_ >= 0) ::close(file_);
}

int PlainFile::take() { return std::exchange(file_, -1); }

void PlainFile::read(uint64_t offset, void* to, size_t n) const {
  auto* out = static_cast<std::byte*>(to);
  while (n > 0) {
    const ssize_t got = ::pread(file_, out, n, static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail(errno);
    if (got == 0) throw Unreadable("the file ended while it was read");
    out += got;
    offset += static_cast<uint64_t>(got);
    n -= static_cast<size_t>(got);
  }
}

std::string read_plain_file(const std::filesystem::path& path, uint64_t most) {
  const PlainFile file(path);
  if (file.bytes() > most) {
    throw Unreadable(fmt::format("{} bytes, at most {} are read", file.bytes(), most));
  }
  std::string text(file.bytes(), '\0');
  file.read(0, text.data(), text.size());
  return text;
}

}  // namespace fovea
