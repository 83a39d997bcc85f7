#include "tokens/traced.h"

#include <fmt/format.h>

#include <algorithm>

#include "fovea/error.h"
#include "text/utf8.h"

namespace fovea::tokens {
namespace {

size_t length_at(std::string_view valid, size_t at) {
  const auto first = static_cast<unsigned char>(valid[at]);
  return first < 0x80 ? 1 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
}

Span from_here(size_t begin, size_t end) {
  return {static_cast<uint32_t>(begin), static_cast<uint32_t>(end)};
}

void check_growth(size_t bytes) {
  if (bytes <= kMaxRewritten) return;
  throw Error("encode", fmt::format("normalized, the text has {} bytes, more than {}: give less of "
                                    "it at a time",
                                    bytes, kMaxRewritten));
}

bool is_valid(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    if (static_cast<unsigned char>(text[at]) < 0x80) {
      ++at;
      continue;
    }
    const text::CodePoint c = text::code_point(text, at);
    if (!c.valid) return false;
    at += c.bytes;
  }
  return true;
}

}  // namespace

Span Traced::origin(size_t begin, size_t end) const {
  if (!from.empty()) return {from[begin].begin, from[end - 1].end};
  while (begin > 0 && continues(text[begin])) --begin;
  while (end < text.size() && continues(text[end])) ++end;
  return from_here(base + begin, base + end);
}

Traced Traced::slice(size_t begin, size_t end) const {
  Traced part{.text = text.substr(begin, end - begin)};
  if (from.empty()) {
    part.base = static_cast<uint32_t>(base + begin);
  } else {
    part.from.assign(from.begin() + static_cast<std::ptrdiff_t>(begin),
                     from.begin() + static_cast<std::ptrdiff_t>(end));
    part.base = part.from.empty() ? base : part.from.front().begin;
  }
  return part;
}

Traced traced(std::string_view given) {
  if (given.size() > kMaxText) {
    throw Error("encode",
                fmt::format("a text of {} bytes, at most {} are read", given.size(), kMaxText));
  }
  Traced t;
  if (is_valid(given)) {
    t.text = given;
    return t;
  }
  for (size_t at = 0; at < given.size();) {
    const text::CodePoint c = text::code_point(given, at);
    const std::string_view bytes = c.valid ? given.substr(at, c.bytes) : text::kReplacementBytes;
    t.text += bytes;
    t.from.insert(t.from.end(), bytes.size(), from_here(at, at + c.bytes));
    at += c.bytes;
  }
  return t;
}

void spell_out(Traced& t) {
  if (!t.from.empty()) return;
  t.from.resize(t.text.size());
  for (size_t at = 0; at < t.text.size();) {
    const size_t n = length_at(t.text, at);
    std::fill_n(t.from.begin() + static_cast<std::ptrdiff_t>(at), n,
                from_here(t.base + at, t.base + at + n));
    at += n;
  }
}

void rewrite(Traced& t, std::span<const Change> changes, size_t skipped) {
  spell_out(t);
  size_t at = 0;
  const auto pass = [&](size_t characters) {
    for (; characters > 0 && at < t.text.size(); --characters) at += length_at(t.text, at);
  };
  std::string text;
  std::vector<Span> from;
  text.reserve(t.text.size());
  from.reserve(t.text.size());
  pass(skipped);
  for (const Change& c : changes) {
    const bool is_new = c.change > 0 || at >= t.text.size();
    const Span origin = !is_new ? t.from[at] : at == 0 ? Span{t.base, t.base} : t.from[at - 1];
    if (!is_new) pass(1 + static_cast<size_t>(-c.change));
    append_utf8(text, c.code);
    check_growth(text.size());
    from.resize(text.size(), origin);
  }
  t.text = std::move(text);
  t.from = std::move(from);
}

void prepend(Traced& t, std::string_view what) {
  if (t.text.empty() || what.empty()) return;
  check_growth(t.text.size() + what.size());
  spell_out(t);
  t.from.insert(t.from.begin(), what.size(), Span(t.from.front()));
  t.text.insert(0, what);
}

void replace_places(Traced& t, std::span<const Span> places, std::string_view by) {
  if (places.empty()) return;
  check_growth(t.text.size() + places.size() * by.size());
  spell_out(t);
  Traced changed{.base = t.base};
  changed.text.reserve(t.text.size() + places.size() * by.size());
  changed.from.reserve(changed.text.capacity());
  const auto keep = [&](size_t begin, size_t end) {
    changed.text.append(t.text, begin, end - begin);
    changed.from.insert(changed.from.end(), t.from.begin() + static_cast<std::ptrdiff_t>(begin),
                        t.from.begin() + static_cast<std::ptrdiff_t>(end));
  };
  size_t at = 0;
  for (const Span& place : places) {
    keep(at, place.begin);
    changed.text += by;
    changed.from.resize(changed.text.size(), t.from[place.end - 1]);
    at = place.end;
  }
  keep(at, t.text.size());
  t = std::move(changed);
}

void replace(Traced& t, std::string_view what, std::string_view by) {
  std::vector<Span> places;
  for (size_t at = 0; (at = t.text.find(what, at)) != std::string::npos; at += what.size()) {
    places.push_back(from_here(at, at + what.size()));
  }
  replace_places(t, places, by);
}

}  // namespace fovea::tokens
