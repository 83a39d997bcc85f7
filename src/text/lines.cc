#include "text/lines.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <system_error>

#include "fovea/error.h"

namespace fovea::text {
namespace {

constexpr size_t kBuffer = size_t{1} << 17;

// zlib reads plain files as they are.
class GzipFile {
 public:
  explicit GzipFile(const std::filesystem::path& path) {
    std::error_code error;
    if (std::filesystem::is_directory(path, error)) throw std::runtime_error("is a folder");
    errno = 0;
    file_ = ::gzopen(path.c_str(), "rbe");
    if (file_ == nullptr) throw std::runtime_error(std::generic_category().message(errno));
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
    if (total_ > kMaxTextFile) {
      throw std::runtime_error(fmt::format("more than {} bytes of text", kMaxTextFile));
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

Lines::Lines(std::string call, std::string name, Read read)
    : call_(std::move(call)), name_(std::move(name)), read_(std::move(read)), buffer_(kBuffer) {}

Lines Lines::of_file(std::string call, const std::filesystem::path& path) {
  try {
    auto file = std::make_shared<GzipFile>(path);
    return {std::move(call), path.string(),
            [file](char* to, size_t most) { return file->read(to, most); }};
  } catch (const std::runtime_error& error) {
    throw Error(call, path.string() + ": " + error.what());
  }
}

Lines Lines::of_memory(std::string call, std::string name, std::string_view bytes) {
  return {std::move(call), std::move(name), [bytes](char* to, size_t most) mutable {
            const size_t n = std::min(most, bytes.size());
            std::memcpy(to, bytes.data(), n);
            bytes.remove_prefix(n);
            return n;
          }};
}

void Lines::fail(std::string_view what) const {
  throw Error(call_, fmt::format("{}:{}: {}", name_, number_, what));
}

bool Lines::more() {
  if (at_ < end_) return true;
  at_ = end_ = 0;
  try {
    end_ = read_(buffer_.data(), buffer_.size());
  } catch (const std::runtime_error& error) {
    fail(error.what());
  }
  return end_ > 0;
}

bool Lines::next(std::string& line) {
  line.clear();
  ++number_;
  if (!more()) {
    --number_;
    return false;
  }
  bool ended = false;
  while (!ended && more()) {
    const std::string_view rest(buffer_.data() + at_, end_ - at_);
    const size_t newline = rest.find('\n');
    ended = newline != rest.npos;
    line += rest.substr(0, newline);
    at_ = ended ? at_ + newline + 1 : end_;
    if (line.size() > kMaxLine) fail(fmt::format("a line of more than {} bytes", kMaxLine));
    if (line.find('\0') != line.npos) fail("a zero byte");
  }
  if (!line.empty() && line.back() == '\r') line.pop_back();
  if (number_ == 1 && line.starts_with("\xEF\xBB\xBF")) line.erase(0, 3);
  line = valid_utf8(line);
  return true;
}

}  // namespace fovea::text
