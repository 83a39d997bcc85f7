#include "train/log.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <nlohmann/json.hpp>
#include <system_error>

namespace fovea::train {
namespace {

template <class T>
std::string number(T value) {
  return std::isfinite(value) ? fmt::format("{}", value) : "null";
}

}  // namespace

// Between opening and locking it, whoever held it may have removed or moved it: then once more.
RunLog::RunLog(const std::filesystem::path& folder) : path_(folder / "log.jsonl") {
  do {
    if (file_ >= 0) ::close(file_);
    file_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (file_ < 0) fail("cannot open");
    if (::flock(file_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
      ::close(file_);
      throw Error("train", folder.string() + " is in use by another training process");
    }
  } while (!is_at_its_path());
}

RunLog::~RunLog() { ::close(file_); }

bool RunLog::is_at_its_path() const {
  struct stat held {
  }, found{};
  return ::fstat(file_, &held) == 0 && ::stat(path_.c_str(), &found) == 0 &&
         held.st_ino == found.st_ino && held.st_dev == found.st_dev;
}

void RunLog::expect_in_place() const {
  if (is_at_its_path()) return;
  throw Error("train", fmt::format("{} was moved or removed while it was trained; nothing more is "
                                   "written there",
                                   path_.parent_path().string()));
}

void RunLog::cut(int64_t bytes) {
  struct stat info {};
  if (::fstat(file_, &info) != 0) fail("cannot read");
  bytes_ = std::min<int64_t>(bytes, info.st_size);
  if (::ftruncate(file_, bytes_) != 0) fail("cannot shorten");
}

void RunLog::write(const std::string& line) {
  const std::string text = line + "\n";
  for (size_t at = 0; at < text.size();) {
    const ssize_t n = ::pwrite(file_, text.data() + at, text.size() - at, bytes_);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail("cannot write");
    at += static_cast<size_t>(n);
    bytes_ += n;
  }
}

int64_t RunLog::sync() {
  if (::fsync(file_) != 0 && errno != EINVAL) fail("cannot sync");
  return bytes_;
}

void RunLog::fail(const char* what) const {
  throw Error("train", fmt::format("{} {}: {}", what, path_.string(),
                                   std::generic_category().message(errno)));
}

bool logged(int64_t step) { return step == 1 || step % (step <= 100 ? 10 : 50) == 0; }

std::string line_of(const LoggedStep& s) {
  return fmt::format(R"({{"step":{},"epoch":{},"loss":{},"rate":{},"grad_norm":{}}})", s.step,
                     s.epoch, number(s.loss), number(s.rate), number(s.grad_norm));
}

std::string line_of(int64_t step, const Scores& scores) {
  std::string valid;
  for (const auto& [name, score] : scores) {
    const std::string key =
        nlohmann::json(name).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    valid += fmt::format("{}{}:{}", valid.empty() ? "" : ",", key, number(score));
  }
  return fmt::format(R"({{"step":{},"valid":{{{}}}}})", step, valid);
}

}  // namespace fovea::train
