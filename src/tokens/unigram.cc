#include <algorithm>

#include "fovea/error.h"
#include "tokens/characters.h"
#include "tokens/models.h"

namespace fovea::tokens {
namespace {

constexpr double kUnknownPenalty = 10;
constexpr uint32_t kUnreached = static_cast<uint32_t>(-1);

// The best way to the end of a byte.
struct Reached {
  double score = 0;
  uint32_t begin = kUnreached;  // of its last piece
  uint32_t id = 0;
};

}  // namespace

Unigram::Unigram(std::shared_ptr<const Pieces> pieces, std::vector<double> scores,
                 UnigramSettings settings)
    : pieces_(std::move(pieces)),
      scores_(std::move(scores)),
      settings_(settings),
      trie_(entries_of(*pieces_)) {
  if (scores_.empty()) throw Error("read_tokenizer", "model Unigram: its vocabulary is empty");
  if (settings_.unknown && *settings_.unknown >= pieces_->end()) {
    throw Error("read_tokenizer", "model Unigram: unk_id is beyond the vocabulary");
  }
  unknown_score_ = *std::min_element(scores_.begin(), scores_.end()) - kUnknownPenalty;
}

void Unigram::cut(std::string_view word, std::vector<Cut>& cuts) const {
  std::vector<Reached> reached(word.size() + 1);
  for (size_t at = 0; at < word.size();) {
    size_t after = at;
    next_code(word, after);
    const double here = reached[at].score;
    bool single = false;
    const auto reach = [&](size_t end, double score, uint32_t id) {
      Reached& r = reached[end];
      if (r.begin != kUnreached && !(here + score > r.score)) return;
      r = {here + score, static_cast<uint32_t>(at), id};
    };
    trie_.prefixes(word.substr(at), [&](size_t bytes, uint32_t id) {
      reach(at + bytes, scores_[id], id);
      single = single || at + bytes == after;
    });
    if (!single) {
      if (!settings_.unknown) {
        throw Error("encode", "the vocabulary has no token for this text, and no unknown one");
      }
      reach(after, unknown_score_, static_cast<uint32_t>(*settings_.unknown));
    }
    at = after;
  }
  // From the end back; a run of unknown ones is one token.
  std::vector<Cut> back;
  const uint32_t unknown = static_cast<uint32_t>(settings_.unknown.value_or(-1));
  for (auto end = static_cast<uint32_t>(word.size()); end > 0; end = reached[end].begin) {
    const Reached& r = reached[end];
    if (settings_.unknown && r.id == unknown && !back.empty() && back.back().id == unknown) {
      back.back().begin = r.begin;
    } else {
      back.push_back({r.id, r.begin, end});
    }
  }
  for (size_t i = back.size(); i-- > 0;) {
    if (settings_.unknown && back[i].id == unknown) {
      put_unknown(word, back[i], cuts);
    } else {
      cuts.push_back(back[i]);
    }
  }
}

void Unigram::put_unknown(std::string_view word, Cut run, std::vector<Cut>& cuts) const {
  const std::string_view text = word.substr(run.begin, run.end - run.begin);
  if (const auto id = pieces_->find(text); id) {
    cuts.push_back({*id, run.begin, run.end});
    return;
  }
  if (settings_.byte_fallback) {
    std::vector<Cut> bytes;
    for (const char c : text) {
      const auto id = pieces_->find(byte_piece(static_cast<unsigned char>(c)));
      if (!id) break;
      bytes.push_back({*id, run.begin, run.end});
    }
    if (bytes.size() == text.size()) {
      cuts.insert(cuts.end(), bytes.begin(), bytes.end());
      return;
    }
  }
  cuts.push_back(run);
}

}  // namespace fovea::tokens
