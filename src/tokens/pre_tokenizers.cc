#include "tokens/pre_tokenizers.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "text/messages.h"
#include "tokens/part.h"
#include "tokens/patterns.h"

namespace fovea::tokens {
namespace {

using Step = std::function<void(Split&)>;

Span span_of(size_t begin, size_t end) {
  return {static_cast<uint32_t>(begin), static_cast<uint32_t>(end)};
}

// cut(text, word, put): puts the words that this one becomes.
template <class Cut>
void cut_words(Split& split, Cut&& cut) {
  std::vector<Span> words;
  words.reserve(split.words.size());
  for (const Span& word : split.words) {
    cut(std::string_view(split.traced.text), word, [&](size_t begin, size_t end) {
      if (begin < end) words.push_back(span_of(begin, end));
    });
  }
  split.words = std::move(words);
}

void split_by_words(Split& split, Words words) {
  cut_words(split, [words](std::string_view text, Span word, auto&& put) {
    const std::string_view here = text.substr(0, word.end);
    for (size_t at = word.begin; at < word.end;) {
      const size_t end = word_end(words, here, at);
      put(at, end);
      at = end;
    }
  });
}

// ---- Spaces and punctuation ---------------------------------------------------------------------

void split_at_spaces(Split& split) {
  cut_words(split, [](std::string_view text, Span word, auto&& put) {
    size_t begin = word.begin;
    for (size_t at = word.begin; at < word.end;) {
      const size_t here = at;
      if (!is_white(next_code(text, at))) continue;
      put(begin, here);
      begin = at;
    }
    put(begin, word.end);
  });
}

void isolate_punctuation(Split& split) {
  cut_words(split, [&is = classes()](std::string_view text, Span word, auto&& put) {
    size_t begin = word.begin;
    for (size_t at = word.begin; at < word.end;) {
      const size_t here = at;
      if (!(is(next_code(text, at)) & kPunctuation)) continue;
      put(begin, here);
      put(here, at);
      begin = at;
    }
    put(begin, word.end);
  });
}

void split_as_bert(Split& split) {
  split_at_spaces(split);
  isolate_punctuation(split);
}

// ---- Split --------------------------------------------------------------------------------------

enum class Behavior : uint8_t { removed, isolated, with_previous, with_next, contiguous };

struct Segment {
  size_t begin, end;
  bool match;
};

std::vector<Segment> segments_of(std::string_view text, Span word, std::string_view what) {
  std::vector<Segment> all;
  const std::string_view here = text.substr(0, word.end);
  size_t at = word.begin;
  for (size_t found; (found = here.find(what, at)) != here.npos; at = found + what.size()) {
    if (found > at) all.push_back({at, found, false});
    all.push_back({found, found + what.size(), true});
  }
  if (at < word.end) all.push_back({at, word.end, false});
  return all;
}

// Whether b goes on with a, its neighbour before it.
bool joins(Behavior behavior, const Segment& a, const Segment& b) {
  if (behavior == Behavior::with_previous) return b.match && !a.match;
  if (behavior == Behavior::with_next) return a.match && !b.match;
  return behavior == Behavior::contiguous && a.match && b.match;
}

void split_at(Split& split, std::string_view what, Behavior behavior) {
  cut_words(split, [=](std::string_view text, Span word, auto&& put) {
    const std::vector<Segment> all = segments_of(text, word, what);
    for (size_t i = 0; i < all.size();) {
      size_t last = i;
      while (last + 1 < all.size() && joins(behavior, all[last], all[last + 1])) ++last;
      if (behavior != Behavior::removed || !all[i].match) put(all[i].begin, all[last].end);
      i = last + 1;
    }
  });
}

Behavior read_behavior(const Part& part) {
  const std::string name = part.text("behavior");
  if (name == "Removed") return Behavior::removed;
  if (name == "Isolated") return Behavior::isolated;
  if (name == "MergedWithPrevious") return Behavior::with_previous;
  if (name == "MergedWithNext") return Behavior::with_next;
  if (name == "Contiguous") return Behavior::contiguous;
  part.fail("its behavior is not known here: " + text::quoted_piece(name));
}

Step read_split(const Part& part) {
  const Part::Pattern pattern = part.pattern();
  const Behavior behavior = read_behavior(part);
  const bool invert = part.flag("invert", false);
  if (!pattern.regex) {
    if (invert) part.fail("it keeps what it finds (\"invert\"), which is not known here");
    return [=, what = pattern.text](Split& split) { split_at(split, what, behavior); };
  }
  const std::optional<Words> words = words_of(pattern.text);
  if (!words) part.fail("its pattern is not known here: " + pattern.text);
  // Matches lie side by side: to keep them alone is to set them apart.
  if (behavior != (invert ? Behavior::removed : Behavior::isolated) &&
      behavior != Behavior::isolated) {
    part.fail("its behavior is not known here for this pattern");
  }
  return [words = *words](Split& split) { split_by_words(split, words); };
}

// ---- Words that are written anew ----------------------------------------------------------------

// Writes words one after another into a new text.
class Rewriter {
 public:
  explicit Rewriter(Split& split) : old_(std::move(split.traced)), split_(split) {
    split.traced = {.base = old_.base};
    words_.swap(split.words);
    split.traced.text.reserve(old_.text.size() + words_.size());
    split.traced.from.reserve(old_.text.size() + words_.size());
  }
  const std::vector<Span>& words() const { return words_; }
  std::string_view text() const { return old_.text; }
  uint32_t begin_of(Span word) const { return old_.origin(word.begin, word.end).begin; }

