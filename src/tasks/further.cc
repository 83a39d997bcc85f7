#include "tasks/further.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <limits>

#include "checkpoints/folder.h"
#include "fovea/error.h"
#include "tasks/transformer_fields.h"

namespace fovea::tasks {
namespace {

using checkpoints::Origin;

int64_t blocks_of(const models::TransformerConfig& n) {
  return std::max(n.blocks, n.decoder_blocks);
}

// How many of the first blocks stay as they are.
int64_t frozen_blocks(const FurtherConfig& c, const models::TransformerConfig& n) {
  if (c.freeze == "none" || c.freeze.empty()) return 0;
  if (c.freeze == "all") return blocks_of(n);
  int64_t count = 0;
  const char* end = c.freeze.data() + c.freeze.size();
  const auto [at, error] = std::from_chars(c.freeze.data(), end, count);
  if (error != std::errc() || at != end || count < 0 || count > blocks_of(n)) {
    throw Error("train", fmt::format("--freeze takes none, all, or how many of the {} blocks; "
                                     "found \"{}\"",
                                     blocks_of(n), c.freeze));
  }
  return count;
}

// Of "decoder.3.self.in.weight", 3; of what is in no block, −1.
int64_t block_in(const std::string& name) {
  const size_t dot = name.find('.');
  int64_t block = -1;
  if (dot != std::string::npos) {
    std::from_chars(name.data() + dot + 1, name.data() + name.size(), block);
  }
  return block;
}

// What lies before the first block.
bool is_of_embedding(const std::string& name) {
  return name == "source.weight" || name == "target.weight" || name.ends_with(".positions") ||
         name.ends_with(".types") || name.find(".first_norm.") != std::string::npos ||
         name.find(".widen.") != std::string::npos;
}

void check_model(const std::string& from) {
  const RunFolder folder(from);
  if (folder.is_checkpoint()) return;
  if (folder.holds_run()) {
    throw Error("train", fmt::format("--from {0}: it is a run of Fovea's; `fovea export {0} DIR` "
                                     "makes a model of it that --from takes",
                                     from));
  }
  throw Error("train", fmt::format("--from {}: there is no config.json with a model_type", from));
}

}  // namespace

void check(const FurtherConfig& c) {
  if (c.on() || c.freeze == FurtherConfig().freeze) return;
  throw Error("train", fmt::format("--freeze {}: of a model that --from names, and there is none",
                                   c.freeze));
}

void visit_further(Fields& f, FurtherConfig& c, const std::string& which) {
  f.group("A model to begin with");
  f.file("from", c.from,
         fmt::format("the folder of {}: its weights, its shape and its tokenizer", which));
  f.of_file(
      "freeze", c.freeze,
      "with --from: none, all, or how many of the first blocks stay as they are, and with them "
      "the embeddings");
  f.record("from-model", c.model);
  f.record("from-attention", c.attention);
}

Origin origin_of(FurtherConfig& c, const RunFolder* former,
                 const checkpoints::WantedModel& wanted) {
  if (former == nullptr) check_model(c.from);
  Origin origin =
      former != nullptr ? Origin::kept_in(*former / kOriginFolder) : Origin::of(c.from, wanted);
  const models::TransformerConfig& n = origin.plan().network;
  frozen_blocks(c, n);
  c.model = fmt::format("{}: {}", origin.title(), text_of(n));
  c.attention = attention_of(n);
  return origin;
}

void expect_unset(const models::TransformerConfig& set, const models::TransformerConfig& usual,
                  std::vector<std::string> others) {
  for (const std::string& name : options_set(set, usual)) others.push_back(name);
  if (others.empty()) return;
  throw Error("train", fmt::format("{}: of a model from scratch; with --from its shape and its "
                                   "tokenizer are what they are",
                                   fmt::join(others, ", ")));
}

void check_vocabulary(const Coder& coder, int64_t rows) {
  if (coder.size() <= rows) return;
  throw Error("train", fmt::format("--from: the tokenizer has {} tokens, and the model {} rows: "
                                   "they are not of one model",
                                   coder.size(), rows));
}

nn::Weights begun_weights(const Origin& origin, const FurtherConfig& c, uint64_t seed,
                          const RunFolder* former) {
  const int64_t blocks = frozen_blocks(c, origin.plan().network);
  const auto held = [origin, blocks](const std::string& name) {
    if (!origin.is_learned(name)) return true;
    if (blocks == 0) return false;
    const int64_t block = block_in(name);
    return block >= 0 ? block < blocks : is_of_embedding(name);
  };
  // One that was killed before its first state begins anew.
  const bool goes_on = former != nullptr && former->has_state();
  if (!goes_on && former != nullptr) check_model(c.from);
  const Origin whole = goes_on || former == nullptr
                           ? origin
                           : Origin::of(c.from, {origin.plan().purpose, origin.classes()});
  return nn::Weights::begun(goes_on ? origin.blank() : whole.weights(seed), held);
}

// Adam's steps are of one size whatever the gradient's; sgd's grow with it, which is `times` as
// small.
std::vector<train::ParameterGroup> groups_of(const Origin& origin, train::Method method,
                                             const train::ParameterGroup& plain) {
  std::vector<train::ParameterGroup> groups;
  for (const auto& entry : origin.plan().recipe) {
    const std::string& name = entry.first;
    const float times = origin.times(name);
    if (times == 1.0f) continue;
    train::ParameterGroup own{.has = [name](const std::string& other) { return other == name; },
                              .rate = method == train::Method::sgd ? times * times : times};
    if (plain.has(name)) own.weight_decay = plain.weight_decay;
    groups.push_back(std::move(own));
  }
  groups.push_back(plain);
  return groups;
}

}  // namespace fovea::tasks
