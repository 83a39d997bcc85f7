// Any bytes are a tokenizer.json or throw fovea::Error; a tokenizer cuts any text, gives places
// within it, in whole characters, and decodes what it gave, and any ids, to UTF-8.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "fovea/error.h"
#include "fovea/text.h"
#include "tokens/tokenizer.h"

namespace {

void require(bool holds) {
  if (!holds) std::abort();
}

void check_text(const fovea::tokens::Tokenizer& tokenizer, std::string_view text) {
  std::vector<int64_t> ids;
  for (const auto& token : tokenizer.encode_pair(text, "a second one")) {
    require(token.id >= 0);
    ids.push_back(token.id);
    tokenizer.shown(token.id);
  }
  for (const auto& token : tokenizer.encode(text, fovea::tokens::Specials::none)) {
    require(token.begin <= text.size() + 4);
  }
  ids.insert(ids.end(), {-1, tokenizer.size(), 1 << 30});
  const std::string decoded = tokenizer.decode(ids, fovea::tokens::KeptTokens::all);
  require(fovea::text::valid_utf8(decoded) == decoded);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  try {
    const auto tokenizer = fovea::tokens::parse_tokenizer(bytes);
    for (const std::string_view text :
         {std::string_view(
              "I'm  the é\xFF\xF0\x9F eye's 12345\r\n \xE2\x96\x81 北京 <s>e\xCC\x81 "),
          bytes.substr(size > 200 ? size - 200 : 0)}) {
      try {
        check_text(tokenizer, text);
      } catch (const fovea::Error&) {
      }
    }
  } catch (const fovea::Error&) {
  }
  return 0;
}
