#include <fmt/format.h>

#include "fovea/error.h"
#include "text/messages.h"
#include "tokens/models.h"

namespace fovea::tokens {

SpmModel::SpmModel(std::shared_ptr<const text::SentencePieces> model,
                   std::shared_ptr<const Pieces> pieces, Ids ids, std::string unknown)
    : model_(std::move(model)), pieces_(std::move(pieces)), ids_(ids) {
  const auto id = pieces_->find(unknown);
  if (!id) {
    throw Error("open_tokenizer", fmt::format("the vocabulary has no unknown token, {}",
                                              text::quoted_piece(unknown)));
  }
  unknown_ = *id;
}

// >>fr<< at the beginning is a token by itself, which SentencePiece never sees.
void SpmModel::cut(std::string_view text, std::vector<Cut>& cuts) const {
  size_t begin = 0;
  if (ids_ == Ids::of_vocabulary && text.starts_with(">>")) {
    if (const size_t end = text.find("<<"); end != text.npos) begin = end + 2;
  }
  if (begin > 0) {
    cuts.push_back(
        {pieces_->find(text.substr(0, begin)).value_or(unknown_), 0, static_cast<uint32_t>(begin)});
  }
  for (const text::SentencePieces::Piece& p : model_->encode(text.substr(begin))) {
    const uint32_t id =
        ids_ == Ids::own ? static_cast<uint32_t>(p.id) : pieces_->find(p.piece).value_or(unknown_);
    cuts.push_back(
        {id, static_cast<uint32_t>(begin + p.begin), static_cast<uint32_t>(begin + p.end)});
  }
}

}  // namespace fovea::tokens
