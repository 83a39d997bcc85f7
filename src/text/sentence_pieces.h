#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace fovea::text {

// A model of SentencePiece's, as its files (.spm, .model) hold it. Immutable; any number of threads
// may ask at once.
class SentencePieces {
 public:
  // Throws fovea::Error, which calls the bytes `name`, where they are no model.
  SentencePieces(std::string_view bytes, const std::string& name);
  ~SentencePieces();
  SentencePieces(const SentencePieces&) = delete;
  SentencePieces& operator=(const SentencePieces&) = delete;

  struct Piece {
    std::string piece;
    int64_t id;
    size_t begin, end;  // bytes of the text
  };
  std::vector<Piece> encode(std::string_view valid_utf8) const;
  std::string decode(const std::vector<std::string>& pieces) const;

  int64_t size() const;
  std::string piece(int64_t id) const;
  bool is_control(int64_t id) const;  // or the unknown one: no text gives it
  struct Ids {
    std::optional<int64_t> unknown, begin, end, pad;
  };
  Ids ids() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace fovea::text
