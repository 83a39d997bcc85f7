#include <queue>

#include "text/subwords.h"
#include "text/utf8.h"

namespace fovea::text {
namespace {

constexpr std::string_view kMark = "\xE2\x96\x81";  // ▁

// Bytes [begin, end) of the text, in a list of neighbours.
struct Symbol {
  size_t begin, end;
  size_t left, right;  // kNone at the ends
};
constexpr size_t kNone = static_cast<size_t>(-1);

// Two neighbours whose union is token `id`, as they were when they were found.
struct Candidate {
  int64_t id;
  size_t left, right;
  size_t begin, end;
  bool operator<(const Candidate& other) const {  // the largest comes first out of the queue
    return id != other.id ? id > other.id : begin > other.begin;
  }
};

class Merger {
 public:
  Merger(const Vocabulary& vocabulary, std::string_view text)
      : vocabulary_(vocabulary), text_(text) {
    for (size_t at = 0; at < text.size();) {
      const size_t end = at + code_point(text, at).bytes;
      const size_t i = symbols_.size();
      symbols_.push_back({at, end, i == 0 ? kNone : i - 1, end < text.size() ? i + 1 : kNone});
      at = end;
    }
    for (size_t i = 1; i < symbols_.size(); ++i) consider(i - 1, i);
  }

  void merge() {
    while (!queue_.empty()) {
      const Candidate next = queue_.top();
      queue_.pop();
      Symbol& left = symbols_[next.left];
      Symbol& right = symbols_[next.right];
      if (left.begin != next.begin || right.end != next.end || left.end != right.begin) continue;
      left.end = right.end;
      left.right = right.right;
      right.begin = right.end;  // gone
      if (left.right != kNone) symbols_[left.right].left = next.left;
      if (left.left != kNone) consider(left.left, next.left);
      if (left.right != kNone) consider(next.left, left.right);
    }
  }

  std::vector<std::string> pieces() const {
    std::vector<std::string> all;
    bool after_unknown = false;
    for (size_t i = symbols_.empty() ? kNone : 0; i != kNone; i = symbols_[i].right) {
      const std::string_view piece = view(symbols_[i].begin, symbols_[i].end);
      const bool unknown = vocabulary_.id(piece) == kUnknown;
      if (unknown && after_unknown) {
        all.back() += piece;
      } else {
        all.emplace_back(piece);
      }
      after_unknown = unknown;
    }
    return all;
  }

 private:
  std::string_view view(size_t begin, size_t end) const { return text_.substr(begin, end - begin); }

  void consider(size_t left, size_t right) {
    const size_t begin = symbols_[left].begin, end = symbols_[right].end;
    if (end - begin > kMaxTokenBytes) return;
    const int64_t id = vocabulary_.id(view(begin, end));
    if (id != kUnknown) queue_.push({id, left, right, begin, end});
  }

  const Vocabulary& vocabulary_;
  std::string_view text_;
  std::vector<Symbol> symbols_;
  std::priority_queue<Candidate> queue_;
};

}  // namespace

std::string with_space_marks(std::string_view text) {
  std::string marked;
  bool space = true;
  for (const char c : text) {
    if (is_ascii_space(static_cast<unsigned char>(c))) {
      space = true;
      continue;
    }
    if (space) marked += kMark;
    space = false;
    marked += c;
  }
  return marked;
}

std::vector<std::string> split_subwords(const Vocabulary& vocabulary, std::string_view text) {
  const std::string marked = with_space_marks(text);
  Merger merger(vocabulary, marked);
  merger.merge();
  return merger.pieces();
}

std::string join_subwords(std::span<const std::string> pieces) {
  std::string marked;
  for (const std::string& piece : pieces) marked += piece;
  std::string text;
  for (size_t at = 0; at < marked.size();) {
    const bool space = std::string_view(marked).substr(at, kMark.size()) == kMark;
    if (!space) text += marked[at];
    if (space && at > 0) text += ' ';
    at += space ? kMark.size() : 1;
  }
  return text;
}

}  // namespace fovea::text
