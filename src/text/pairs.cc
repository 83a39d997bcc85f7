#include <fmt/format.h>

#include <algorithm>

#include "core/random.h"
#include "fovea/error.h"
#include "text/lines.h"
#include "text/messages.h"
#include "text/utf8.h"

namespace fovea::text {
namespace {

int64_t count_rest(LineReader& lines) {
  std::string line;
  while (lines.next(line)) {
  }
  return lines.number();
}

}  // namespace

namespace {

// Whether the columns after the second are columns, or text that a tab cut off.
class Rest {
 public:
  explicit Rest(MoreColumns more) : more_(more) {}

  void look(const LineReader& lines, std::string_view line, size_t end_of_second) {
    const int64_t columns = 1 + std::count(line.begin(), line.end(), '\t');
    const bool holds_text = !is_blank(line.substr(end_of_second));
    if (holds_text && more_ == MoreColumns::refuse) {
      lines.fail(
          fmt::format("{} columns, expected two; a tab within a text must become a blank, "
                      "and other columns go: cut -f 1,2",
                      columns));
    }
    if (first_ == 0) first_ = columns;
    if (columns != first_ && (holds_text || left_out_)) {
      lines.fail(
          fmt::format("{} columns, the lines before have {}; a tab within a text must "
                      "become a blank, and other columns stand in every line",
                      columns, first_));
    }
    left_out_ = left_out_ || holds_text;
  }
  int64_t columns() const { return left_out_ ? first_ : 2; }

 private:
  MoreColumns more_;
  int64_t first_ = 0;
  bool left_out_ = false;
};

}  // namespace

// Quotation marks are characters like any other.
Tsv parse_tsv(LineReader lines, MoreColumns more, std::string_view expected) {
  Tsv read;
  Rest rest(more);
  for (std::string line; lines.next(line);) {
    const size_t tab = line.find('\t');
    if (tab == line.npos) {
      if (is_blank(line)) continue;
      lines.fail(fmt::format("expected {}, found {}", expected, quoted_piece(line)));
    }
    const size_t end = std::min(line.find('\t', tab + 1), line.size());
    Pair pair{line.substr(0, tab), line.substr(tab + 1, end - tab - 1)};
    if (is_blank(pair.source)) lines.fail("the source is empty");
    if (is_blank(pair.target)) lines.fail("the target is empty");
    rest.look(lines, line, end);
    read.pairs.push_back(std::move(pair));
  }
  if (read.pairs.empty()) lines.fail("no pairs");
  read.columns = rest.columns();
  return read;
}

std::vector<Pair> parse_parallel(LineReader source, LineReader target) {
  std::vector<Pair> pairs;
  for (Pair pair;;) {
    const bool more = source.next(pair.source), more_too = target.next(pair.target);
    if (more != more_too) {
      const int64_t sources = count_rest(source), targets = count_rest(target);
      throw Error("read_parallel", fmt::format("{} has {} lines, {} has {}", source.name(), sources,
                                               target.name(), targets));
    }
    if (!more) break;
    const bool no_source = is_blank(pair.source), no_target = is_blank(pair.target);
    if (no_source && no_target) continue;
    if (no_source) source.fail("the source is empty");
    if (no_target) target.fail("the target is empty");
    pairs.push_back(std::move(pair));
  }
  if (pairs.empty()) source.fail("no pairs");
  return pairs;
}

std::vector<Pair> read_tsv(const std::filesystem::path& path) {
  return parse_tsv(LineReader::of_file("read_tsv", path), MoreColumns::leave_out).pairs;
}

std::vector<Pair> read_parallel(const std::filesystem::path& source,
                                const std::filesystem::path& target) {
  return parse_parallel(LineReader::of_file("read_parallel", source),
                        LineReader::of_file("read_parallel", target));
}

std::vector<std::string> read_lines(const std::filesystem::path& path) {
  LineReader lines = LineReader::of_file("read_lines", path);
  std::vector<std::string> all;
  for (std::string line; lines.next(line);) all.push_back(std::move(line));
  if (all.empty()) lines.fail("no lines");
  return all;
}

namespace {

// Pieces of at most so many bytes, which end at blanks where there are any.
void cut(std::string_view line, size_t most, std::vector<std::string>& to) {
  while (line.size() > most) {
    size_t end = line.rfind(' ', most);
    const bool at_blank = end != line.npos && end > 0;
    if (!at_blank) {
      end = most;
      while ((static_cast<unsigned char>(line[end]) & 0xC0) == 0x80) --end;  // within a character
    }
    to.emplace_back(line.substr(0, end));
    line.remove_prefix(end + (at_blank ? 1 : 0));
  }
  to.emplace_back(line);
}

}  // namespace

std::vector<std::string> read_text(const std::filesystem::path& path) {
  constexpr size_t kLongest = size_t{1} << 30;          // bytes of a line
  constexpr size_t kShortPiece = 200, kPiece = 10'000;  // bytes
  constexpr size_t kFewLines = 100, kPieces = 200;
  LineReader lines = LineReader::of_file("read_text", path, kLongest);
  std::vector<std::string> all;
  size_t bytes = 0;
  for (std::string line; lines.next(line);) {
    bytes += line.size();
    all.push_back(std::move(line));
  }
  if (all.empty()) lines.fail("no lines");
  const size_t most =
      all.size() < kFewLines ? std::clamp(bytes / kPieces, kShortPiece, kPiece) : kPiece;
  std::vector<std::string> pieces;
  for (std::string& line : all) {
    cut(line, most, pieces);
    line = {};
  }
  return pieces;
}

Split split_by_source(std::vector<Pair> pairs, double valid_share, double test_share,
                      uint64_t seed) {
  const bool shares = valid_share >= 0 && test_share >= 0 && valid_share + test_share <= 1;
  if (!shares) {
    throw Error("split_by_source",
                fmt::format("the shares must be at least 0 and 1 together, found {} and {}",
                            valid_share, test_share));
  }
  Split split;
  for (Pair& pair : pairs) {
    const RandomKey key = random_key(seed, Purpose::split, hash_of(pair.source));
    const double draw = unit_open(bits32(key, 0));
    auto& side = draw < test_share                 ? split.test
                 : draw < test_share + valid_share ? split.valid
                                                   : split.train;
    side.push_back(std::move(pair));
  }
  return split;
}

}  // namespace fovea::text
