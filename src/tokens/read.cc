#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "fovea/error.h"
#include "io/json.h"
#include "text/messages.h"
#include "tokens/part.h"
#include "tokens/parts.h"

// tokenizer.json to the parts of a tokenizer.
namespace fovea::tokens {
namespace {

using Json = nlohmann::ordered_json;
constexpr const char* kCall = "read_tokenizer";
constexpr JsonLimits kLimits{.bytes = uint64_t{256} << 20};

int64_t read_piece_id(const std::string& piece, const Json& value) {
  if (!value.is_number_integer()) {
    throw Error(kCall, fmt::format("vocab: {} has no whole number for an id, but {}",
                                   text::quoted_piece(piece), value.dump().substr(0, 40)));
  }
  return whole_number(value);
}

std::pair<std::string, double> read_score(const Json& value) {
  if (value.size() != 2 || !value[0].is_string() || !value[1].is_number()) {
    throw Error(kCall, fmt::format("vocab: expected a piece and its score, found {}",
                                   value.dump().substr(0, 40)));
  }
  return {value[0].get<std::string>(), value[1].get<double>()};
}

std::pair<std::string, std::string> read_json_merge(const Json& value) {
  if (value.is_string()) return read_merge(value.get_ref<const std::string&>());
  if (!value.is_array() || value.size() != 2 || !value[0].is_string() || !value[1].is_string()) {
    throw Error(kCall,
                fmt::format("merges: expected two pieces, found {}", value.dump().substr(0, 40)));
  }
  return {value[0].get<std::string>(), value[1].get<std::string>()};
}

const Json& member(const Json& object, const char* name) {
  static const Json null;
  const auto found = object.find(name);
  return found == object.end() ? null : *found;
}

// ---- Models -------------------------------------------------------------------------------------

std::shared_ptr<const Pieces> pieces_of(const Source& source) {
  auto pieces = std::make_shared<Pieces>();
  size_t bytes = 0;
  for (const auto& [piece, id] : source.vocabulary) bytes += piece.size();
  for (const auto& [piece, score] : source.scores) bytes += piece.size();
  pieces->reserve(source.vocabulary.size() + source.scores.size(), bytes);
  for (const auto& [piece, id] : source.vocabulary) {
    if (const auto before = pieces->find(piece); before) {
      throw Error(kCall, fmt::format("vocab: {} is there twice, with the ids {} and {}",
                                     text::quoted_piece(piece), *before, id));
    }
    pieces->add(piece, id);
  }
  int64_t next = pieces->end();
  for (const auto& [piece, score] : source.scores) pieces->add(piece, next++);
  if (pieces->count() == 0) throw Error(kCall, "the vocabulary is empty");
  return pieces;
}

// Files of old have no type; the lists tell.
std::string model_type(const Source& source, const Json& model) {
  if (member(model, "type").is_string()) return model["type"].get<std::string>();
  if (!source.scores.empty()) return "Unigram";
  if (!source.merges.empty()) return "BPE";
  if (model.contains("max_input_chars_per_word")) return "WordPiece";
  throw Error(kCall, "model: it has no \"type\"");
}

Bpe read_bpe(const Part& part, std::shared_ptr<const Pieces> pieces, const Bpe::Merges& merges,
             bool bytes) {
  BpeSettings s;
  if (part.has("unk_token")) s.unknown = part.text("unk_token");
  if (part.has("continuing_subword_prefix")) {
    s.continuing_prefix = part.text("continuing_subword_prefix");
  }
  if (part.has("end_of_word_suffix")) s.end_suffix = part.text("end_of_word_suffix");
  s.fuse_unknown = part.flag("fuse_unk", false);
  s.byte_fallback = part.flag("byte_fallback", false);
  s.ignore_merges = part.flag("ignore_merges", false);
  if (part.has("dropout") && part.at("dropout") != 0.0) {
    part.fail("it leaves out merges at random (\"dropout\"), which is not known here");
  }
  if (s.unknown && s.unknown->empty()) s.unknown.reset();
  return {std::move(pieces), merges, std::move(s), bytes};
}

WordPiece read_word_piece(const Part& part, std::shared_ptr<const Pieces> pieces) {
  return {std::move(pieces),
          {.unknown = part.text("unk_token"),
           .continuing_prefix = part.text("continuing_subword_prefix"),
           .most_characters = part.number("max_input_chars_per_word")}};
}

Unigram read_unigram(const Part& part, std::shared_ptr<const Pieces> pieces, const Source& source) {
  std::vector<double> scores;
  scores.reserve(source.scores.size());
  for (const auto& [piece, score] : source.scores) scores.push_back(score);
  UnigramSettings settings{.byte_fallback = part.flag("byte_fallback", false)};
  if (part.has("unk_id")) settings.unknown = part.number("unk_id");
  return {std::move(pieces), std::move(scores), settings};
}

Model read_model(const Part& part, std::shared_ptr<const Pieces> pieces, const Source& source,
                 bool bytes) {
  const std::string& type = part.type();
  const bool unigram = type == "Unigram";
  if (type != "BPE" && type != "WordPiece" && !unigram) part.refuse();
  if (unigram != source.vocabulary.empty() || unigram == source.scores.empty()) {
    part.fail("its \"vocab\" is of another kind of model");
  }
  if (bytes && type != "BPE") part.fail("with the pre_tokenizer ByteLevel it is not known here");
  if (type == "BPE") return read_bpe(part, std::move(pieces), source.merges, bytes);
  if (type == "WordPiece") return read_word_piece(part, std::move(pieces));
  return read_unigram(part, std::move(pieces), source);
}

std::string kind_of_model(const Model& model, bool bytes) {
  if (std::holds_alternative<Bpe>(model)) return bytes ? "byte-level BPE" : "BPE";
  return std::holds_alternative<WordPiece>(model) ? "WordPiece" : "Unigram";
}

// ---- Added tokens -------------------------------------------------------------------------------

std::vector<AddedToken> read_added(const Json& list) {
  std::vector<AddedToken> all;
  if (list.is_null()) return all;
  if (!list.is_array()) throw Error(kCall, "\"added_tokens\" is no list");
  const auto flag = [](const Json& json, const char* name) {
    const Json& value = member(json, name);
    return value.is_boolean() && value.get<bool>();
  };
  for (const Json& one : list) {
    if (!one.is_object() || !member(one, "content").is_string() || !one.contains("id")) {
      throw Error(kCall, fmt::format("added_tokens: expected an id and a content, found {}",
                                     one.dump().substr(0, 60)));
    }
    AddedToken token{.content = one["content"].get<std::string>(), .id = whole_number(one["id"])};
    token.single_word = flag(one, "single_word");
    token.lstrip = flag(one, "lstrip");
    token.rstrip = flag(one, "rstrip");
    token.special = flag(one, "special");
    token.normalized = one.contains("normalized") ? flag(one, "normalized") : !token.special;
    all.push_back(std::move(token));
  }
  return all;
}

// What is added by itself must be a token.
void check_specials(const Tokenizer::Parts& parts) {
  for (const size_t texts : {size_t{1}, size_t{2}}) {
    std::vector<Sequence> all(texts);
    if (parts.post_processor) parts.post_processor(all, Specials::add);
    for (const Sequence& sequence : all) {
      for (const SpacedToken& written : sequence.tokens) {
        const int64_t id = written.token.id;
        if (parts.pieces->has(id) || parts.added.by_id(id) != nullptr) continue;
        throw Error(kCall, fmt::format("post_processor: it adds id {}, which is no token", id));
      }
    }
  }
}

}  // namespace

std::pair<std::string, std::string> read_merge(std::string_view line) {
  const size_t space = line.find(' ');
  if (space == line.npos || line.find(' ', space + 1) != line.npos) {
    throw Error(kCall,
                fmt::format("merges: expected two pieces with a space between them, found {}",
                            text::quoted_piece(line)));
  }
  return {std::string(line.substr(0, space)), std::string(line.substr(space + 1))};
}

std::vector<std::pair<std::string, int64_t>> read_vocabulary(std::string_view json,
                                                             const std::string& name) {
  std::vector<std::pair<std::string, int64_t>> all;
  const JsonMany vocab{"", [&](std::string&& piece, Json&& value) {
                         const int64_t id = read_piece_id(piece, value);
                         all.emplace_back(std::move(piece), id);
                       }};
  parse_json(json, name, kLimits, std::span(&vocab, 1));
  return all;
}

Source read_source(std::string_view json, const std::string& name) {
  Source source;
  const auto entry = [&](std::string&& piece, Json&& value) {
    if (value.is_array()) {
      source.scores.push_back(read_score(value));
    } else {
      const int64_t id = read_piece_id(piece, value);
      source.vocabulary.emplace_back(std::move(piece), id);
    }
  };
  const auto merge = [&](std::string&&, Json&& value) {
    source.merges.push_back(read_json_merge(value));
  };
  const JsonMany many[] = {{"model.vocab", entry}, {"model.merges", merge}};
  source.rest = std::make_shared<Json>(parse_json(json, name, kLimits, many));
  if (!source.rest->is_object() || !member(*source.rest, "model").is_object()) {
    throw Error(kCall, fmt::format("{} has no \"model\"", name));
  }
  return source;
}

Tokenizer::Parts build(Source source) {
  Json& rest = *source.rest;
  rest["model"]["type"] = model_type(source, rest["model"]);
  const std::shared_ptr<const Pieces> pieces = pieces_of(source);
  PreTokenizer pre = read_pre_tokenizer(member(rest, "pre_tokenizer"));
  Normalizer normalizer = read_normalizer(member(rest, "normalizer"));
  Model model = read_model(Part("model", rest["model"]), pieces, source, pre.byte_level);
  const Bpe* bpe = std::get_if<Bpe>(&model);
  if (pre.byte_level && !bpe->takes_bytes()) {
    pre.apply = [before = pre.apply](Split& split) {
      before(split);
      spell_bytes(split);
    };
  }
  AddedTokens added(read_added(member(rest, "added_tokens")), *pieces, normalizer);
  const std::string kind = kind_of_model(model, pre.byte_level);
  Tokenizer::Parts parts{.pieces = pieces,
                         .added = std::move(added),
                         .normalizer = std::move(normalizer),
                         .pre_tokenizer = std::move(pre),
                         .model = std::move(model),
                         .post_processor = read_post_processor(member(rest, "post_processor")),
                         .decoder = read_decoder(member(rest, "decoder")),
                         .kind = kind};
  check_specials(parts);
  return parts;
}

Tokenizer parse_tokenizer(std::string_view json, const std::string& name) {
  return Tokenizer(std::make_shared<const Tokenizer::Parts>(build(read_source(json, name))));
}

}  // namespace fovea::tokens
