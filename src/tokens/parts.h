#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>
#include <vector>

#include "tokens/added.h"
#include "tokens/decoders.h"
#include "tokens/models.h"
#include "tokens/normalizers.h"
#include "tokens/post.h"
#include "tokens/pre_tokenizers.h"
#include "tokens/tokenizer.h"

namespace fovea::tokens {

struct Tokenizer::Parts {
  std::shared_ptr<const Pieces> pieces;
  AddedTokens added;
  Normalizer normalizer;  // may be empty, as may
  PreTokenizer pre_tokenizer;
  Model model;
  PostProcessor post_processor;  // this one
  Decoder decoder;
  std::string kind;  // "byte-level BPE"
  SpecialIds special_ids = {};
};

// All that a tokenizer.json holds, wherever it comes from: its large lists apart.
struct Source {
  std::shared_ptr<nlohmann::ordered_json> rest;             // model without vocab and merges
  std::vector<std::pair<std::string, int64_t>> vocabulary;  // of BPE and WordPiece
  std::vector<std::pair<std::string, double>> scores;       // of Unigram, in the order of ids
  Bpe::Merges merges;
};
Source read_source(std::string_view json, const std::string& name);
Tokenizer::Parts build(Source);

// "vocab" of an object that is all of a file: {"a": 0, …}
std::vector<std::pair<std::string, int64_t>> read_vocabulary(std::string_view json,
                                                             const std::string& name);
// "a b"
std::pair<std::string, std::string> read_merge(std::string_view line);

}  // namespace fovea::tokens
