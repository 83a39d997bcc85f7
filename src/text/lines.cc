#include "text/lines.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "core/interrupt.h"
#include "fovea/error.h"

namespace fovea::text {
namespace {

constexpr size_t kBuffer = size_t{1} << 17;

}  // namespace

Lines::Lines(std::string call, std::string name, Read read)
    : call_(std::move(call)), name_(std::move(name)), read_(std::move(read)), buffer_(kBuffer) {}

Lines Lines::of_file(std::string call, const std::filesystem::path& path) {
  try {
    ReadBytes read = open_gzip(path);
    return {std::move(call), path.string(), std::move(read)};
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
  ask_to_go_on();
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
