#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "fovea/api.h"
#include "fovea/look.h"
#include "fovea/nn.h"
#include "fovea/ops.h"
#include "fovea/reinforce.h"
#include "fovea/tensor.h"
#include "fovea/transformer.h"

// Documents to classes.
//   hierarchical  h_it = both ways over the words of sentence i;  s_i = Σ_t a_it h_it
//                 h_i  = both ways over the sentences s_i;        v   = Σ_i a_i h_i
//   flat          h_t  = both ways over all words;                v   = Σ_t a_t h_t
//   transformer   h_t  = blocks of self-attention over all words; v as of flat
//   mean          v = the mean of the words' vectors
//   first         h_t  = blocks over all tokens;                  v   = f(W h_1 + b)
//   output        p(class) = softmax(W v + b)
// The weights a are attention of one learned query, by any score and weighting. With the additive
// score, u·tanh(W_q q + W_k h + b), the query is part of the bias: a = softmax(uᵀ tanh(W h + b)).
// Letters: B documents, S sentences of a document, N sentences of a batch, W words of a sentence,
// E embedding, H hidden.
namespace fovea::models {

enum class DocumentModel : uint8_t { hierarchical, flat, transformer, mean, first };  // as above
FOVEA_API const char* name_of(DocumentModel);
FOVEA_API DocumentModel document_model(const std::string& name);

// f of `first`; none: v is h_1 itself.
enum class DocumentCurve : uint8_t { none, tanh, relu };

struct DocumentConfig : LookConfig {
  DocumentModel model = DocumentModel::hierarchical;
  int64_t vocabulary = 0, classes = 0;
  int64_t embedding = 64, hidden = 32, layers = 1;  // hidden: of each direction
  nn::Cell cell = nn::Cell::gru;
  TransformerConfig transformer;  // its depth is the width of a word's vector
  DocumentCurve curve = DocumentCurve::none;
  int64_t unknown = 1;  // the id that words dropped in training are read as
};
// Throws, naming the field and its range.
FOVEA_API void check(const DocumentConfig&);
// Whether sentences are read one by one; otherwise a document is one sequence of words.
FOVEA_API bool by_sentences(const DocumentConfig&);
// Whether words are weighed by attention, so that there is something to see.
FOVEA_API bool looks(const DocumentConfig&);

struct TransformerEncoder {  // blocks that read what was embedded
  TransformerConfig config;
  Stack stack;
};
// What reads a sequence, [T,B,I] with lengths → [T,B,width]; nothing leaves it as it is. Another
// kind of encoder is one more alternative here, made and called in documents.cc.
using SequenceEncoder = std::variant<std::monostate, nn::Recurrent, TransformerEncoder>;

// A sequence read and pooled into one vector.
struct FOVEA_API DocumentLevel {
  SequenceEncoder encoder;
  int64_t width = 0;  // of what it gives
  Tensor query;       // [Q]; undefined: the mean
  LookWeights look;
};

struct FOVEA_API Documents {
  DocumentConfig config;
  nn::Weights weights;
  nn::Embedding embedding;
  std::vector<DocumentLevel> levels;  // words, sentences
  nn::Linear dense;                   // first: W, b
  nn::Linear output;
};
FOVEA_API Documents documents(const DocumentConfig&, nn::Weights);
// How many numbers it would learn; takes no memory for them.
FOVEA_API int64_t count_weights(const DocumentConfig&);

// Sentences of like lengths side by side, time-major, padded with anything at the end.
struct SentenceGroup {
  Tensor ids, lengths;  // i64 [W,n], [n]
};
// The documents of one pass. Sentences lie in groups, so that short ones are not padded to the
// longest; `places` says where those of a document are, counted through all groups.
struct DocumentBatch {
  std::vector<SentenceGroup> groups;
  Tensor places;   // i64 [S,B], anything that is a place past the end
  Tensor lengths;  // i64 [B], sentences
  Tensor classes;  // i64 [B], for the loss
};
using SentenceIds = std::vector<int64_t>;
using DocumentIds = std::vector<SentenceIds>;  // none empty
enum class Grouping : uint8_t { by_length, one };
// Where documents are read as one sequence, their sentences are joined.
FOVEA_API DocumentBatch batch_of(const DocumentConfig&, const std::vector<const DocumentIds*>&,
                                 Grouping = Grouping::by_length);

struct DocumentPass {
  Mode mode = Mode::eval;
  float dropout = 0.0f;       // of word vectors, sentence vectors and the document's
  float word_dropout = 0.0f;  // words read as unknown
  uint64_t seed = 0;
  bool keep_weights = false;
  bool expect = false;            // hard weightings: their expectation instead of a draw
  Intervention words, sentences;  // words: once for each group, [n,1,W]; sentences: [B,1,S]
  // For whoever looks inside, by group: the words' vectors [W,n,E] in place of their own; and
  // further on, what their encoder made of them, [W,n,width].
  std::vector<Tensor> embedded, read;
  nn::HeadsHook hook;  // of a Transformer's self-attention
};
// The words of each group as their encoder reads them, for DocumentPass::read.
FOVEA_API std::vector<Tensor> read_words(const Documents&, const DocumentBatch&);

struct Classified {
  Tensor logits;              // [B,classes]
  std::vector<Tensor> words;  // by group, [n,W], when kept
  Tensor sentences;           // [B,S], when kept
  Tensor log_prob, entropy;   // [B], of all its choices, when drawn
};
FOVEA_API Classified classify(const Documents&, const DocumentBatch&, const DocumentPass& = {});

// And how hard attention learns: each document goes two ways, once with its choices and once with
// their expectation; the mean of both losses, and the terms of reinforce(), the reward being
// log p(class) and the baseline the second way's.
struct DocumentLossConfig : ReinforceConfig {
  float label_smoothing = 0.0f;
  float dropout = 0.0f, word_dropout = 0.0f;
  uint64_t seed = 0;
};
struct DocumentLoss {
  Tensor loss;     // [], to differentiate, a mean over documents
  double nll = 0;  // −log p, smoothed where that is on, summed over documents
};
FOVEA_API DocumentLoss loss(const Documents&, const DocumentBatch&, const DocumentLossConfig&);

}  // namespace fovea::models
