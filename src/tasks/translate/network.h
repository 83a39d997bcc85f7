#pragma once

#include <string>
#include <variant>
#include <vector>

#include "fovea/seq2seq.h"
#include "fovea/transformer.h"

// The models that translate, as one.
namespace fovea::tasks::translation {

struct TranslateConfig;

enum class Kind : uint8_t { recurrent, transformer };
const char* name_of(Kind);

using Network = std::variant<models::Seq2Seq, models::Transformer>;

// Of the settings' kind; checked.
Network make_network(const TranslateConfig&);
int64_t count_weights(const TranslateConfig&);
// Throws unless these are the weights of such a network, before memory is taken for it.
void expect_weights(const TranslateConfig&, const Tensors&);
bool looks(const TranslateConfig&);  // has attention to the source

const nn::Weights& weights_of(const Network&);
nn::Weights& weights_of(Network&);
models::Loss loss(const Network&, const models::Batch&, const models::LossConfig&);
std::vector<std::vector<models::Decoded>> decode(const Network&, const Tensor& source,
                                                 const Tensor& lengths,
                                                 const models::DecodeConfig&);

}  // namespace fovea::tasks::translation
