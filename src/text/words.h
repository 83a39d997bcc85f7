#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

// Words and punctuation of a sentence, and the sentence again.
//
// A word is a run of letters, digits and `_`; any code point outside ASCII is a letter unless it is
// punctuation. Inside a word, between two of its characters, - ' ’ . / & @ · stay (well-known,
// don't, e.g, and/or), and between digits also , : and no-break spaces (1,000.50, 10:30). An
// elision ends its word: l'eau is l' eau, qu'il is qu' il. Every other punctuation mark is a token.
//
// No space stands before  . , ! ? ; : ) ] } % …  nor after  ( [ { $ # £ ¿ ¡  nor on either side of
// the other marks ("quotes", dashes, =). Where the sentence has one there all the same, the mark's
// token carries it: `va ?` is `va` and ` ?`, a no-break space likewise. So the sentence comes back
// as it was, but for runs of spaces, spaces at its ends and no-break spaces between words, which
// become one, none and plain, and for a space missing where one is usual: word(s) comes back as
// word (s).
namespace fovea::text {

std::vector<std::string> split_words(std::string_view valid_utf8);
std::string join_words(std::span<const std::string> pieces);

}  // namespace fovea::text
