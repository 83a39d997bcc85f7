#include "io/gzip.h"

#include <fmt/format.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <stdexcept>
#include <system_error>

#include "io/plain_file.h"

namespace fovea {
namespace {

constexpr size_t kBuffer = size_t{1} << 17;

// zlib reads plain files as they are.
class GzipFile {
 public:
  explicit GzipFile(const std::filesystem::path& path) {
    const int plain = PlainFile(path).take();
    file_ = ::gzdopen(plain, "rb");
    if (file_ == nullptr) {
      ::close(plain);
      throw Unreadable("there is no memory to read it");
    }
    ::gzbuffer(file_, kBuffer);
  }
  ~GzipFile() { ::gzclose(file_); }
  GzipFile(const GzipFile&) = delete;
  GzipFile& operator=(const GzipFile&) = delete;

  size_t read(char* to, size_t most) {
    const int got = ::gzread(file_, to, static_cast<unsigned>(most));
    int code = Z_OK;
    const char* message = ::gzerror(file_, &code);
    if (code == Z_ERRNO) throw std::runtime_error(std::generic_category().message(errno));
    if (code == Z_BUF_ERROR) throw std::runtime_error("the gzip data ends too early");
    if (got < 0 || code < 0) throw std::runtime_error(fmt::format("broken gzip data: {}", message));
    check_size(static_cast<uint64_t>(got));
    return static_cast<size_t>(got);
  }

 private:
  void check_size(uint64_t got) {
    total_ += got;
    if (total_ > kMaxUnpacked) {
      throw std::runtime_error(fmt::format("more than {} bytes of text", kMaxUnpacked));
    }
    if (total_ < kMaxRatioFrom || ::gzdirect(file_)) return;
    if (total_ / kMaxRatio > static_cast<uint64_t>(std::max<z_off_t>(::gzoffset(file_), 1))) {
      throw std::runtime_error(fmt::format("unpacks to over {} times its size", kMaxRatio));
    }
  }

  gzFile file_ = nullptr;
  uint64_t total_ = 0;
};

}  // namespace

ReadBytes open_gzip(const std::filesystem::path& path) {
  return [file = std::make_shared<GzipFile>(path)](char* to, size_t most) {
    return file->read(to, most);
  };
}

}  // namespace fovea
