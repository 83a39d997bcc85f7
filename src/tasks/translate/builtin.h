#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "fovea/text.h"

// Data made up on the spot, so that every command runs with no download. Example i is a function
// of (seed, i) and the options alone.
namespace fovea::tasks::translation {

struct BuiltinOptions {
  int64_t min_words = 3, max_words = 30;  // phrases: words of the source, punctuation not counted
};

struct BuiltinData {
  std::string name, about;
  std::vector<text::Pair> (*make)(int64_t count, uint64_t seed, const BuiltinOptions&);
};

std::span<const BuiltinData> builtin_data();
const BuiltinData& builtin_data(const std::string& name);  // throws where there is none

// ---- dates: written by people in many forms and languages → yyyy-mm-dd
struct DatePlaces {
  int64_t year_begin = 0, year_end = 0;  // code points of the source; both 0: no year
};

struct WrittenDate {
  text::Pair pair;
  int64_t year = 0, month = 0, day = 0;  // 1900–2099, 1–12, 1–31
  int64_t form = 0;                      // of date_forms()
  DatePlaces places;
};

std::span<const std::string_view> date_forms();  // how each is written, for people
WrittenDate write_date(uint64_t seed, uint64_t i);
// Where the first four digits in a row stand, in any text.
DatePlaces find_year(std::string_view source);

// ---- phrases: a small grammar, English → French
text::Pair write_phrase(uint64_t seed, uint64_t i, const BuiltinOptions&);

}  // namespace fovea::tasks::translation
