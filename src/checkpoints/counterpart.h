#pragma once

#include "checkpoints/origin.h"
#include "fovea/transformer.h"

namespace fovea::checkpoints {

// A decoder that was made here as one that others have: GPT-2 with learned positions, Llama with
// rotary ones. Throws, naming every setting that has no counterpart there.
Origin counterpart_of(const models::TransformerConfig&);

}  // namespace fovea::checkpoints
