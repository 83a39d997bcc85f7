#pragma once

#include <string>
#include <string_view>
#include <vector>

// Tokens as labels: what they say, how wide that is, and safe where it is written.
namespace fovea::report {

// Line ends, tabs and blanks that stand alone become signs; other control characters, and those
// that turn the writing direction, vanish.
std::string visible(std::string_view utf8);

int columns_of(std::string_view utf8);                       // of a terminal: 0, 1 or 2 a character
std::string cut(std::string_view utf8, int columns);         // "…" for what does not fit
std::vector<std::string> characters(std::string_view utf8);  // each with its combining marks

// For the text and the quoted attributes of SVG and HTML: no markup, no character XML forbids.
std::string escape(std::string_view utf8);

// JSON for a <script>: nothing in it ends the element or starts a comment.
std::string for_script(std::string json);

// A weight, a loss, a percentage: four digits that count.
std::string number(double);

}  // namespace fovea::report
