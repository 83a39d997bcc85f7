#pragma once

#include <string>
#include <string_view>

// Tokens as labels: what they say, how wide that is, and safe where it is written.
namespace fovea::report {

// Line ends, tabs and blanks that stand alone become signs; other control characters, and those
// that turn the writing direction, vanish.
std::string visible(std::string_view utf8);

// Text that goes to a terminal, where control characters steer: they vanish, but for line ends and
// tabs.
std::string for_terminal(std::string_view utf8);

int columns_of(std::string_view utf8);                // of a terminal, as text::columns() counts
std::string cut(std::string_view utf8, int columns);  // "…" for what does not fit
std::string padded(std::string text, int columns);    // blanks behind it
// Columns that a label takes in a proportional font: more in scripts whose letters are broad, or
// whose marks become boxes where there is no font for them.
double drawn_columns_of(std::string_view utf8);

// For fonts that are drawn as outlines: emoji that are pictures become signs, one for each part of
// a joined one and without the colour of the skin.
std::string without_pictures(std::string_view utf8);

// For the text and the quoted attributes of SVG and HTML: no markup, no character XML forbids.
std::string escape(std::string_view utf8);

// JSON for a <script>: nothing in it ends the element or starts a comment.
std::string for_script(std::string json);

// A weight, a loss, a percentage: four digits that count.
std::string number(double);

}  // namespace fovea::report
