#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace fovea::tokens {

inline constexpr int64_t kMaxId = (int64_t{1} << 22) - 1;

// Pieces and their ids, which may have holes. Both directions; the last of pieces that are alike is
// found.
class Pieces {
 public:
  void reserve(size_t pieces, size_t bytes);
  // Throws where the id is taken or beyond kMaxId.
  void add(std::string_view piece, int64_t id);

  std::optional<uint32_t> find(std::string_view piece) const;
  std::string_view piece(int64_t id) const;  // "" for holes and beyond
  bool has(int64_t id) const;
  int64_t end() const { return static_cast<int64_t>(places_.size()); }  // the largest id + 1
  size_t count() const { return count_; }

 private:
  struct Place {
    uint32_t begin = 0, size = kHole;
  };
  static constexpr uint32_t kHole = static_cast<uint32_t>(-1);
  void grow();
  void put(uint32_t id);

  std::string bytes_;
  std::vector<Place> places_;
  struct Slot {
    uint32_t hash = 0, id = kHole;
  };
  std::vector<Slot> slots_;  // a power of two of them, at most half in use
  size_t count_ = 0;
};

}  // namespace fovea::tokens
