// Any bytes are pairs or throw fovea::Error; pairs have two sides of valid UTF-8, on one line each,
// and words that join again.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "fovea/error.h"
#include "fovea/text.h"
#include "text/lines.h"
#include "text/words.h"

namespace {

void require(bool holds) {
  if (!holds) std::abort();
}

void check(const std::string& text) {
  require(!text.empty() && text.size() <= 3 * fovea::text::kMaxLine);
  require(text.find_first_of(std::string_view("\0\n\t", 3)) == std::string::npos);
  require(fovea::text::valid_utf8(text) == text);
  const std::string joined = fovea::text::join_words(fovea::text::split_words(text));
  require(fovea::text::join_words(fovea::text::split_words(joined)) == joined);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using fovea::text::LineReader;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  try {
    const fovea::text::Tsv read = fovea::text::parse_tsv(
        LineReader::of_memory("tsv", "fuzz", bytes), fovea::text::MoreColumns::leave_out);
    for (const auto& pair : read.pairs) {
      check(pair.source);
      check(pair.target);
    }
  } catch (const fovea::Error&) {
  }
  try {
    fovea::text::parse_parallel(LineReader::of_memory("tsv", "source", bytes.substr(size / 2)),
                                LineReader::of_memory("tsv", "target", bytes.substr(0, size / 2)));
  } catch (const fovea::Error&) {
  }
  return 0;
}