  // `bytes` in place of the old [begin, end), or beside it.
  void put(std::string_view bytes, size_t begin, size_t end) {
    split_.traced.text += bytes;
    split_.traced.from.resize(split_.traced.text.size(), old_.origin(begin, end));
  }
  void begin_word() { begin_ = split_.traced.text.size(); }
  void end_word() {
    const size_t end = split_.traced.text.size();
    if (end > begin_) split_.words.push_back(span_of(begin_, end));
    begin_ = end;
  }

 private:
  Traced old_;
  std::vector<Span> words_;
  Split& split_;
  size_t begin_ = 0;
};

// Every word anew: put(writer, word, begin, end) for each of its characters [begin, end).
template <class Put>
void rewrite_words(Split& split, const Put& put) {
  Rewriter writer(split);
  for (const Span& word : writer.words()) {
    writer.begin_word();
    for (size_t at = word.begin; at < word.end;) {
      const size_t here = at;
      next_code(writer.text(), at);
      put(writer, word, here, at);
    }
    writer.end_word();
  }
}

enum class Prepend : uint8_t { always, first, never };

struct Metaspace {
  std::string mark;  // ▁
  Prepend prepend = Prepend::always;
  bool split = true;
};

void mark_spaces(Split& split, const Metaspace& m) {
  Rewriter writer(split);
  const std::string_view text = writer.text();
  for (const Span& word : writer.words()) {
    const std::string_view whole = text.substr(word.begin, word.end - word.begin);
    const bool marked = whole[0] == ' ' || whole.starts_with(m.mark);
    const bool wanted =
        m.prepend == Prepend::always || (m.prepend == Prepend::first && writer.begin_of(word) == 0);
    writer.begin_word();
    size_t at = word.begin;
    if (!marked && wanted) {
      size_t second = at;
      next_code(text, second);
      writer.put(m.mark, at, second);
    }
    while (at < word.end) {
      const size_t here = at;
      next_code(text, at);
      const std::string_view bytes = text.substr(here, at - here);
      const bool mark = bytes == " " || bytes == m.mark;
      if (mark && m.split) writer.end_word();
      writer.put(mark ? std::string_view(m.mark) : bytes, here, at);
    }
    writer.end_word();
  }
}

Step read_metaspace(const Part& part) {
  Metaspace m{.mark = utf8_of(part.character("replacement"))};
  if (part.has("prepend_scheme")) {
    const std::string name = part.text("prepend_scheme");
    if (name != "always" && name != "first" && name != "never") {
      part.fail("its prepend_scheme is not known here: " + text::quoted_piece(name));
    }
    m.prepend = name == "always"  ? Prepend::always
                : name == "first" ? Prepend::first
                                  : Prepend::never;
  } else if (!part.flag("add_prefix_space", true)) {
    m.prepend = Prepend::never;
  }
  m.split = part.flag("split", true);
  return [m](Split& split) { mark_spaces(split, m); };
}

void prepend_spaces(Split& split) {
  const auto has_space = [&](Span word) { return split.traced.text[word.begin] == ' '; };
  if (std::all_of(split.words.begin(), split.words.end(), has_space)) return;
  rewrite_words(split, [](Rewriter& to, Span word, size_t begin, size_t end) {
    const std::string_view character = to.text().substr(begin, end - begin);
    if (begin == word.begin && character != " ") to.put(" ", begin, end);
    to.put(character, begin, end);
  });
}

// ---- Bytes --------------------------------------------------------------------------------------

// The byte that U+0000 … U+0143 stand for in byte-level vocabularies: themselves where they are
// visible, the other bytes from U+0100 on in their order; −1: none.
constexpr char32_t kLastSpelled = 0x143;
struct ByteSpelling {
  std::array<char32_t, 256> code;
  std::array<int16_t, kLastSpelled + 1> byte;
};

const ByteSpelling& byte_spelling() {
  static const ByteSpelling all = [] {
    ByteSpelling s;
    s.byte.fill(-1);
    char32_t next = 0x100;
    for (char32_t b = 0; b < 256; ++b) {
      const bool visible = (b >= '!' && b <= '~') || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE;
      s.code[b] = visible ? b : next++;
      s.byte[s.code[b]] = static_cast<int16_t>(b);
    }
    return s;
  }();
  return all;
}

// ---- All ----------------------------------------------------------------------------------------

void read_step(const Part& part, std::vector<Step>& steps, bool& byte_level);

void read_byte_level(const Part& part, std::vector<Step>& steps) {
  if (part.flag("add_prefix_space")) steps.push_back(prepend_spaces);
  if (part.flag("use_regex", true)) {
    steps.push_back([](Split& split) { split_by_words(split, Words::gpt2); });
  }
}

void read_step(const Part& part, std::vector<Step>& steps, bool& byte_level) {
  const std::string& type = part.type();
  if (byte_level) part.fail("it comes after ByteLevel, which is not known here");
  if (type == "Sequence") {
    for (const Part& one : part.parts("pretokenizers")) read_step(one, steps, byte_level);
  } else if (type == "ByteLevel") {
    read_byte_level(part, steps);
    byte_level = true;
  } else if (type == "BertPreTokenizer") {
    steps.push_back(split_as_bert);
  } else if (type == "WhitespaceSplit") {
    steps.push_back(split_at_spaces);
  } else if (type == "Metaspace") {
    steps.push_back(read_metaspace(part));
  } else if (type == "Split") {
    steps.push_back(read_split(part));
  } else {
    part.refuse();
  }
}

}  // namespace

PreTokenizer read_pre_tokenizer(const nlohmann::ordered_json& json) {
  PreTokenizer all;
  if (json.is_null()) return all;
  std::vector<Step> steps;
  read_step(Part("pre_tokenizer", json), steps, all.byte_level);
  all.apply = [steps](Split& split) {
    for (const Step& step : steps) step(split);
  };
  return all;
}

char32_t spelled_byte(unsigned char byte) { return byte_spelling().code[byte]; }

bool bytes_of_spelled(std::string_view piece, std::string& bytes) {
  const ByteSpelling& spelling = byte_spelling();
  bytes.clear();
  for (size_t at = 0; at < piece.size();) {
    const char32_t c = next_code(piece, at);
    if (c > kLastSpelled || spelling.byte[c] < 0) return false;
    bytes += static_cast<char>(spelling.byte[c]);
  }
  return true;
}

void spell_bytes(Split& split) {
  rewrite_words(split, [](Rewriter& to, Span, size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) {
      to.put(utf8_of(spelled_byte(static_cast<unsigned char>(to.text()[i]))), begin, end);
    }
  });
}

}  // namespace fovea::tokens
