#pragma once

#include <fmt/format.h>

#include <iterator>
#include <string>
#include <utility>

namespace fovea::report {

// SVG or HTML that grows at its end.
class Markup {
 public:
  template <class... Args>
  void put(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(text_), format, std::forward<Args>(args)...);
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

}  // namespace fovea::report
