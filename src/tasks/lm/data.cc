#include <fmt/format.h>

#include <algorithm>

#include "core/random.h"
#include "fovea/error.h"
#include "tasks/lm/lm.h"
#include "text/lines.h"

namespace fovea::tasks::lm {
namespace {

std::string fingerprint_of(const std::vector<std::string>& lines, const LmData& d) {
  uint64_t h = kEmptyHash;
  for (const std::string& line : lines) h = hash_of("\n", hash_of(line, h));
  return fmt::format("{:016x}",
                     mix64(hash_of(fmt::format("{} {}", d.valid_share, d.test_share), h)));
}

// Lines from the end that hold at least this share of the bytes.
size_t lines_of_share(const std::vector<std::string>& lines, double share, size_t before) {
  size_t bytes = 0, of_them = 0, n = 0;
  for (const std::string& line : lines) bytes += line.size() + 1;
  while (n < before && static_cast<double>(of_them) < share * static_cast<double>(bytes)) {
    of_them += lines[before - ++n].size() + 1;
  }
  return n;
}

void append(Tokens& to, const Tokens& more) { to.insert(to.end(), more.begin(), more.end()); }

}  // namespace

LmSets load_data(const LmConfig& c) {
  const LmData& d = c.data;
  if (d.valid_share == 0) {
    throw Error("train", "--valid-share must be above 0: what validates chooses the weights");
  }
  std::vector<std::string> lines =
      d.file.empty() ? tales(d.examples, c.train.seed) : text::read_text(d.file);
  LmSets sets;
  sets.fingerprint = fingerprint_of(lines, d);
  const size_t test = lines_of_share(lines, d.test_share, lines.size());
  const size_t valid = lines_of_share(lines, d.valid_share, lines.size() - test);
  const size_t train = lines.size() - test - valid;
  if (train == 0 || valid + test == 0) {
    throw Error("train", fmt::format("{}: {} lines are too few to train on some and to hold others "
                                     "out; the text is split at lines, and lines of more than "
                                     "200 bytes at blanks",
                                     d.file.empty() ? "tales" : d.file, lines.size()));
  }
  const auto part = [&](size_t begin, size_t end) {
    return std::vector<std::string>(lines.begin() + static_cast<ptrdiff_t>(begin),
                                    lines.begin() + static_cast<ptrdiff_t>(end));
  };
  sets.train = part(0, train);
  sets.valid = part(train, train + valid);
  sets.test = part(train + valid, lines.size());
  return sets;
}

Tokens encode(const Coder& t, std::span<const std::string> lines) {
  if (t.theirs() != nullptr) {
    std::string text;
    for (const std::string& line : lines) text += line + '\n';
    return t.encode(text, tokens::Specials::add);
  }
  Tokens ids;
  for (const std::string& line : lines) {
    append(ids, t.encode(line));
    ids.push_back(text::kEnd);
  }
  return ids;
}

Tokens encode_prompt(const Coder& t, std::string_view prompt) {
  if (t.theirs() != nullptr) return t.encode(prompt, tokens::Specials::add);
  Tokens ids;
  for (size_t at = 0, end = 0; at <= prompt.size(); at = end + 1) {
    end = std::min(prompt.find('\n', at), prompt.size());
    append(ids, t.encode(prompt.substr(at, end - at)));
    if (end < prompt.size()) ids.push_back(text::kEnd);
  }
  return ids;
}

}  // namespace fovea::tasks::lm
