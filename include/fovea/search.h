#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "fovea/api.h"
#include "fovea/tensor.h"

// Greedy and beam search, over anything that says token by token what comes next: a recurrent
// decoder, a captioner, a Transformer with a cache. Letters: B sequences, K beams, V tokens.
namespace fovea::models {

// A decoder as a search sees it: rows that each follow a sequence of their own.
class FOVEA_API Generator {
 public:
  virtual ~Generator() = default;

  // One step of every row: the tokens, i64 [rows], follow what the rows have so far.
  virtual void advance(const Tensor& tokens) = 0;
  // Of the token after that, [rows,V]: logits, or log-probabilities.
  virtual Tensor logits() = 0;
  // What the step looked at, [rows,S]; undefined: nothing, or it was not kept.
  virtual Tensor weights();
  // Row i goes on as row ids[i]; ids i64 [rows].
  virtual void select_rows(const Tensor& ids) = 0;

  // The likeliest next token of a row other than `never`, where that takes less than all logits.
  // Greedy search asks for it first; none: it takes the logits.
  struct Likeliest {
    int64_t token = 0;
    double log_p = 0;
  };
  virtual std::optional<Likeliest> likeliest(int64_t row, std::span<const int64_t> never);
};

inline constexpr int64_t kLargestBeam = 1024;  // of a DecodeConfig

// Ids of the vocabulary that is written, which mean no text: those of our own tokenizers.
struct SpecialIds {
  int64_t begin = 2;                    // what a text follows
  std::vector<int64_t> ends = {3};      // each ends one
  std::vector<int64_t> never = {0, 2};  // are in none, such as padding
};

// When a beam search has found enough.
enum class Enough : uint8_t {
  endings,  // as soon as there are as many endings as beams
  better,   // when what goes on can no longer become better than these, the best that were found
};

struct DecodeConfig {
  int64_t beam = 1;                  // 1: greedy
  int64_t n_best = 1;                // at most beam
  int64_t longest = 0;               // tokens, the end included; 0: as a sequence's own limit says
  float length_power = 1.0f;         // hypotheses compare by log p / length^power
  bool weights = false;              // keep what was attended to
  bool places = false;               // keep what was attended to most
  std::vector<int64_t> prefix = {};  // tokens that every hypothesis begins with; their p counts
  SpecialIds special = {};
  Enough enough = Enough::endings;
};
// Throws, naming the field and its range.
FOVEA_API void check(const DecodeConfig&);

struct Decoded {
  std::vector<int64_t> tokens;              // without begin and end
  double score = 0;                         // log p / length^power, end included
  bool ended = false;                       // false: cut at the limit
  std::vector<std::vector<float>> weights;  // by token (end too, where ended), over the source
  std::vector<int64_t> places;              // the same, where the largest weight is
};

// What is searched for.
struct Sequences {
  std::vector<int64_t> first;   // by sequence, the token that it follows
  std::vector<int64_t> limits;  // by sequence, the most tokens it may have, the end included
  std::vector<int64_t> ends;    // tokens of which each ends one, or none
  std::vector<int64_t> never;   // tokens that are in none, such as padding
};

// The n best of each sequence, best first. The generator is at its beginning, with B·K rows:
// sequence b has rows b·K … b·K + K − 1.
FOVEA_API std::vector<std::vector<Decoded>> search(Generator&, const Sequences&,
                                                   const DecodeConfig& = {});

}  // namespace fovea::models
