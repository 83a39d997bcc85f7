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

char separator_in(std::string_view first_line) {
  constexpr std::string_view kSeparators = ",;\t";
  const auto count = [&](char c) { return std::count(first_line.begin(), first_line.end(), c); };
  return *std::max_element(kSeparators.begin(), kSeparators.end(),
                           [&](char a, char b) { return count(a) < count(b); });
}

LineReader::LineReader(std::string call, std::string name, Read read, size_t longest)
    : call_(std::move(call)),
      name_(std::move(name)),
      read_(std::move(read)),
      buffer_(kBuffer),
      longest_(longest) {}

LineReader LineReader::of_file(std::string call, const std::filesystem::path& path,
                               size_t longest) {
  try {
    ReadBytes read = open_gzip(path);
    return {std::move(call), path.string(), std::move(read), longest};
  } catch (const std::runtime_error& error) {
    throw Error(call, path.string() + ": " + error.what());
  }
}

LineReader LineReader::of_memory(std::string call, std::string name, std::string_view bytes) {
  return {std::move(call), std::move(name), [bytes](char* to, size_t most) mutable {
            const size_t n = std::min(most, bytes.size());
            std::memcpy(to, bytes.data(), n);
            bytes.remove_prefix(n);
            return n;
          }};
}

void LineReader::fail_at(int64_t line, std::string_view what) const {
  if (line == 0) throw Error(call_, fmt::format("{}: {}, the file is empty", name_, what));
  throw Error(call_, fmt::format("{}:{}: {}", name_, line, what));
}

bool LineReader::more() {
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

// What has come of a line, `had` bytes of it seen before.
void LineReader::check(const std::string& line, size_t had) const {
  if (number_ == 1 && (line.starts_with("\xFF\xFE") || line.starts_with("\xFE\xFF"))) {
    fail("this is UTF-16; save it as UTF-8, as iconv -f UTF-16 -t UTF-8 does");
  }
  if (line.find('\0', had) != line.npos) {
    fail("a zero byte: this is no text, or UTF-16, which must be saved as UTF-8");
  }
  if (line.size() > longest_) fail(fmt::format("a line of more than {} bytes", longest_));
}

// A byte that is wrong here and there is replaced; a file of another encoding has them everywhere.
void LineReader::check_encoding() const {
  constexpr int64_t kFewest = 10, kShare = 20;
  if (invalid_ < kFewest || invalid_ * kShare < number_) return;
  throw Error(call_, fmt::format("{}: {} of {} lines are no UTF-8, the first is line {}; save it "
                                 "as UTF-8, as iconv -f LATIN1 -t UTF-8 does where it is Latin-1",
                                 name_, invalid_, number_, first_invalid_));
}

bool LineReader::has_line() const {
  return std::memchr(buffer_.data() + at_, '\n', end_ - at_) != nullptr;
}

bool LineReader::next(std::string& line) {
  line.clear();
  ++number_;
  if (!more()) {
    --number_;
    check_encoding();
    return false;
  }
  bool ended = false;
  while (!ended && more()) {
    const std::string_view rest(buffer_.data() + at_, end_ - at_);
    const size_t newline = rest.find('\n'), had = line.size();
    ended = newline != rest.npos;
    line += rest.substr(0, newline);
    at_ = ended ? at_ + newline + 1 : end_;
    check(line, had);
  }
  if (!line.empty() && line.back() == '\r') line.pop_back();
  if (number_ == 1 && !ended && line.find('\r') != line.npos) {
    fail("its lines end with CR alone; expected LF or CR LF, to which tr '\\r' '\\n' brings them");
  }
  if (number_ == 1 && line.starts_with("\xEF\xBB\xBF")) line.erase(0, 3);
  std::string valid = valid_utf8(line);
  if (valid != line && invalid_++ == 0) first_invalid_ = number_;
  line = std::move(valid);
  return true;
}

}  // namespace fovea::text
