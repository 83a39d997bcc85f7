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
Network make_network(const TranslateConfig&, nn::Weights);
int64_t count_weights(const TranslateConfig&);
bool looks(const TranslateConfig&);  // has attention to the source

models::Loss loss(const Network&, const models::Batch&, const models::LossConfig&);
std::vector<std::vector<models::Decoded>> decode(const Network&, const Tensor& source,
                                                 const Tensor& lengths,
                                                 const models::DecodeConfig&);

}  // namespace fovea::tasks::translation
