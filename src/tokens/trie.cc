#include "tokens/trie.h"

#include <algorithm>
#include <iterator>

namespace fovea::tokens {

// Breadth first: a node is a range of the sorted keys that share its bytes.
Trie::Trie(std::vector<Entry> keys) {
  std::stable_sort(keys.begin(), keys.end(),
                   [](const Entry& a, const Entry& b) { return a.first < b.first; });
  struct Range {
    size_t begin, end, depth;
  };
  std::vector<Range> nodes = {{0, keys.size(), 0}};
  label_ = {'\0'};
  for (size_t i = 0; i < nodes.size(); ++i) {
    auto [begin, end, depth] = nodes[i];
    first_.push_back(static_cast<uint32_t>(nodes.size()));
    value_.push_back(kNone);
    while (begin < end && keys[begin].first.size() == depth) {
      if (depth > 0) value_.back() = keys[begin].second;
      ++begin;
    }
    while (begin < end) {
      const char label = keys[begin].first[depth];
      size_t same = begin;
      while (same < end && keys[same].first[depth] == label) ++same;
      nodes.push_back({begin, same, depth + 1});
      label_.push_back(label);
      begin = same;
    }
  }
  first_.push_back(static_cast<uint32_t>(nodes.size()));
  std::fill(std::begin(root_), std::end(root_), kNone);
  for (uint32_t i = first_[0]; i < first_[1]; ++i) {
    root_[static_cast<unsigned char>(label_[i])] = i;
  }
}

}  // namespace fovea::tokens
