#include "text/subwords.h"

#include <fmt/format.h>
#include <sentencepiece_processor.h>
#include <sentencepiece_trainer.h>

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "fovea/error.h"
#include "text/utf8.h"

namespace fovea::text {
namespace {

namespace sp = sentencepiece;

// SentencePiece keeps these two for itself, and skips lines with the second.
bool reserved(std::string_view c) { return c == "\xE2\x96\x81" || c == "\xE2\x96\x85"; }

// The characters of the lines, the most frequent first.
std::unordered_set<std::string> frequent(std::span<const std::string> lines, int64_t most,
                                         int64_t min_count) {
  std::unordered_map<std::string, int64_t> counts;
  for (const std::string& line : lines) {
    for (std::string& c : characters(line)) {
      if (!is_ascii_space(static_cast<unsigned char>(c[0])) && !reserved(c)) ++counts[std::move(c)];
    }
  }
  std::vector<std::pair<int64_t, std::string>> ranked;
  for (auto& [c, count] : counts) {
    if (count >= min_count) ranked.emplace_back(-count, c);
  }
  std::sort(ranked.begin(), ranked.end());
  if (static_cast<int64_t>(ranked.size()) > most) ranked.resize(static_cast<size_t>(most));
  std::unordered_set<std::string> kept;
  for (auto& [count, c] : ranked) kept.insert(std::move(c));
  return kept;
}

// SentencePiece ends the program at words of more than 65,535 characters.
constexpr int kLongestWord = 10'000;

// The lines, with a space for every character that is not kept, and in words that are too long.
class TrainingLines : public sp::SentenceIterator {
 public:
  TrainingLines(std::span<const std::string> lines, std::unordered_set<std::string> kept)
      : lines_(lines), kept_(std::move(kept)) {
    find();
  }
  bool done() const override { return at_ == lines_.size(); }
  void Next() override {
    ++at_;
    find();
  }
  const std::string& value() const override { return line_; }
  sp::util::Status status() const override { return {}; }

 private:
  void find() {  // the next line with something in it
    for (; at_ < lines_.size(); ++at_) {
      line_.clear();
      bool any = false;
      int length = 0;
      for (const std::string& c : characters(lines_[at_])) {
        const bool keep = kept_.count(c) > 0;
        length = keep ? length + 1 : 0;
        if (keep && length % kLongestWord == 0) line_ += ' ';
        line_ += keep ? c : " ";
        any = any || keep;
      }
      if (any) return;
    }
  }

  std::span<const std::string> lines_;
  std::unordered_set<std::string> kept_;
  std::string line_;
  size_t at_ = 0;
};

std::string train_model(TrainingLines lines, int64_t size) {
  const std::unordered_map<std::string, std::string> options = {
      {"model_type", "bpe"},
      {"vocab_size", std::to_string(size)},
      {"hard_vocab_limit", "false"},
      {"character_coverage", "1.0"},
      {"normalization_rule_name", "identity"},
      {"pad_id", std::to_string(kPad)},
      {"unk_id", std::to_string(kUnknown)},
      {"bos_id", std::to_string(kBegin)},
      {"eos_id", std::to_string(kEnd)},
      {"max_sentence_length", std::to_string(1 << 20)},
      {"num_threads", "1"},
      {"minloglevel", "3"},
  };
  std::string model;
  const sp::util::Status status = sp::SentencePieceTrainer::Train(options, &lines, &model);
  if (!status.ok()) throw Error("train_subwords", status.message());
  return model;
}

}  // namespace

std::vector<std::string> train_subwords(std::span<const std::string> lines, int64_t most,
                                        int64_t min_count) {
  if (most < 2) throw Error("train_subwords", fmt::format("room for {} tokens, needs 2", most));
  std::unordered_set<std::string> kept = frequent(lines, most - 1, min_count);  // and ▁
  if (kept.empty()) throw Error("train_subwords", "the lines hold no text");
  const std::string model = train_model(TrainingLines(lines, std::move(kept)), kFirst + most);
  sp::SentencePieceProcessor processor;
  const sp::util::Status status = processor.LoadFromSerializedProto(model);
  if (!status.ok()) throw Error("train_subwords", status.message());
  std::vector<std::string> tokens;
  for (int id = kFirst; id < processor.GetPieceSize(); ++id) {
    tokens.push_back(processor.IdToPiece(id));
  }
  return tokens;
}

}  // namespace fovea::text
