#include "tasks/given_back.h"

#include <fmt/format.h>

#include "checkpoints/counterpart.h"
#include "tasks/lm/lm.h"

namespace fovea::tasks::lm {
namespace {

using Json = nlohmann::ordered_json;

Json added_token(int64_t id, const std::string& text) {
  return {{"id", id},        {"content", text},     {"single_word", false}, {"lstrip", false},
          {"rstrip", false}, {"normalized", false}, {"special", true}};
}

// Characters are byte pairs that are never merged; the end of a line is one of them.
Json tokenizer_of(const text::Tokenizer& t) {
  Json vocabulary = {{"<pad>", text::kPad},
                     {"<unk>", text::kUnknown},
                     {"<begin>", text::kBegin},
                     {"\n", text::kEnd}};
  for (int64_t id = text::kFirst; id < t.size(); ++id) {
    vocabulary[t.decode(std::vector<int64_t>{id})] = id;
  }
  return {{"version", "1.0"},
          {"truncation", nullptr},
          {"padding", nullptr},
          {"added_tokens",
           {added_token(text::kPad, "<pad>"), added_token(text::kUnknown, "<unk>"),
            added_token(text::kBegin, "<begin>")}},
          {"normalizer", nullptr},
          {"pre_tokenizer", nullptr},
          {"post_processor", nullptr},
          {"decoder", {{"type", "Fuse"}}},
          {"model",
           {{"type", "BPE"},
            {"dropout", nullptr},
            {"unk_token", "<unk>"},
            {"continuing_subword_prefix", nullptr},
            {"end_of_word_suffix", nullptr},
            {"fuse_unk", false},
            {"byte_fallback", false},
            {"ignore_merges", false},
            {"vocab", std::move(vocabulary)},
            {"merges", Json::array()}}}};
}

}  // namespace

GivenBack give_back(const LanguageModel& m) {
  const Tensors& ours = m.model.weights.all();
  if (m.origin) return tasks::given_back(*m.origin, ours);
  models::TransformerConfig n = m.config.network;
  n.longest = m.config.context;
  GivenBack g = tasks::given_back(checkpoints::counterpart_of(n), ours);
  g.made.push_back({"generation_config.json",
                    {{"pad_token_id", text::kPad},
                     {"suppress_tokens", {text::kPad, text::kUnknown, text::kBegin}}}});
  const text::Tokenizer& own = *m.tokenizer.own();
  if (own.unit() == text::Unit::characters) {
    g.made.push_back({"tokenizer.json", tokenizer_of(own)});
    g.made.push_back({"tokenizer_config.json",
                      {{"tokenizer_class", "PreTrainedTokenizerFast"},
                       {"pad_token", "<pad>"},
                       {"unk_token", "<unk>"},
                       {"clean_up_tokenization_spaces", false},
                       {"model_max_length", n.longest}}});
  } else {
    g.no_tokenizer =
        fmt::format("--unit {} has no counterpart among tokenizers", name_of(own.unit()));
  }
  return g;
}

}  // namespace fovea::tasks::lm
