#include "text/sentence_pieces.h"

#include <fmt/format.h>
#include <sentencepiece_processor.h>

#include "fovea/error.h"

namespace fovea::text {

struct SentencePieces::Impl {
  sentencepiece::SentencePieceProcessor processor;
};

SentencePieces::SentencePieces(std::string_view bytes, const std::string& name)
    : impl_(std::make_unique<Impl>()) {
  const auto status = impl_->processor.LoadFromSerializedProto(bytes);
  if (!status.ok()) {
    throw Error("open_tokenizer", fmt::format("{} is no model of SentencePiece's", name));
  }
}

SentencePieces::~SentencePieces() = default;

std::vector<SentencePieces::Piece> SentencePieces::encode(std::string_view text) const {
  const auto encoded = impl_->processor.EncodeAsImmutableProto(text);
  std::vector<Piece> all;
  all.reserve(encoded.pieces_size());
  for (const auto& piece : encoded.pieces()) {
    all.push_back({piece.piece(), piece.id(), piece.begin(), piece.end()});
  }
  return all;
}

std::string SentencePieces::decode(const std::vector<std::string>& pieces) const {
  return impl_->processor.DecodePieces(pieces);
}

int64_t SentencePieces::size() const { return impl_->processor.GetPieceSize(); }
std::string SentencePieces::piece(int64_t id) const {
  return impl_->processor.IdToPiece(static_cast<int>(id));
}
bool SentencePieces::is_control(int64_t id) const {
  const auto i = static_cast<int>(id);
  return impl_->processor.IsControl(i) || impl_->processor.IsUnknown(i);
}

SentencePieces::Ids SentencePieces::ids() const {
  const auto given = [](int id) { return id < 0 ? std::optional<int64_t>{} : id; };
  const auto& p = impl_->processor;
  return {given(p.unk_id()), given(p.bos_id()), given(p.eos_id()), given(p.pad_id())};
}

}  // namespace fovea::text
