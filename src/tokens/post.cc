#include "tokens/post.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "io/json.h"
#include "text/messages.h"
#include "text/utf8.h"
#include "tokens/part.h"
#include "tokens/pieces.h"

namespace fovea::tokens {
namespace {

using Json = nlohmann::ordered_json;

void set_types(Sequence& sequence, int64_t type) {
  for (SpacedToken& written : sequence.tokens) written.token.type = type;
}

SpacedToken special_token(int64_t id, int64_t type) { return {.token = {.id = id, .type = type}}; }

// ---- Places without spaces ----------------------------------------------------------------------

size_t forward(std::string_view text, size_t at, uint32_t characters) {
  for (; characters > 0 && at < text.size(); --characters) at += text::code_point(text, at).bytes;
  return at;
}

// `at` where so many characters do not come before.
size_t backward(std::string_view text, size_t at, uint32_t characters) {
  size_t begin = at;
  for (; characters > 0; --characters) {
    if (begin == 0) return at;
    --begin;
    while (begin > 0 && (static_cast<unsigned char>(text[begin]) & 0xC0) == 0x80) --begin;
  }
  return begin;
}

// A space that the pre-tokenizer has put before the text is not in it.
void trim(Sequence& sequence, bool prefix_space) {
  for (size_t i = 0; i < sequence.tokens.size(); ++i) {
    SpacedToken& written = sequence.tokens[i];
    Token& token = written.token;
    uint32_t before = written.blanks_before;
    const bool first = i == 0 || token.begin == 0;
    if (first && prefix_space && before == 1) before = 0;
    if (before > 0) token.begin = std::min(forward(sequence.given, token.begin, before), token.end);
    if (written.blanks_after > 0) {
      token.end = std::max(backward(sequence.given, token.end, written.blanks_after), token.begin);
    }
  }
}

void trim_all(std::vector<Sequence>& all, bool prefix_space) {
  for (Sequence& sequence : all) trim(sequence, prefix_space);
}

// ---- Kinds --------------------------------------------------------------------------------------

int64_t read_id(const Part& part, const Json& json) {
  const int64_t id = whole_number(json);
  if (id < 0 || id > kMaxId) part.fail(fmt::format("id {}, expected 0 to {}", id, kMaxId));
  return id;
}

// ["[SEP]", 102]
int64_t read_named_id(const Part& part, const char* name) {
  const Json& pair = part.at(name);
  if (!pair.is_array() || pair.size() != 2) part.fail(fmt::format("\"{}\" is no pair", name));
  return read_id(part, pair[1]);
}

PostProcessor read_bert_post(const Part& part) {
  const int64_t separator = read_named_id(part, "sep"), first = read_named_id(part, "cls");
  return [=](std::vector<Sequence>& all, Specials specials) {
    if (specials == Specials::none) return;
    for (size_t i = 0; i < all.size(); ++i) {
      auto& tokens = all[i].tokens;
      if (i == 0) tokens.insert(tokens.begin(), special_token(first, 0));
      tokens.push_back(special_token(separator, i == 0 ? 0 : 1));
    }
  };
}

PostProcessor read_roberta_post(const Part& part) {
  const int64_t separator = read_named_id(part, "sep"), first = read_named_id(part, "cls");
  const bool trims = part.flag("trim_offsets"), prefix_space = part.flag("add_prefix_space");
  return [=](std::vector<Sequence>& all, Specials specials) {
    if (trims) trim_all(all, prefix_space);
    for (size_t i = 0; i < all.size(); ++i) {
      set_types(all[i], 0);
      if (specials == Specials::none) continue;
      auto& tokens = all[i].tokens;
      tokens.insert(tokens.begin(), special_token(i == 0 ? first : separator, 0));
      tokens.push_back(special_token(separator, 0));
    }
  };
}

PostProcessor read_byte_level_post(const Part& part) {
  const bool trims = part.flag("trim_offsets"), prefix_space = part.flag("add_prefix_space");
  return [=](std::vector<Sequence>& all, Specials) {
    if (trims) trim_all(all, prefix_space);
  };
}

// ---- Templates ----------------------------------------------------------------------------------

struct Slot {
  int sequence = -1;         // 0 or 1: A or B
  std::vector<int64_t> ids;  // otherwise: special tokens
  int64_t type = 0;
};
using Template = std::vector<Slot>;

std::vector<int64_t> read_special(const Part& part, const std::string& name) {
  const Json& all = part.at("special_tokens");
  if (!all.is_object() || !all.contains(name) || !all[name].is_object() ||
      !all[name].contains("ids") || !all[name]["ids"].is_array()) {
    part.fail(fmt::format("it has no special token {}", text::quoted_piece(name)));
  }
  std::vector<int64_t> ids;
  for (const Json& id : all[name]["ids"]) ids.push_back(read_id(part, id));
  return ids;
}

Slot read_slot(const Part& part, const Json& json) {
  if (json.is_object() && json.size() == 1) {
    const std::string kind = json.begin().key();
    const Json& inner = json.begin().value();
    if (inner.is_object() && inner.contains("id") && inner["id"].is_string() &&
        inner.contains("type_id")) {
      const std::string id = inner["id"].get<std::string>();
      Slot slot{.type = read_id(part, inner["type_id"])};
      if (kind == "Sequence" && (id == "A" || id == "B")) {
        slot.sequence = id == "A" ? 0 : 1;
        return slot;
      }
      if (kind == "SpecialToken") {
        slot.ids = read_special(part, id);
        return slot;
      }
    }
  }
  part.fail("a place of its template is neither a Sequence nor a SpecialToken");
}

Template read_template(const Part& part, const char* name, int sequences) {
  const Json& list = part.at(name);
  if (!list.is_array()) part.fail(fmt::format("\"{}\" is no list", name));
  Template all;
  for (const Json& slot : list) {
    all.push_back(read_slot(part, slot));
    if (all.back().sequence >= sequences) {
      part.fail(fmt::format("\"{}\" names a text that is not there", name));
    }
  }
  return all;
}

void fill(const Template& slots, std::vector<Sequence>& all, Specials specials) {
  std::vector<Sequence> filled;
  for (const Slot& slot : slots) {
    if (slot.sequence >= 0) {
      const auto again = [&](const Slot& other) { return other.sequence == slot.sequence; };
      Sequence& sequence = all[static_cast<size_t>(slot.sequence)];
      const bool once = std::count_if(slots.begin(), slots.end(), again) == 1;
      filled.push_back(once ? std::move(sequence) : sequence);
      set_types(filled.back(), slot.type);
    } else if (specials == Specials::add) {
      Sequence& added = filled.emplace_back();
      for (const int64_t id : slot.ids) added.tokens.push_back(special_token(id, slot.type));
    }
  }
  all = std::move(filled);
}

PostProcessor read_template_post(const Part& part) {
  const Template single = read_template(part, "single", 1), pair = read_template(part, "pair", 2);
  return [=](std::vector<Sequence>& all, Specials specials) {
    fill(all.size() == 1 ? single : pair, all, specials);
  };
}

// ---- All ----------------------------------------------------------------------------------------

PostProcessor read_post(const Part& part);

PostProcessor read_sequence_post(const Part& part) {
  std::vector<PostProcessor> steps;
  int templates = 0;
  for (const Part& one : part.parts("processors")) {
    if (templates > 0) part.fail("it goes on after special tokens were added: not known here");
    steps.push_back(read_post(one));
    templates += one.type() != "ByteLevel";
  }
  return [steps](std::vector<Sequence>& all, Specials specials) {
    for (const PostProcessor& step : steps) step(all, specials);
  };
}

PostProcessor read_post(const Part& part) {
  const std::string& type = part.type();
  if (type == "TemplateProcessing") return read_template_post(part);
  if (type == "BertProcessing") return read_bert_post(part);
  if (type == "RobertaProcessing") return read_roberta_post(part);
  if (type == "ByteLevel") return read_byte_level_post(part);
  if (type == "Sequence") return read_sequence_post(part);
  part.refuse();
}

}  // namespace

PostProcessor read_post_processor(const Json& json) {
  if (json.is_null()) return {};
  return read_post(Part("post_processor", json));
}

}  // namespace fovea::tokens
