// Any bytes are documents or throw fovea::Error; a document has a label and a text of valid UTF-8,
// and its sentences hold what it holds, spaces apart.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "fovea/error.h"
#include "fovea/text.h"
#include "text/labelled.h"
#include "text/sentences.h"
#include "text/utf8.h"

namespace {

void require(bool holds) {
  if (!holds) std::abort();
}

std::string without_spaces(std::string_view text) {
  std::string rest;
  fovea::text::for_each_code_point(text, [&](char32_t code, std::string_view bytes) {
    if (!fovea::text::is_space(code)) rest += bytes;
  });
  return rest;
}

void check(const fovea::text::Labelled& document) {
  for (const std::string& text : {document.label, document.text}) {
    require(!text.empty() && text.find('\0') == std::string::npos);
    require(fovea::text::valid_utf8(text) == text);
  }
  std::string all;
  for (const std::string& sentence : fovea::text::split_sentences(document.text)) {
    require(!sentence.empty());
    all += sentence;
  }
  require(without_spaces(all) == without_spaces(document.text));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace fovea::text;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  for (const auto parse : {parse_labelled_tsv, parse_labelled_csv, parse_labelled_jsonl}) {
    try {
      for (const Labelled& d : parse(LineReader::of_memory("labelled", "fuzz", bytes), {}))
        check(d);
    } catch (const fovea::Error&) {
    }
  }
  return 0;
}
