#pragma once

#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "text/sentence_pieces.h"

namespace fovea::tokens {

// Pieces become text; what is left of them is put together.
using Decoder = std::function<void(std::vector<std::string>&)>;

// As "decoder" of tokenizer.json says; of null, pieces with a space between them.
Decoder read_decoder(const nlohmann::ordered_json&);

// By SentencePiece; `special` pieces are left as they are, with a space behind them.
Decoder spm_decoder(std::shared_ptr<const text::SentencePieces>, std::vector<std::string> special);

}  // namespace fovea::tokens
