#include "tokens/normalizers.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "io/base64.h"
#include "text/messages.h"
#include "tokens/normal_forms.h"
#include "tokens/part.h"

namespace fovea::tokens {
namespace {

using Json = nlohmann::ordered_json;

void to_lower(Traced& t) {
  std::vector<Change> all;
  all.reserve(t.text.size());
  bool changed = false;
  for (size_t at = 0; at < t.text.size();) {
    const char32_t c = next_code(t.text, at);
    const Lower small = lower(c);
    changed = changed || small.first != c;
    all.push_back({small.first, 0});
    if (small.second != 0) all.push_back({small.second, 1});
  }
  if (changed) rewrite(t, all);
}

void strip(Traced& t, bool left, bool right) {
  const std::vector<char32_t> codes = decoded(t.text);
  size_t begin = 0, end = codes.size();
  while (left && begin < end && is_white(codes[begin])) ++begin;
  while (right && end > begin && is_white(codes[end - 1])) --end;
  size_t next = 0;
  filter(t, [&](char32_t) {
    const size_t here = next++;
    return here >= begin && here < end;
  });
}

// ---- BERT's -------------------------------------------------------------------------------------

// The reference leaves out U+2B820–2B91F.
bool is_chinese(char32_t c) {
  return (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0x3400 && c <= 0x4DBF) ||
         (c >= 0x20000 && c <= 0x2A6DF) || (c >= 0x2A700 && c <= 0x2B73F) ||
         (c >= 0x2B740 && c <= 0x2B81F) || (c >= 0x2B920 && c <= 0x2CEAF) ||
         (c >= 0xF900 && c <= 0xFAFF) || (c >= 0x2F800 && c <= 0x2FA1F);
}

bool is_ascii(std::string_view text) {
  for (const char c : text) {
    if (static_cast<unsigned char>(c) >= 0x80) return false;
  }
  return true;
}

void clean(Traced& t) {
  const Classes& is = classes();
  filter(t, [&](char32_t c) { return c != 0 && c != 0xFFFD && !(is(c) & kControl); });
  std::vector<Change> all;
  bool changed = false;
  for (size_t at = 0; at < t.text.size();) {
    const char32_t c = next_code(t.text, at);
    changed = changed || (c != ' ' && is_white(c));
    all.push_back({is_white(c) ? U' ' : c, 0});
  }
  if (changed) rewrite(t, all);
}

void space_chinese(Traced& t) {
  std::vector<Change> all;
  bool changed = false;
  for (size_t at = 0; at < t.text.size();) {
    const char32_t c = next_code(t.text, at);
    if (is_chinese(c)) {
      changed = true;
      all.insert(all.end(), {{U' ', 0}, {c, 1}, {U' ', 1}});
    } else {
      all.push_back({c, 0});
    }
  }
  if (changed) rewrite(t, all);
}

Normalizer read_bert(const Part& part) {
  const bool cleans = part.flag("clean_text"), spaces = part.flag("handle_chinese_chars");
  const bool lowers = part.flag("lowercase"), strips = part.flag("strip_accents", lowers);
  return [=](Traced& t) {
    if (cleans) clean(t);
    const bool ascii = is_ascii(t.text);
    if (spaces && !ascii) space_chinese(t);
    if (strips && !ascii) {
      normalize(t, NormalForm::nfd);
      filter(t, [](char32_t c) { return !(classes()(c) & kNonspacing); });
    }
    if (lowers) to_lower(t);
  };
}

// ---- Replace ------------------------------------------------------------------------------------

// The one regular expression that files of these models replace.
constexpr std::string_view kTwoSpacesOrMore = " {2,}";

void replace_long_spaces(Traced& t, std::string_view by) {
  std::vector<Span> places;
  for (size_t at = 0; (at = t.text.find("  ", at)) != std::string::npos;) {
    const size_t end = std::min(t.text.find_first_not_of(' ', at), t.text.size());
    places.push_back({static_cast<uint32_t>(at), static_cast<uint32_t>(end)});
    at = end;
  }
  replace_places(t, places, by);
}

Normalizer read_replace(const Part& part) {
  const Part::Pattern pattern = part.pattern();
  const std::string by = part.text("content");
  if (!pattern.regex) {
    return [what = pattern.text, by](Traced& t) { replace(t, what, by); };
  }
  if (pattern.text != kTwoSpacesOrMore) {
    part.fail("its pattern is not known here: " + text::quoted_piece(pattern.text));
  }
  return [by](Traced& t) { replace_long_spaces(t, by); };
}

// ---- All ----------------------------------------------------------------------------------------

Normalizer read_part(const Part& part);

Normalizer read_sequence(const Part& part) {
  std::vector<Normalizer> all;
  for (const Part& one : part.parts("normalizers")) all.push_back(read_part(one));
  return [all](Traced& t) {
    for (const Normalizer& one : all) one(t);
  };
}

Normalizer read_strip(const Part& part) {
  const bool left = part.flag("strip_left"), right = part.flag("strip_right");
  return [=](Traced& t) { strip(t, left, right); };
}

Normalizer read_precompiled(const Part& part) {
  return precompiled(from_base64(part.text("precompiled_charsmap")));
}

Normalizer form(NormalForm f) {
  return [f](Traced& t) { normalize(t, f); };
}

Normalizer read_part(const Part& part) {
  const std::string& type = part.type();
  if (type == "Sequence") return read_sequence(part);
  if (type == "BertNormalizer") return read_bert(part);
  if (type == "NFC") return form(NormalForm::nfc);
  if (type == "NFD") return form(NormalForm::nfd);
  if (type == "NFKC") return form(NormalForm::nfkc);
  if (type == "NFKD") return form(NormalForm::nfkd);
  if (type == "Lowercase") return to_lower;
  if (type == "StripAccents") {
    return [](Traced& t) { filter(t, [](char32_t c) { return !(classes()(c) & kAccent); }); };
  }
  if (type == "Strip") return read_strip(part);
  if (type == "Prepend") {
    return [what = part.text("prepend")](Traced& t) { prepend(t, what); };
  }
  if (type == "Replace") return read_replace(part);
  if (type == "Precompiled") return read_precompiled(part);
  part.refuse();
}

}  // namespace

Normalizer read_normalizer(const Json& json) {
  if (json.is_null()) return {};
  return read_part(Part("normalizer", json));
}

}  // namespace fovea::tokens
