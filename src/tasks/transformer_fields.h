#pragma once

#include <string>
#include <vector>

#include "fovea/train.h"
#include "fovea/transformer.h"
#include "tasks/fields.h"

// What tasks with a Transformer share.
namespace fovea::tasks {

void visit_transformer(Fields&, models::TransformerConfig&);
// The options by which they differ: "--blocks".
std::vector<std::string> options_set(const models::TransformerConfig&,
                                     const models::TransformerConfig& usual);
// A line on options that were set for a model which is no Transformer; nothing where none was.
std::string set_in_vain(const models::TransformerConfig&, const models::TransformerConfig& usual,
                        const std::string& model);
std::string text_of(const models::TransformerConfig&);       // "4 blocks of 256, 4 heads"
std::string attention_of(const models::TransformerConfig&);  // "softmax, rotary positions"

// Which parameters do not decay: biases, norms and tables of positions.
std::vector<train::ParameterGroup> without_decay();

}  // namespace fovea::tasks
