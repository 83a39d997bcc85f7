#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <utility>
#include <vector>

namespace fovea::tokens {

// Keys by their bytes. The children of a node lie side by side, so that one is found by memchr().
class Trie {
 public:
  using Entry = std::pair<std::string_view, uint32_t>;  // a key and its value, below 2³² − 1
  Trie() : Trie(std::vector<Entry>{}) {}
  explicit Trie(std::vector<Entry>);  // the last of keys that are alike counts; empty ones do not

  static constexpr uint32_t kNone = static_cast<uint32_t>(-1);
  static constexpr uint32_t kRoot = 0;

  // The node below `node` by `byte`, or kNone; and its value, or kNone.
  uint32_t child(uint32_t node, char byte) const {
    if (node == kRoot) return root_[static_cast<unsigned char>(byte)];
    const uint32_t begin = first_[node], end = first_[node + 1];
    if (begin == end) return kNone;
    const void* found = std::memchr(&label_[begin], byte, end - begin);
    if (found == nullptr) return kNone;
    return static_cast<uint32_t>(static_cast<const char*>(found) - label_.data());
  }
  uint32_t value(uint32_t node) const { return value_[node]; }

  // found(bytes, value) for each key that `text` begins with, the shortest first.
  template <class Found>
  void prefixes(std::string_view text, Found&& found) const {
    uint32_t node = kRoot;
    for (size_t i = 0; i < text.size(); ++i) {
      node = child(node, text[i]);
      if (node == kNone) return;
      if (value_[node] != kNone) found(i + 1, value_[node]);
    }
  }

 private:
  std::vector<uint32_t> first_;  // of each node, and one more: where its children begin
  std::vector<char> label_;
  std::vector<uint32_t> value_;
  uint32_t root_[256];
};

}  // namespace fovea::tokens
