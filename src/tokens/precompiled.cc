#include <fmt/format.h>

#include <cstring>
#include <memory>
#include <optional>

#include "fovea/error.h"
#include "fovea/text.h"
#include "text/utf8.h"
#include "tokens/normalizers.h"

namespace fovea::tokens {
namespace {

class Charsmap {
 public:
  explicit Charsmap(const std::string& bytes) {
    uint32_t trie_bytes = 0;
    if (bytes.size() >= sizeof trie_bytes) std::memcpy(&trie_bytes, bytes.data(), 4);
    if (trie_bytes == 0 || trie_bytes % 4 != 0 || trie_bytes > bytes.size() - 4) {
      throw Error("read_tokenizer", "normalizer Precompiled: its table is cut off or no table");
    }
    units_.resize(trie_bytes / 4);
    std::memcpy(units_.data(), bytes.data() + 4, trie_bytes);
    texts_ = bytes.substr(4 + trie_bytes);
    if (text::valid_utf8(texts_) != texts_) {
      throw Error("read_tokenizer", "normalizer Precompiled: its texts are not UTF-8");
    }
  }

  // What the shortest beginning of `key` with a rule becomes.
  std::optional<std::string_view> find(std::string_view key) const {
    size_t node = 0;
    if (!step(node)) return {};
    for (const char c : key) {
      const auto byte = static_cast<unsigned char>(c);
      if (byte == 0) return {};
      node ^= byte;
      if (node >= units_.size() || label(units_[node]) != byte) return {};
      const bool ends = units_[node] >> 8 & 1;
      if (!step(node)) return {};
      if (ends) return text_at(units_[node] & 0x7FFFFFFF);
    }
    return {};
  }

 private:
  static uint32_t label(uint32_t unit) { return unit & 0x800000FF; }

  // From a node to where its children begin.
  bool step(size_t& node) const {
    const uint32_t unit = units_[node];
    node ^= size_t{unit >> 10} << ((unit & 0x200) >> 6);
    return node < units_.size();
  }

  std::optional<std::string_view> text_at(size_t at) const {
    if (at >= texts_.size() || continues(texts_[at])) return {};
    const std::string_view rest = std::string_view(texts_).substr(at);
    const size_t end = rest.find('\0');
    if (end == rest.npos) return {};
    return rest.substr(0, end);
  }

  std::vector<uint32_t> units_;
  std::string texts_;
};

// `to` stands for `n` characters. What is missing is taken out after the last character so far,
// whichever that is.
void put_changes(std::vector<Change>& all, size_t n, std::string_view to) {
  size_t put = 0;
  for (size_t at = 0; at < to.size(); ++put) {
    const char32_t c = next_code(to, at);
    all.push_back({c, put < n ? 0 : 1});
  }
  if (put < n && !all.empty()) all.back().change -= static_cast<int>(n - put);
}

// A grapheme of under six bytes is looked up whole, and is replaced whole by what its beginning
// becomes; of others, each character.
constexpr size_t kLongest = 5;

void normalize_by(const Charsmap& map, Traced& t) {
  std::vector<Change> all;
  bool changed = false;
  const std::string_view text = t.text;
  const auto put = [&](std::string_view part, size_t characters) {
    const auto to = map.find(part);
    if (to) changed = true, put_changes(all, characters, *to);
    return to.has_value();
  };
  const auto put_grapheme = [&](std::string_view grapheme) {
    const std::vector<char32_t> codes = decoded(grapheme);
    if (grapheme.size() <= kLongest && put(grapheme, codes.size())) return;
    for (size_t at = 0; at < grapheme.size();) {
      const size_t begin = at;
      const char32_t c = next_code(grapheme, at);
      if (!put(grapheme.substr(begin, at - begin), 1)) all.push_back({c, 0});
    }
  };
  size_t begin = 0;
  text::GraphemeBreaks breaks;
  for (size_t at = 0; at < text.size();) {
    const size_t here = at;
    if (breaks.before(next_code(text, at)) && here > begin) {
      put_grapheme(text.substr(begin, here - begin));
      begin = here;
    }
  }
  if (begin < text.size()) put_grapheme(text.substr(begin));
  if (changed) rewrite(t, all);
}

}  // namespace

Normalizer precompiled(std::string charsmap) {
  const auto map = std::make_shared<const Charsmap>(charsmap);
  return [map](Traced& t) { normalize_by(*map, t); };
}

}  // namespace fovea::tokens
