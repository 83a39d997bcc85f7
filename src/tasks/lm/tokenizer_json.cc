#include "tasks/lm/tokenizer_json.h"

#include <string_view>
#include <vector>

#include "fovea/error.h"

namespace fovea::tasks::lm {
namespace {

using Json = nlohmann::ordered_json;
constexpr const char* kMark = "▁";

enum class Special : uint8_t { no, yes };
Json added_token(int64_t id, const std::string& text, Special special = Special::yes) {
  return {{"id", id},
          {"content", text},
          {"single_word", false},
          {"lstrip", false},
          {"rstrip", false},
          {"normalized", false},
          {"special", special == Special::yes}};
}

Json replaced(const std::string& text, const std::string& by) {
  return {{"type", "Replace"}, {"pattern", {{"String", text}}}, {"content", by}};
}
Json sequence(const char* of, Json parts) { return {{"type", "Sequence"}, {of, std::move(parts)}}; }

// What a token says after another one, where a space shows that it begins a word.
std::string after_another(const text::Tokenizer& t, int64_t id) {
  const size_t before = t.decode(std::vector<int64_t>{text::kUnknown}).size();
  return t.decode(std::vector<int64_t>{text::kUnknown, id}).substr(before);
}

Json vocabulary_of(const text::Tokenizer& t) {
  Json all = {{"<pad>", text::kPad},
              {"<unk>", text::kUnknown},
              {"<begin>", text::kBegin},
              {"\n", text::kEnd}};
  for (int64_t id = text::kFirst; id < t.size(); ++id) {
    std::string token = after_another(t, id);
    const bool begins = t.unit() == text::Unit::subwords && token.starts_with(' ');
    all[begins ? kMark + token.substr(1) : token] = id;
  }
  return all;
}

// Of neighbours whose union is a token, those with the lowest id join first: every pair that makes
// a token, in the order of the tokens.
Json merges_of(const Json& vocabulary) {
  std::vector<std::string> tokens(vocabulary.size());
  for (const auto& [token, id] : vocabulary.items()) tokens[id.get<size_t>()] = token;
  Json merges = Json::array();
  for (size_t id = text::kFirst; id < tokens.size(); ++id) {
    const std::string& token = tokens[id];
    std::string left;
    for (const std::string& c : text::characters(token)) {
      const std::string right = token.substr(left.size());
      if (vocabulary.contains(left) && vocabulary.contains(right)) merges.push_back({left, right});
      left += c;
    }
  }
  return merges;
}

struct Parts {
  Json normalizer, pre_tokenizer, decoder;
};

// Characters are byte pairs that are never merged. Subwords are of words between ASCII's spaces,
// each with a mark before it.
Parts parts_of(text::Unit unit) {
  if (unit == text::Unit::characters) return {nullptr, nullptr, {{"type", "Fuse"}}};
  Json spaces = Json::array();
  for (const char* space : {"\t", "\v", "\f", "\r"}) spaces.push_back(replaced(space, " "));
  return {
      sequence("normalizers", std::move(spaces)),
      sequence("pretokenizers", {{{"type", "Split"},
                                  {"pattern", {{"String", " "}}},
                                  {"behavior", "Removed"},
                                  {"invert", false}},
                                 {{"type", "Metaspace"},
                                  {"replacement", kMark},
                                  {"prepend_scheme", "always"},
                                  {"split", false}}}),
      sequence("decoders", {{{"type", "Fuse"}},
                            replaced(std::string("\n") + kMark, "\n"),
                            replaced(kMark, " "),
                            {{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}}}),
  };
}

}  // namespace

Json tokenizer_json(const text::Tokenizer& t) {
  if (t.unit() == text::Unit::words) throw Error("export", "words have no tokenizer.json");
  Json vocabulary = vocabulary_of(t);
  const bool subwords = t.unit() == text::Unit::subwords;
  Json merges = subwords ? merges_of(vocabulary) : Json::array();
  Parts parts = parts_of(t.unit());
  Json added = {added_token(text::kPad, "<pad>"), added_token(text::kUnknown, "<unk>"),
                added_token(text::kBegin, "<begin>")};
  if (subwords) added.push_back(added_token(text::kEnd, "\n", Special::no));
  return {{"version", "1.0"},
          {"truncation", nullptr},
          {"padding", nullptr},
          {"added_tokens", std::move(added)},
          {"normalizer", std::move(parts.normalizer)},
          {"pre_tokenizer", std::move(parts.pre_tokenizer)},
          {"post_processor", nullptr},
          {"decoder", std::move(parts.decoder)},
          {"model",
           {{"type", "BPE"},
            {"dropout", nullptr},
            {"unk_token", "<unk>"},
            {"continuing_subword_prefix", nullptr},
            {"end_of_word_suffix", nullptr},
            {"fuse_unk", subwords},
            {"byte_fallback", false},
            {"ignore_merges", false},
            {"vocab", std::move(vocabulary)},
            {"merges", std::move(merges)}}}};
}

}  // namespace fovea::tasks::lm
