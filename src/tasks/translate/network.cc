#include "tasks/translate/network.h"

#include "fovea/error.h"
#include "fovea/io.h"
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

// Sizes are compared with the weights that are there before memory is taken for them.
void expect_sizes(const models::Seq2SeqConfig& c, const Tensors& weights) {
  models::check(c);
  const auto expect = [&](const std::string& name, const Shape& shape) {
    const auto found = weights.find(name);
    expect_shape(name, found == weights.end() ? Tensor() : found->second, shape);
  };
  expect("source.weight", {c.source_vocabulary, c.embedding});
  expect("target.weight", {c.target_vocabulary, c.embedding});
  expect("output.weight", {c.target_vocabulary, c.hidden});
  for (int64_t l = 0; l < c.layers; ++l) {
    expect("decoder." + std::to_string(l) + ".weight_hh",
           {nn::gates_of(c.cell) * c.hidden, c.hidden});
  }
}

bool recurrent(const TranslateConfig& c) { return c.kind == Kind::recurrent; }

}  // namespace

const char* name_of(Kind k) { return k == Kind::recurrent ? "recurrent" : "transformer"; }

Network make_network(const TranslateConfig& c) {
  if (recurrent(c)) return models::seq2seq(c.network, c.train.seed);
  return models::transformer(transformer_of(c), c.train.seed);
}

int64_t count_weights(const TranslateConfig& c) {
  return recurrent(c) ? models::count_weights(c.network) : models::count_weights(transformer_of(c));
}

void expect_weights(const TranslateConfig& c, const Tensors& weights) {
  if (recurrent(c)) return expect_sizes(c.network, weights);
  models::expect_weights(transformer_of(c), weights);
}

bool looks(const TranslateConfig& c) {
  return !recurrent(c) || c.network.context == models::Context::attention;
}

const nn::Weights& weights_of(const Network& n) {
  return std::visit([](const auto& m) -> const nn::Weights& { return m.weights; }, n);
}

nn::Weights& weights_of(Network& n) {
  return std::visit([](auto& m) -> nn::Weights& { return m.weights; }, n);
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
