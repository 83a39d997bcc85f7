#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "fovea/error.h"
#include "io/json.h"
#include "io/plain_file.h"
#include "text/messages.h"
#include "tokens/parts.h"

// Tokenizers from the files of a model's folder.
namespace fovea::tokens {
namespace {

using Json = nlohmann::ordered_json;
namespace fs = std::filesystem;
constexpr const char* kOpen = "open_tokenizer";
constexpr uint64_t kMaxFile = uint64_t{256} << 20;

std::string read_file(const fs::path& path) {
  try {
    return read_plain_file(path, kMaxFile);
  } catch (const Unreadable& e) {
    throw Error(kOpen, fmt::format("{}: {}", path.string(), e.what()));
  }
}

// The small files beside the vocabulary; what is not there is empty.
struct Folder {
  fs::path path;
  Json tokenizer_config, special_tokens, config;

  explicit Folder(const fs::path& folder) : path(folder) {
    const auto read = [&](const char* name) {
      const JsonLimits limits{.names = 100'000};  // of added_tokens_decoder
      Json json = has(name) ? read_json(folder / name, limits) : Json::object();
      return json.is_object() ? json : Json::object();
    };
    tokenizer_config = read("tokenizer_config.json");
    special_tokens = read("special_tokens_map.json");
    config = read("config.json");
  }

  bool has(const char* name) const { return fs::exists(path / name); }

  static std::string text_in(const Json& json, const char* name) {
    const auto found = json.find(name);
    if (found == json.end()) return {};
    if (found->is_string()) return found->get<std::string>();
    if (found->is_object() && found->contains("content") && (*found)["content"].is_string()) {
      return (*found)["content"].get<std::string>();
    }
    return {};
  }

  // "bos_token" and the like
  std::string special(const char* name, const char* otherwise = "") const {
    for (const Json* json : {&tokenizer_config, &special_tokens}) {
      if (const std::string text = text_in(*json, name); !text.empty()) return text;
    }
    return otherwise;
  }

  bool flag(const char* name, bool otherwise) const {
    const auto found = tokenizer_config.find(name);
    return found != tokenizer_config.end() && found->is_boolean() ? found->get<bool>() : otherwise;
  }

  // "BertTokenizer" as "bert"; otherwise what config.json calls the model.
  std::string family() const {
    std::string name = text_in(tokenizer_config, "tokenizer_class");
    for (const char* end : {"Fast", "Tokenizer"}) {
      if (name.ends_with(end)) name.erase(name.size() - std::string_view(end).size());
    }
    if (name.empty() || name == "PreTrained") name = text_in(config, "model_type");
    std::transform(name.begin(), name.end(), name.begin(),
                   [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
    return name;
  }
  [[noreturn]] void refuse(const std::string& files) const {
    throw Error(kOpen,
                fmt::format("{}: {} without tokenizer.json, of a tokenizer that is not known "
                            "here: {}",
                            path.string(), files,
                            family().empty() ? "neither tokenizer_config.json nor config.json "
                                               "names it"
                                             : text::quoted_piece(family())));
  }
};

SpecialIds special_ids_of(const Folder& folder, const Tokenizer& tokenizer) {
  const auto id = [&](const char* name) -> std::optional<int64_t> {
    const std::string piece = folder.special(name);
    return piece.empty() ? std::nullopt : tokenizer.id(piece);
  };
  return {.begin = id("bos_token"),
          .end = id("eos_token"),
          .pad = id("pad_token"),
          .unknown = id("unk_token"),
          .mask = id("mask_token"),
          .separator = id("sep_token"),
          .first = id("cls_token")};
}

// ---- Files of old -------------------------------------------------------------------------------

using Vocabulary = std::vector<std::pair<std::string, int64_t>>;

int64_t id_in(const Folder& folder, const Vocabulary& vocabulary, const std::string& piece) {
  for (const auto& [known, id] : vocabulary) {
    if (known == piece) return id;
  }
  throw Error(kOpen, fmt::format("{}: the vocabulary has no {}", folder.path.string(),
                                 text::quoted_piece(piece)));
}

struct NamedSpecial {
  const char *name, *otherwise;
};

// Those that tokenizer_config.json lists, and special ones. Without a list, what the vocabulary has
// of them counts.
Json added_in(const Folder& folder, const Vocabulary& vocabulary,
              std::span<const NamedSpecial> specials) {
  Json all = Json::array();
  if (const auto listed = folder.tokenizer_config.find("added_tokens_decoder");
      listed != folder.tokenizer_config.end() && listed->is_object()) {
    for (const auto& [id, token] : listed->items()) {
      if (id.empty() || id.size() > 9 || id.find_first_not_of("0123456789") != id.npos ||
          !token.is_object()) {
        throw Error(kOpen, fmt::format("{}: added_tokens_decoder has the id {}",
                                       folder.path.string(), text::quoted_piece(id)));
      }
      Json one = token;
      one["id"] = std::stoll(id);
      all.push_back(one);
    }
  }
  const auto is_listed = [&](const std::string& piece) {
    return std::any_of(all.begin(), all.end(),
                       [&](const Json& one) { return Folder::text_in(one, "content") == piece; });
  };
  for (const auto& [name, otherwise] : specials) {
    const std::string piece = folder.special(name, otherwise);
    if (piece.empty() || is_listed(piece)) continue;
    const auto known = std::find_if(vocabulary.begin(), vocabulary.end(),
                                    [&](const auto& entry) { return entry.first == piece; });
    if (known == vocabulary.end()) continue;
    all.push_back(
        {{"content", piece}, {"id", known->second}, {"special", true}, {"normalized", false}});
  }
  return all;
}

Json special_slot(const std::string& piece, int type) {
  return {{"SpecialToken", {{"id", piece}, {"type_id", type}}}};
}
Json text_slot(const char* id, int type) { return {{"Sequence", {{"id", id}, {"type_id", type}}}}; }
Json special_entry(const std::string& piece, int64_t id) {
  return {{"id", piece}, {"ids", {id}}, {"tokens", {piece}}};
}

// vocab.txt: a piece a line.
Source word_piece_source(const Folder& folder) {
  constexpr NamedSpecial kSpecials[] = {{"unk_token", "[UNK]"},
                                        {"sep_token", "[SEP]"},
                                        {"pad_token", "[PAD]"},
                                        {"cls_token", "[CLS]"},
                                        {"mask_token", "[MASK]"}};
  Source source;
  const std::string text = read_file(folder.path / "vocab.txt");
  for (size_t at = 0; at < text.size();) {
    size_t end = std::min(text.find('\n', at), text.size());
    const size_t next = end + 1;
    if (end > at && text[end - 1] == '\r') --end;
    source.vocabulary.emplace_back(text.substr(at, end - at),
                                   static_cast<int64_t>(source.vocabulary.size()));
    at = next;
  }
  const std::string first = folder.special("cls_token", "[CLS]");
  const std::string separator = folder.special("sep_token", "[SEP]");
  const bool lower = folder.flag("do_lower_case", true);
  source.rest = std::make_shared<Json>(Json{
      {"added_tokens", added_in(folder, source.vocabulary, kSpecials)},
      {"normalizer",
       {{"type", "BertNormalizer"},
        {"clean_text", true},
        {"handle_chinese_chars", folder.flag("tokenize_chinese_chars", true)},
        {"strip_accents", folder.flag("strip_accents", lower)},
        {"lowercase", lower}}},
      {"pre_tokenizer", {{"type", "BertPreTokenizer"}}},
      {"post_processor",
       {{"type", "TemplateProcessing"},
        {"single", {special_slot(first, 0), text_slot("A", 0), special_slot(separator, 0)}},
        {"pair",
         {special_slot(first, 0), text_slot("A", 0), special_slot(separator, 0), text_slot("B", 1),
          special_slot(separator, 1)}},
        {"special_tokens",
         {{first, special_entry(first, id_in(folder, source.vocabulary, first))},
          {separator, special_entry(separator, id_in(folder, source.vocabulary, separator))}}}}},
      {"decoder", {{"type", "WordPiece"}, {"prefix", "##"}, {"cleanup", true}}},
      {"model",
       {{"type", "WordPiece"},
        {"unk_token", folder.special("unk_token", "[UNK]")},
        {"continuing_subword_prefix", "##"},
        {"max_input_chars_per_word", 100}}}});
  return source;
}

Bpe::Merges read_merges(const fs::path& path) {
  Bpe::Merges merges;
  const std::string text = read_file(path);
  for (size_t at = 0; at < text.size();) {
    size_t end = std::min(text.find('\n', at), text.size());
    const size_t next = end + 1;
    if (end > at && text[end - 1] == '\r') --end;
    const std::string_view line = std::string_view(text).substr(at, end - at);
    if (!line.empty() && !line.starts_with("#version")) merges.push_back(read_merge(line));
    at = next;
  }
  return merges;
}

Json roberta_post(const Folder& folder, const Vocabulary& vocabulary, bool prefix_space) {
  const std::string first = folder.special("cls_token", "<s>");
  const std::string separator = folder.special("sep_token", "</s>");
  return {{"type", "RobertaProcessing"},
          {"sep", {separator, id_in(folder, vocabulary, separator)}},
          {"cls", {first, id_in(folder, vocabulary, first)}},
          {"trim_offsets", folder.flag("trim_offsets", true)},
          {"add_prefix_space", prefix_space}};
}

constexpr const char* kQwenPattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

// vocab.json and merges.txt: byte pairs of bytes.
Source byte_pair_source(const Folder& folder) {
  constexpr NamedSpecial kGpt2[] = {{"unk_token", "<|endoftext|>"},
                                    {"bos_token", "<|endoftext|>"},
                                    {"eos_token", "<|endoftext|>"},
                                    {"pad_token", ""}};
  constexpr NamedSpecial kRoberta[] = {
      {"bos_token", "<s>"},   {"eos_token", "</s>"},  {"sep_token", "</s>"},   {"cls_token", "<s>"},
      {"unk_token", "<unk>"}, {"pad_token", "<pad>"}, {"mask_token", "<mask>"}};
  const std::string family = folder.family();
  const bool roberta = family == "roberta", qwen = family == "qwen2" || family == "qwen3";
  if (!roberta && !qwen && family != "gpt2") folder.refuse("vocab.json and merges.txt");
  Source source;
  source.vocabulary = read_vocabulary(read_file(folder.path / "vocab.json"), "vocab.json");
  source.merges = read_merges(folder.path / "merges.txt");
  const bool prefix_space = folder.flag("add_prefix_space", false);
  Json level = {{"type", "ByteLevel"},
                {"add_prefix_space", prefix_space},
                {"trim_offsets", true},
                {"use_regex", !qwen}};
  Json pre = level;
  if (qwen) {
    const Json split = {{"type", "Split"},
                        {"pattern", {{"Regex", kQwenPattern}}},
                        {"behavior", "Isolated"},
                        {"invert", false}};
    pre = {{"type", "Sequence"}, {"pretokenizers", {split, level}}};
  }
  source.rest = std::make_shared<Json>(Json{
      {"added_tokens", roberta ? added_in(folder, source.vocabulary, kRoberta)
                               : added_in(folder, source.vocabulary, kGpt2)},
      {"normalizer", qwen ? Json{{"type", "NFC"}} : Json()},
      {"pre_tokenizer", pre},
      {"post_processor", roberta ? roberta_post(folder, source.vocabulary, prefix_space) : Json()},
      {"decoder", {{"type", "ByteLevel"}}},
      {"model", {{"type", "BPE"}}}});
  return source;
}

// ---- SentencePiece ------------------------------------------------------------------------------

std::shared_ptr<const text::SentencePieces> read_spm(const Folder& folder, const char* name) {
  return std::make_shared<const text::SentencePieces>(read_file(folder.path / name), name);
}

AddedToken special_added(std::string content, int64_t id) {
  return {.content = std::move(content), .id = id, .special = true};
}

PostProcessor put_around(std::optional<int64_t> before, std::optional<int64_t> after) {
  return [=](std::vector<Sequence>& all, Specials specials) {
    if (specials == Specials::none) return;
    for (Sequence& sequence : all) {
      auto& tokens = sequence.tokens;
      if (before) tokens.insert(tokens.begin(), SpacedToken{.token = {.id = *before}});
      if (after) tokens.push_back({.token = {.id = *after}});
    }
  };
}

// A pair has one end, behind both.
PostProcessor put_end(int64_t end) {
  return [=](std::vector<Sequence>& all, Specials specials) {
    for (Sequence& sequence : all) {
      for (SpacedToken& written : sequence.tokens) written.token.type = 0;
    }
    if (specials == Specials::add) all.back().tokens.push_back({.token = {.id = end}});
  };
}

Tokenizer::Parts marian_parts(const Folder& folder, const char* side) {
  if (folder.flag("separate_vocabs", false)) {
    throw Error(kOpen, fmt::format("{}: separate_vocabs, a vocabulary for each side, is not known "
                                   "here",
                                   folder.path.string()));
  }
  auto pieces = std::make_shared<Pieces>();
  for (const auto& [piece, id] :
       read_vocabulary(read_file(folder.path / "vocab.json"), "vocab.json")) {
    if (pieces->find(piece)) {
      throw Error(kOpen, fmt::format("vocab.json: {} is there twice", text::quoted_piece(piece)));
    }
    pieces->add(piece, id);
  }
  const std::string unknown = folder.special("unk_token", "<unk>");
  std::vector<AddedToken> added;
  std::vector<std::string> special;
  for (const auto& [name, otherwise] :
       {NamedSpecial{"eos_token", "</s>"}, {"unk_token", "<unk>"}, {"pad_token", "<pad>"}}) {
    const std::string piece = folder.special(name, otherwise);
    const auto id = pieces->find(piece);
    if (!id) {
      throw Error(kOpen, fmt::format("vocab.json has no {}", text::quoted_piece(piece)));
    }
    added.push_back(special_added(piece, *id));
    special.push_back(piece);
  }
  const auto model = read_spm(folder, side);
  const int64_t end = added.front().id;
  return {.pieces = pieces,
          .added = AddedTokens(std::move(added), *pieces, {}),
          .normalizer = {},
          .pre_tokenizer = {},
          .model = SpmModel(model, pieces, SpmModel::Ids::of_vocabulary, unknown),
          .post_processor = put_end(end),
          .decoder = spm_decoder(model, special),
          .kind = "SentencePiece with a vocabulary of its own (Marian)"};
}

// tokenizer.model or spiece.model by itself: SentencePiece's ids, with T5's hundred at the end.
Tokenizer::Parts spm_parts(const Folder& folder, const char* name) {
  const std::string family = folder.family();
  const bool t5 = family == "t5" || family == "mt5";
  const bool llama = family == "llama" || family == "mistral" || family == "gemma" ||
                     family == "gemma2" || family == "gemma3" || family == "gemma3_text";
  if (!t5 && !llama) folder.refuse(name);
  const auto model = read_spm(folder, name);
  auto pieces = std::make_shared<Pieces>();
  std::vector<AddedToken> added;
  for (int64_t id = 0; id < model->size(); ++id) {
    pieces->add(model->piece(id), id);
    if (model->is_control(id)) added.push_back(special_added(model->piece(id), id));
  }
  constexpr int64_t kExtra = 100;
  for (int64_t i = kExtra; t5 && i-- > 0;) {
    const std::string piece = fmt::format("<extra_id_{}>", i);
    if (!pieces->find(piece)) pieces->add(piece, pieces->end());
    added.push_back(special_added(piece, *pieces->find(piece)));
  }
  const auto ids = model->ids();
  if (!ids.unknown) throw Error(kOpen, fmt::format("{} has no unknown token", name));
  std::vector<std::string> special;
  for (const AddedToken& token : added) special.push_back(token.content);
  const bool begins = folder.flag("add_bos_token", llama), ends = folder.flag("add_eos_token", t5);
  return {.pieces = pieces,
          .added = AddedTokens(std::move(added), *pieces, {}),
          .normalizer = {},
          .pre_tokenizer = {},
          .model = SpmModel(model, pieces, SpmModel::Ids::own, model->piece(*ids.unknown)),
          .post_processor =
              put_around(begins ? ids.begin : std::nullopt, ends ? ids.end : std::nullopt),
          .decoder = spm_decoder(model, special),
          .kind = "SentencePiece"};
}

Tokenizer::Parts parts_in(const Folder& folder, const char* side) {
  if (folder.has("tokenizer.json")) {
    const std::string text = read_file(folder.path / "tokenizer.json");
    return build(read_source(text, (folder.path / "tokenizer.json").string()));
  }
  if (folder.has("vocab.txt")) return build(word_piece_source(folder));
  if (folder.has("vocab.json") && folder.has("merges.txt")) return build(byte_pair_source(folder));
  if (folder.has("source.spm") && folder.has("target.spm")) return marian_parts(folder, side);
  for (const char* name : {"tokenizer.model", "spiece.model"}) {
    if (folder.has(name)) return spm_parts(folder, name);
  }
  throw Error(kOpen, fmt::format("{} has no tokenizer: expected tokenizer.json, vocab.txt, "
                                 "vocab.json with merges.txt, source.spm with target.spm, "
                                 "tokenizer.model or spiece.model",
                                 folder.path.string()));
}

Tokenizer open(const fs::path& path, const char* side) {
  if (!fs::is_directory(path)) {
    throw Error(kOpen, fmt::format("{} is no folder of a model", path.string()));
  }
  const Folder folder(path);
  const auto parts = std::make_shared<Tokenizer::Parts>(parts_in(folder, side));
  parts->special_ids = special_ids_of(folder, Tokenizer(parts));
  return Tokenizer(parts);
}

}  // namespace

Tokenizer open_tokenizer(const fs::path& folder) { return open(folder, "source.spm"); }
Tokenizer open_target_tokenizer(const fs::path& folder) { return open(folder, "target.spm"); }

}  // namespace fovea::tokens
