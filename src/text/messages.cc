#include "text/messages.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "fovea/text.h"
#include "text/utf8.h"

namespace fovea::text {

bool FirstFew::add(std::string one) {
  ++count_;
  if (first_.size() == kMost) return false;
  first_.push_back(std::move(one));
  return true;
}

std::string FirstFew::text() const {
  const int64_t more = count_ - static_cast<int64_t>(first_.size());
  return fmt::format("{}{}", fmt::join(first_, ", "),
                     more > 0 ? fmt::format(" and {} more", more) : "");
}

std::string quoted_piece(std::string_view found) {
  constexpr size_t kMost = 40;  // characters
  std::string piece;
  size_t n = 0;
  for (const std::string& c : characters(found.substr(0, 4 * (kMost + 1)))) {
    if (n++ == kMost) return "'" + piece + "…'";
    piece += static_cast<unsigned char>(c[0]) < 0x20 || c[0] == 0x7F ? "?" : c;
  }
  return "'" + piece + "'";
}

std::string shell_quoted(std::string_view argument) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:,+@%=";
  const bool plain =
      !argument.empty() && std::all_of(argument.begin(), argument.end(), [&](char c) {
        return static_cast<unsigned char>(c) >= 0x80 || kPlain.find(c) != kPlain.npos;
      });
  if (plain) return std::string(argument);
  std::string quoted = "'";
  for (const char c : argument) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

std::string shell_path(std::string_view path) {
  return (path.starts_with('-') ? "./" : "") + shell_quoted(path);
}

}  // namespace fovea::text
