#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <unordered_map>

#include "fovea/error.h"
#include "fovea/text.h"
#include "io/atomic_file.h"
#include "io/plain_file.h"
#include "text/subwords.h"
#include "text/utf8.h"
#include "text/vocabulary.h"
#include "text/words.h"

namespace fovea::text {
namespace {

constexpr std::array<const char*, 3> kUnits = {"characters", "words", "subwords"};
constexpr std::string_view kUnknownText = "⁇";

std::vector<std::string> split_plain(Unit unit, std::string_view text) {
  return unit == Unit::words ? split_words(valid_utf8(text)) : characters(text);
}

// The most frequent pieces; equally frequent ones by their bytes.
std::vector<std::string> most_frequent(const TokenizerConfig& config,
                                       std::span<const std::string> lines) {
  std::unordered_map<std::string, int64_t> counts;
  for (const std::string& line : lines) {
    for (std::string& piece : split_plain(config.unit, line)) {
      if (piece.size() <= kMaxTokenBytes) ++counts[std::move(piece)];
    }
  }
  std::vector<std::pair<int64_t, std::string>> ranked;
  for (const auto& [piece, count] : counts) {
    if (count >= config.min_count) ranked.emplace_back(-count, piece);
  }
  std::sort(ranked.begin(), ranked.end());
  const auto most = static_cast<size_t>(config.size - kFirst);
  if (ranked.size() > most) ranked.resize(most);
  std::vector<std::string> tokens;
  for (auto& [count, piece] : ranked) tokens.push_back(std::move(piece));
  return tokens;
}

// Symbols for what has no shape of its own: spaces (also as subwords mark them) and control
// characters.
std::string visible(std::string_view token) {
  std::string shown;
  for (const std::string& c : characters(token)) {
    const auto byte = static_cast<unsigned char>(c[0]);
    if (c == " " || c == "▁" || (byte >= 0x80 && is_space(code_point(c, 0).code))) {
      shown += "␣";
    } else if (byte < 0x20 || byte == 0x7F) {
      shown += {'\xE2', '\x90', static_cast<char>(byte == 0x7F ? 0xA1 : 0x80 + byte)};
    } else {
      shown += c;
    }
  }
  return shown;
}

std::string read_whole(const std::filesystem::path& path) {
  try {
    return read_plain_file(path, kMaxVocabularyFile);
  } catch (const Unreadable& error) {
    throw Error("tokenizer", path.string() + ": " + error.what());
  }
}

}  // namespace

const char* name_of(Unit unit) { return kUnits[static_cast<size_t>(unit)]; }

Unit unit(const std::string& name) {
  const auto* found = std::find(kUnits.begin(), kUnits.end(), name);
  if (found == kUnits.end()) {
    throw Error("unit", fmt::format("expected characters, words or subwords, found '{}'",
                                    name.substr(0, 40)));
  }
  return static_cast<Unit>(found - kUnits.begin());
}

struct Tokenizer::Impl {
  Vocabulary vocabulary;

  std::vector<std::string> split(std::string_view text) const {
    return vocabulary.unit() == Unit::subwords ? split_subwords(vocabulary, valid_utf8(text))
                                               : split_plain(vocabulary.unit(), text);
  }
};

const Tokenizer::Impl& Tokenizer::impl() const {
  if (!impl_) throw Error("Tokenizer", "was neither trained nor loaded");
  return *impl_;
}

Tokenizer Tokenizer::train(const TokenizerConfig& config, std::span<const std::string> lines) {
  if (config.size <= kFirst || config.size > kMaxVocabulary) {
    throw Error("Tokenizer::train", fmt::format("size must be {} to {}, found {}", kFirst + 1,
                                                kMaxVocabulary, config.size));
  }
  if (config.min_count < 1) {
    throw Error("Tokenizer::train",
                fmt::format("min_count must be at least 1, found {}", config.min_count));
  }
  std::vector<std::string> tokens =
      config.unit == Unit::subwords ? train_subwords(lines, config.size - kFirst, config.min_count)
                                    : most_frequent(config, lines);
  if (tokens.empty()) {
    throw Error("Tokenizer::train",
                fmt::format("{} lines hold no {} that appear {} times", lines.size(),
                            name_of(config.unit), config.min_count));
  }
  Tokenizer tokenizer;
  tokenizer.impl_ = std::make_shared<const Impl>(Impl{Vocabulary(config.unit, std::move(tokens))});
  return tokenizer;
}

Tokenizer Tokenizer::load(const std::filesystem::path& path) {
  const std::string content = read_whole(path);
  try {
    Tokenizer tokenizer;
    tokenizer.impl_ = std::make_shared<const Impl>(Impl{parse_vocabulary(content)});
    return tokenizer;
  } catch (const Error& error) {
    throw Error("tokenizer", path.string() + ": " + error.what());
  }
}

void Tokenizer::save(const std::filesystem::path& path) const {
  const std::string content = impl().vocabulary.json();
  AtomicFile file(path);
  file.write(content.data(), content.size());
  file.commit();
}

Unit Tokenizer::unit() const { return impl().vocabulary.unit(); }
int64_t Tokenizer::size() const { return impl().vocabulary.size(); }

std::vector<std::string> Tokenizer::pieces(std::string_view text) const {
  return impl().split(text);
}

std::vector<int64_t> Tokenizer::encode(std::string_view text) const {
  std::vector<int64_t> ids;
  for (const std::string& piece : impl().split(text)) ids.push_back(impl().vocabulary.id(piece));
  return ids;
}

std::string Tokenizer::join(std::span<const std::string> pieces) const {
  if (unit() == Unit::words) return join_words(pieces);
  if (unit() == Unit::subwords) return join_subwords(pieces);
  std::string text;
  for (const std::string& piece : pieces) text += piece;
  return text;
}

std::string Tokenizer::decode(std::span<const int64_t> ids) const {
  std::vector<std::string> pieces;
  for (const int64_t id : ids) {
    if (id < 0 || id >= size()) {
      throw Error("Tokenizer::decode", fmt::format("id {} is not among the {}", id, size()));
    }
    if (id == kUnknown) pieces.emplace_back(kUnknownText);
    if (id >= kFirst) pieces.push_back(impl().vocabulary.token(id));
  }
  return join(pieces);
}

std::string Tokenizer::token(int64_t id) const {
  constexpr std::array<const char*, kFirst> kSpecial = {"<pad>", "⁇", "<s>", "</s>"};
  if (id < 0 || id >= size()) {
    throw Error("Tokenizer::token", fmt::format("id {} is not among the {}", id, size()));
  }
  if (id < kFirst) return kSpecial[static_cast<size_t>(id)];
  return visible(impl().vocabulary.token(id));
}

}  // namespace fovea::text
