#include "tasks/translate/network.h"

#include "fovea/error.h"
#include "tasks/translate/translate.h"

namespace fovea::tasks::translation {
namespace {

// Scores and weightings are named once, for either kind.
models::TransformerConfig transformer_of(const TranslateConfig& c) {
  models::TransformerConfig t = c.transformer;
  t.source_vocabulary = c.network.source_vocabulary;
  t.target_vocabulary = c.network.target_vocabulary;
  t.score = c.network.score;
  t.weighting = c.network.weighting;
  t.longest = 2 * c.data.longest + 10;  // what decoding may come to
  if (models::draws(c.network)) {
    throw Error("train", "a Transformer learns no hard attention here: --weighting " + t.weighting +
                             " needs --model recurrent");
  }
  if (c.network.context == models::Context::fixed) {
    throw Error("train", "--context fixed needs --model recurrent: a Transformer is attention");
  }
  return t;
}

bool recurrent(const TranslateConfig& c) { return c.kind == Kind::recurrent; }

}  // namespace

const char* name_of(Kind k) { return k == Kind::recurrent ? "recurrent" : "transformer"; }

Network make_network(const TranslateConfig& c, nn::Weights weights) {
  if (recurrent(c)) return models::seq2seq(c.network, std::move(weights));
  return models::transformer(transformer_of(c), std::move(weights));
}

int64_t count_weights(const TranslateConfig& c) {
  return recurrent(c) ? models::count_weights(c.network) : models::count_weights(transformer_of(c));
}

bool looks(const TranslateConfig& c) {
  return !recurrent(c) || c.network.context == models::Context::attention;
}

models::Loss loss(const Network& n, const models::Batch& batch, const models::LossConfig& c) {
  return std::visit([&](const auto& m) { return models::loss(m, batch, c); }, n);
}

std::vector<std::vector<models::Decoded>> decode(const Network& n, const Tensor& source,
                                                 const Tensor& lengths,
                                                 const models::DecodeConfig& c) {
  return std::visit([&](const auto& m) { return models::decode(m, source, lengths, c); }, n);
}

}  // namespace fovea::tasks::translation
