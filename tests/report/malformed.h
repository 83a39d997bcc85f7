#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

// Whether every tag is closed in its order, every attribute quoted, every & an entity; what stands
// in <style> and <script> is text. Gives what is wrong first, or "".
namespace fovea::report {

inline std::string bad_entity(std::string_view text) {
  for (size_t i = text.find('&'); i != std::string_view::npos; i = text.find('&', i + 1)) {
    const std::string_view rest = text.substr(i, 8);
    bool known = false;
    for (const char* entity : {"&amp;", "&lt;", "&gt;", "&quot;", "&#39;"}) {
      known = known || rest.starts_with(entity);
    }
    if (!known) return "bare & in: " + std::string(text.substr(i, 30));
  }
  return "";
}

// name="value" pairs, blanks between them.
inline std::string bad_attributes(std::string_view text) {
  size_t i = 0;
  while ((i = text.find_first_not_of(" \n", i)) != std::string_view::npos) {
    const size_t equals = text.find("=\"", i);
    if (equals == std::string_view::npos) return "attribute without value: " + std::string(text);
    if (text.substr(i, equals - i).find_first_of(" \"'<>") != std::string_view::npos) {
      return "attribute name: " + std::string(text);
    }
    const size_t end = text.find('"', equals + 2);
    if (end == std::string_view::npos) return "open quote: " + std::string(text);
    const std::string_view value = text.substr(equals + 2, end - equals - 2);
    if (value.find('<') != std::string_view::npos) return "< in: " + std::string(value);
    if (const std::string bad = bad_entity(value); !bad.empty()) return bad;
    i = end + 1;
  }
  return "";
}

inline std::string malformed(std::string_view text) {
  constexpr std::string_view kDoctype = "<!DOCTYPE html>";
  if (text.starts_with(kDoctype)) text.remove_prefix(kDoctype.size());
  std::vector<std::string> open;
  while (!text.empty()) {
    const size_t start = std::min(text.find('<'), text.size());
    if (const std::string bad = bad_entity(text.substr(0, start)); !bad.empty()) return bad;
    if (start == text.size()) break;
    const size_t end = text.find('>', start);
    if (end == std::string_view::npos) return "a tag without an end";
    std::string_view tag = text.substr(start + 1, end - start - 1);
    text.remove_prefix(end + 1);
    if (tag.starts_with('/')) {
      if (open.empty() || open.back() != tag.substr(1)) return "closes: " + std::string(tag);
      open.pop_back();
      continue;
    }
    const bool empty = tag.ends_with('/');
    if (empty) tag.remove_suffix(1);
    const std::string name(tag.substr(0, tag.find_first_of(" \n")));
    if (const std::string bad = bad_attributes(tag.substr(name.size())); !bad.empty()) return bad;
    if (empty) continue;
    open.push_back(name);
    if (name == "style" || name == "script") {
      const size_t close = text.find("</" + name);
      if (close == std::string_view::npos) return "open " + name;
      text.remove_prefix(close);
    }
  }
  return open.empty() ? "" : "never closed: " + open.back();
}

inline size_t count(std::string_view text, std::string_view what) {
  size_t found = 0;
  for (size_t i = text.find(what); i != std::string_view::npos; i = text.find(what, i + 1)) ++found;
  return found;
}

}  // namespace fovea::report
