// Any bytes are a vocabulary or throw fovea::Error; a vocabulary writes itself, and its subwords
// give the text back.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "fovea/error.h"
#include "text/subwords.h"
#include "text/vocabulary.h"

namespace {

void require(bool holds) {
  if (!holds) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace fovea::text;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  try {
    const Vocabulary vocabulary = parse_vocabulary(bytes);
    require(parse_vocabulary(vocabulary.json()).json() == vocabulary.json());
    for (int64_t id = kFirst; id < vocabulary.size(); ++id) {
      require(vocabulary.id(vocabulary.token(id)) == id);
    }
    const std::string text = valid_utf8(bytes);
    std::string joined;
    for (const std::string& piece : split_subwords(vocabulary, text)) joined += piece;
    require(joined == with_space_marks(text));
  } catch (const fovea::Error&) {
  }
  return 0;
}
