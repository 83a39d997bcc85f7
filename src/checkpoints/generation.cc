#include "checkpoints/generation.h"

#include <algorithm>

namespace fovea::checkpoints {
namespace {

constexpr Config::Range kCount{0, int64_t{1} << 30};

// Keys that change what is written, with the value that changes nothing.
struct Neutral {
  const char* key;
  double value;
};
constexpr Neutral kNeutral[] = {
    {"num_beam_groups", 1},
    {"diversity_penalty", 0},
    {"no_repeat_ngram_size", 0},
    {"encoder_no_repeat_ngram_size", 0},
    {"encoder_repetition_penalty", 1},
    {"typical_p", 1},
    {"epsilon_cutoff", 0},
    {"eta_cutoff", 0},
    {"min_length", 0},
    {"min_new_tokens", 0},
    {"min_p", 0},
    {"penalty_alpha", 0},
    {"guidance_scale", 1},
    {"top_h", 0},
};
constexpr const char* kLists[] = {
    "forced_bos_token_id",   "force_words_ids",     "constraints",
    "begin_suppress_tokens", "forced_decoder_ids",  "exponential_decay_length_penalty",
    "sequence_bias",         "watermarking_config", "stop_strings"};

// Lists of one token each; longer ones are said to be unknown.
void add_bad_words(const Config& c, Generation& g) {
  if (!c.has("bad_words_ids")) return;
  const Config::Json& all = c.json()["bad_words_ids"];
  if (!all.is_array()) c.refuse("bad_words_ids", "expected lists of ids");
  for (const Config::Json& words : all) {
    if (words.is_array() && words.size() == 1 && words[0].is_number_integer()) {
      g.never.push_back(words[0].get<int64_t>());
    } else {
      g.unknown.emplace_back("bad_words_ids");
    }
  }
}

void read_keys(const Config& c, Generation& g) {
  g.sample = c.flag("do_sample", g.sample);
  g.temperature = c.real("temperature", g.temperature);
  g.top_p = c.real("top_p", g.top_p);
  g.top_k = c.integer("top_k", g.top_k, kCount);
  g.repetition_penalty = c.real("repetition_penalty", g.repetition_penalty);
  g.beams = c.integer("num_beams", g.beams, {1, 1024});
  g.length_penalty = c.real("length_penalty", g.length_penalty);
  if (c.has("early_stopping")) {
    if (!c.json()["early_stopping"].is_boolean()) {
      g.unknown.emplace_back("early_stopping");
    } else {
      g.early_stopping = c.flag("early_stopping", false);
    }
  }
  g.longest = c.integer("max_length", g.longest, kCount);
  g.most_new = c.integer("max_new_tokens", g.most_new, kCount);
  const auto id = [&](const char* key, std::optional<int64_t>& to) {
    const std::vector<int64_t> ids = c.integers(key);
    if (!ids.empty()) to = ids.front();
  };
  if (c.has("eos_token_id")) g.ends = c.integers("eos_token_id");
  id("bos_token_id", g.begin);
  id("decoder_start_token_id", g.first);
  for (const int64_t token : c.integers("suppress_tokens")) g.never.push_back(token);
  add_bad_words(c, g);
  for (const Neutral& n : kNeutral) {
    if (c.has(n.key) && c.real(n.key) != n.value) g.unknown.emplace_back(n.key);
  }
  for (const char* key : kLists) {
    if (c.has(key) && !c.json()[key].empty()) g.unknown.emplace_back(key);
  }
}

}  // namespace

Generation generation_in(const std::filesystem::path& folder, const Config& model) {
  Generation g;
  const std::filesystem::path file = folder / "generation_config.json";
  std::error_code none;
  const bool own = std::filesystem::exists(file, none);
  read_keys(model, g);
  if (own) {
    const Generation before = g;
    g = {.ends = before.ends, .begin = before.begin, .first = before.first};
    read_keys(Config::in(file), g);
  }
  if (!g.first && model.has("pad_token_id") && model.flag("is_encoder_decoder", false)) {
    g.first = model.integer("pad_token_id", kCount);
  }
  std::sort(g.unknown.begin(), g.unknown.end());
  g.unknown.erase(std::unique(g.unknown.begin(), g.unknown.end()), g.unknown.end());
  return g;
}

}  // namespace fovea::checkpoints
