#include <fmt/format.h>

#include <algorithm>

#include "core/random.h"
#include "fovea/error.h"
#include "text/lines.h"
#include "text/utf8.h"

namespace fovea::text {
namespace {

bool blank(std::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return is_ascii_space(static_cast<unsigned char>(c)); });
}

int64_t count_rest(Lines& lines) {
  std::string line;
  while (lines.next(line)) {
  }
  return lines.number();
}

}  // namespace

// Quotation marks are characters like any other.
std::vector<Pair> parse_tsv(Lines lines) {
  std::vector<Pair> pairs;
  std::string line;
  while (lines.next(line)) {
    const size_t tab = line.find('\t');
    if (tab == line.npos) {
      if (blank(line)) continue;
      lines.fail("expected source<TAB>target");
    }
    const size_t end = std::min(line.find('\t', tab + 1), line.size());
    Pair pair{line.substr(0, tab), line.substr(tab + 1, end - tab - 1)};
    if (blank(pair.source)) lines.fail("the source is empty");
    if (blank(pair.target)) lines.fail("the target is empty");
    pairs.push_back(std::move(pair));
  }
  if (pairs.empty()) lines.fail("no pairs");
  return pairs;
}

std::vector<Pair> parse_parallel(Lines source, Lines target) {
  std::vector<Pair> pairs;
  for (Pair pair;;) {
    const bool more = source.next(pair.source), more_too = target.next(pair.target);
    if (more != more_too) {
      const int64_t sources = count_rest(source), targets = count_rest(target);
      throw Error("read_parallel", fmt::format("{} has {} lines, {} has {}", source.name(), sources,
                                               target.name(), targets));
    }
    if (!more) break;
    const bool no_source = blank(pair.source), no_target = blank(pair.target);
    if (no_source && no_target) continue;
    if (no_source) source.fail("the source is empty");
    if (no_target) target.fail("the target is empty");
    pairs.push_back(std::move(pair));
  }
  if (pairs.empty()) source.fail("no pairs");
  return pairs;
}

std::vector<Pair> read_tsv(const std::filesystem::path& path) {
  return parse_tsv(Lines::of_file("read_tsv", path));
}

std::vector<Pair> read_parallel(const std::filesystem::path& source,
                                const std::filesystem::path& target) {
  return parse_parallel(Lines::of_file("read_parallel", source),
                        Lines::of_file("read_parallel", target));
}

std::vector<std::string> read_lines(const std::filesystem::path& path) {
  Lines lines = Lines::of_file("read_lines", path);
  std::vector<std::string> all;
  for (std::string line; lines.next(line);) all.push_back(std::move(line));
  if (all.empty()) lines.fail("no lines");
  return all;
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
