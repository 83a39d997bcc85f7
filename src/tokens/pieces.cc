#include "tokens/pieces.h"

#include <fmt/format.h>

#include <functional>

#include "fovea/error.h"
#include "text/messages.h"

namespace fovea::tokens {
namespace {

uint32_t hash_of(std::string_view piece) {
  return static_cast<uint32_t>(std::hash<std::string_view>{}(piece));
}

}  // namespace

void Pieces::reserve(size_t pieces, size_t bytes) {
  places_.reserve(pieces);
  bytes_.reserve(bytes);
  size_t slots = 16;
  while (slots < 2 * pieces) slots *= 2;
  if (slots > slots_.size()) slots_.assign(slots, {});
}

void Pieces::add(std::string_view piece, int64_t id) {
  if (id < 0 || id > kMaxId) {
    throw Error("read_tokenizer", fmt::format("{} has the id {}, expected 0 to {}",
                                              text::quoted_piece(piece), id, kMaxId));
  }
  if (has(id)) {
    throw Error("read_tokenizer",
                fmt::format("id {} is there twice, for {} and {}", id,
                            text::quoted_piece(this->piece(id)), text::quoted_piece(piece)));
  }
  if (static_cast<size_t>(id) >= places_.size()) places_.resize(static_cast<size_t>(id) + 1);
  places_[static_cast<size_t>(id)] = {static_cast<uint32_t>(bytes_.size()),
                                      static_cast<uint32_t>(piece.size())};
  bytes_ += piece;
  ++count_;
  if (2 * count_ > slots_.size()) {
    grow();
  } else {
    put(static_cast<uint32_t>(id));
  }
}

void Pieces::grow() {
  slots_.assign(slots_.empty() ? 16 : 2 * slots_.size(), {});
  for (uint32_t id = 0; id < places_.size(); ++id) {
    if (places_[id].size != kHole) put(id);
  }
}

void Pieces::put(uint32_t id) {
  const std::string_view wanted = piece(id);
  const uint32_t hash = hash_of(wanted);
  const size_t mask = slots_.size() - 1;
  size_t at = hash & mask;
  while (slots_[at].id != kHole && (slots_[at].hash != hash || piece(slots_[at].id) != wanted)) {
    at = (at + 1) & mask;
  }
  slots_[at] = {hash, id};
}

std::optional<uint32_t> Pieces::find(std::string_view wanted) const {
  if (slots_.empty()) return {};
  const uint32_t hash = hash_of(wanted);
  const size_t mask = slots_.size() - 1;
  for (size_t at = hash & mask; slots_[at].id != kHole; at = (at + 1) & mask) {
    if (slots_[at].hash == hash && piece(slots_[at].id) == wanted) return slots_[at].id;
  }
  return {};
}

bool Pieces::has(int64_t id) const {
  return id >= 0 && id < end() && places_[static_cast<size_t>(id)].size != kHole;
}

std::string_view Pieces::piece(int64_t id) const {
  if (!has(id)) return {};
  const Place& place = places_[static_cast<size_t>(id)];
  return std::string_view(bytes_).substr(place.begin, place.size);
}

}  // namespace fovea::tokens
