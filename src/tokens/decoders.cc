#include "tokens/decoders.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "fovea/text.h"
#include "text/utf8.h"
#include "tokens/characters.h"
#include "tokens/models.h"
#include "tokens/part.h"
#include "tokens/pre_tokenizers.h"

namespace fovea::tokens {
namespace {

using Texts = std::vector<std::string>;

void fuse(Texts& all) {
  std::string whole;
  for (const std::string& text : all) whole += text;
  all = {std::move(whole)};
}

// A piece that spells no bytes is text already.
void decode_bytes(Texts& all) {
  std::string whole, bytes;
  for (const std::string& piece : all) whole += bytes_of_spelled(piece, bytes) ? bytes : piece;
  all = {text::valid_utf8(whole)};
}

// ---- <0x0A> -------------------------------------------------------------------------------------

// The byte of "<0x0A>", or −1.
int byte_of(std::string_view piece) {
  if (piece.size() != 6 || !piece.starts_with("<0x") || piece.back() != '>') return -1;
  int byte = -1;
  const auto [end, error] = std::from_chars(piece.data() + 3, piece.data() + 5, byte, 16);
  return error == std::errc{} && end == piece.data() + 5 ? byte : -1;
}

// Bytes side by side are a text where they are UTF-8; otherwise each is U+FFFD.
void join_bytes(Texts& all) {
  Texts joined;
  std::string bytes;
  const auto flush = [&] {
    if (bytes.empty()) return;
    if (text::valid_utf8(bytes) == bytes) {
      joined.push_back(bytes);
    } else {
      joined.insert(joined.end(), bytes.size(), std::string(text::kReplacementBytes));
    }
    bytes.clear();
  };
  for (std::string& piece : all) {
    if (const int byte = byte_of(piece); byte >= 0) {
      bytes += static_cast<char>(byte);
      continue;
    }
    flush();
    joined.push_back(std::move(piece));
  }
  flush();
  all = std::move(joined);
}

// ---- Others -------------------------------------------------------------------------------------

// English as it is written: no space before a full stop.
void clean_up(std::string& text) {
  constexpr std::pair<const char*, const char*> kRules[] = {
      {" .", "."},   {" ?", "?"},     {" !", "!"},     {" ,", ","},
      {" ' ", "'"},  {" n't", "n't"}, {" 'm", "'m"},   {" do not", " don't"},
      {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"},
  };
  for (const auto& [what, by] : kRules) replace_each(text, what, by);
}

Decoder read_word_piece_decoder(const Part& part) {
  const std::string prefix = part.text("prefix");
  const bool cleans = part.flag("cleanup", true);
  return [=](Texts& all) {
    for (size_t i = 0; i < all.size(); ++i) {
      if (i > 0 && all[i].starts_with(prefix)) {
        all[i].erase(0, prefix.size());
      } else if (i > 0) {
        all[i].insert(0, 1, ' ');
      }
      if (cleans) clean_up(all[i]);
    }
  };
}

Decoder read_metaspace_decoder(const Part& part) {
  const std::string mark = utf8_of(part.character("replacement"));
  const bool drops = part.has("prepend_scheme") ? part.text("prepend_scheme") != "never"
                                                : part.flag("add_prefix_space", true);
  return [=](Texts& all) {
    for (size_t i = 0; i < all.size(); ++i) replace_each(all[i], mark, i == 0 && drops ? "" : " ");
  };
}

Decoder read_replace_decoder(const Part& part) {
  const Part::Pattern pattern = part.pattern();
  const std::string by = part.text("content");
  if (pattern.regex) part.fail("its pattern is not known here: " + pattern.text);
  return [what = pattern.text, by](Texts& all) {
    for (std::string& text : all) replace_each(text, what, by);
  };
}

Decoder read_strip_decoder(const Part& part) {
  const std::string what = utf8_of(part.character("content"));
  const int64_t start = part.number("start"), stop = part.number("stop");
  return [=](Texts& all) {
    for (std::string& text : all) {
      for (int64_t i = 0; i < start && text.starts_with(what); ++i) text.erase(0, what.size());
      for (int64_t i = 0; i < stop && text.ends_with(what); ++i) {
        text.resize(text.size() - what.size());
      }
    }
  };
}

Decoder read_bpe_decoder(const Part& part) {
  const std::string suffix = part.text("suffix");
  if (suffix.empty()) part.fail("its suffix is empty");
  return [suffix](Texts& all) {
    for (size_t i = 0; i < all.size(); ++i) {
      replace_each(all[i], suffix, i + 1 < all.size() ? " " : "");
    }
  };
}

Decoder read_one(const Part& part);

Decoder read_sequence_decoder(const Part& part) {
  std::vector<Decoder> steps;
  for (const Part& one : part.parts("decoders")) steps.push_back(read_one(one));
  return [steps](Texts& all) {
    for (const Decoder& step : steps) step(all);
  };
}

Decoder read_one(const Part& part) {
  const std::string& type = part.type();
  if (type == "ByteLevel") return decode_bytes;
  if (type == "ByteFallback") return join_bytes;
  if (type == "Fuse") return fuse;
  if (type == "WordPiece") return read_word_piece_decoder(part);
  if (type == "Metaspace") return read_metaspace_decoder(part);
  if (type == "Replace") return read_replace_decoder(part);
  if (type == "Strip") return read_strip_decoder(part);
  if (type == "BPEDecoder") return read_bpe_decoder(part);
  if (type == "Sequence") return read_sequence_decoder(part);
  part.refuse();
}

}  // namespace

Decoder read_decoder(const nlohmann::ordered_json& json) {
  if (!json.is_null()) return read_one(Part("decoder", json));
  return [](Texts& all) {
    for (size_t i = 1; i < all.size(); ++i) all[i].insert(0, 1, ' ');
  };
}

Decoder spm_decoder(std::shared_ptr<const text::SentencePieces> model,
                    std::vector<std::string> special) {
  return [model, special](Texts& all) {
    std::string whole;
    Texts held;
    for (std::string& piece : all) {
      if (std::find(special.begin(), special.end(), piece) == special.end()) {
        held.push_back(std::move(piece));
        continue;
      }
      whole += model->decode(held) + piece + ' ';
      held.clear();
    }
    whole += model->decode(held);
    replace_each(whole, kMark, " ");
    const size_t begin = std::min(whole.find_first_not_of(' '), whole.size());
    const size_t end = whole.find_last_not_of(' ') + 1;
    all = {text::valid_utf8(whole.substr(begin, std::max(end, begin) - begin))};
  };
}

}  // namespace fovea::tokens
