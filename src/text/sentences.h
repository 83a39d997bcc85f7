#pragma once

#include <string>
#include <string_view>
#include <vector>

// Sentences of a text, without the spaces around them; none is empty.
//
// A line break ends a sentence. Within a line . ! ? … do, with the closing quotes and brackets that
// follow, where a space or the line's end comes next; 。！？ need no space. Not so
//   - a full stop after an abbreviation (Mr. e.g. U.S.) or a single letter (J. Smith), though a
//     space stands between them;
//   - where a small letter goes on ("Stop!" he said), unless the text has no capitals or the mark
//     stands by itself, as in text that was taken apart before (great ! i loved it).
namespace fovea::text {

std::vector<std::string> split_sentences(std::string_view valid_utf8);

}  // namespace fovea::text
