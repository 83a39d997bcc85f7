#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "fovea/documents.h"
#include "report/shaded_text.h"
#include "tasks/coder.h"
#include "tasks/further.h"
#include "tasks/run_folder.h"
#include "tasks/task.h"
#include "text/labelled.h"
#include "text/vocabulary.h"

// Classification of documents: from labelled texts to a trained model, its scores and the words and
// sentences that it looked at.
namespace fovea::tasks {
extern const Task task_documents;
}

namespace fovea::tasks::classification {

struct DocumentsData {
  std::string builtin = "reviews";  // used where no data is given
  int64_t examples = 2000;          // of the built-in data
  std::string data;                 // the user's: a file, or a folder for each class
  text::Columns columns;
  std::string valid, test;  // more of the kind; otherwise a share of the documents
  double valid_share = 0.1, test_share = 0.1;
  int64_t folds = 0;  // 0: shares; K: a K-th part is held out to test …
  int64_t fold = 0;   // … the fold-th; 0: the one that the seed says
};

// What of a text is read.
struct Reading {
  int64_t vocabulary = 20000, min_count = 1;
  int64_t longest_sentence = 60, most_sentences = 120;
};

struct DocumentsConfig final : TaskConfig {
  DocumentsData data;
  Reading reading;
  models::DocumentConfig network;  // vocabulary and classes are found in the data
  models::DocumentLossConfig loss;
  double sentence_dropout = 0;  // share of sentences that a step of training does not read
  double attention_rate = 1;    // of what weighs words and sentences, times the rate
  FurtherConfig further;

  void visit(Fields&) override;
  void suit_data() override;
  std::string data_name() const override;
  std::string model() const override;
  std::string attention() const override;
};
const std::vector<Measure>& measures();

struct EvaluateSettings final : Settings {
  void visit(Fields&) override {}
};
struct PredictSettings final : Settings {
  int64_t n_best = 1;
  void visit(Fields&) override;
};

// ---- Texts --------------------------------------------------------------------------------------

// A text as it is read: its sentences, each a list of words and marks as they are written.
struct SplitDocument {
  std::vector<std::vector<std::string>> sentences;  // none empty
  int64_t cut = 0;                                  // sentences that were cut into pieces
  int64_t dropped = 0;                              // words past the last sentence that is read
  models::SentenceIds tokens = {};  // of a model that is trained further; its one sentence
};
SplitDocument taken_apart(const std::string& text, const Reading&);

// What goes with the weights: the words that are known, in small letters, and the classes.
struct Known {
  std::shared_ptr<const text::Vocabulary> words;
  std::vector<std::string> classes;
  std::optional<Coder> coder = {};  // of a model that is trained further, in place of words

  SplitDocument apart(const std::string& text, const Reading&) const;
  int64_t size() const;  // words or tokens
  models::DocumentIds ids_of(const SplitDocument&) const;
  int64_t class_of(const std::string& label) const;  // −1 where there is none
};
inline constexpr const char* kKnownFile = "words.json";
Known known_of(std::span<const text::Labelled>, const Reading&);
void save(const Known&, const RunFolder&);
Known load_known(const RunFolder&);

struct Documents {
  std::vector<text::Labelled> train, valid, test;
};
struct DocumentsSets {
  Documents documents;
  std::string fingerprint;
};
DocumentsSets load_data(const DocumentsData&, uint64_t seed);
// Documents of one text go to one side. Each class is spread over the sides as the whole is.
Documents split(std::vector<text::Labelled>, const DocumentsData&, uint64_t seed);

// ---- The model at work --------------------------------------------------------------------------

struct Classifier {
  DocumentsConfig config;
  Known known;
  models::Documents model;
  std::optional<checkpoints::Origin> origin = {};  // where it is trained further
};
// What is known by a model that is trained further, and the model's shape.
Known known_of(const checkpoints::Origin&);
models::DocumentConfig network_of(const checkpoints::Origin&, const Known&);
Classifier load_classifier(const RunFolder&);

// Where it looked: a sentence's weight among all, a word's among its sentence's.
struct WordWeights {
  std::vector<float> sentences;
  std::vector<std::vector<float>> words;
};
struct Judgement {
  std::vector<float> probabilities;  // by class
  WordWeights looked;                // when asked for, and where the model looks
  int64_t likeliest() const;
};
std::vector<Judgement> judge(const Classifier&, std::span<const models::DocumentIds>, Maps,
                             const ShareDone& = {});

std::vector<Predictions> predict(const Classifier&, std::span<const std::string> texts,
                                 int64_t n_best, Maps, const ShareDone& = {});

// What the judgement of a text came of. It refers to the classifier.
Inside inside(const Classifier&, const std::string& text);

// ---- Scores -------------------------------------------------------------------------------------

// counts[true class][class that was said].
using Confusion = std::vector<std::vector<int64_t>>;
// Documents that were judged, with the classes they are of.
struct Graded {
  std::vector<int64_t> classes;
  std::vector<Judgement> judged;
};
Graded grade(const Classifier&, std::span<const text::Labelled>, Maps, const ShareDone& = {});
Confusion confusion_of(const Graded&, size_t classes);
// loss, accuracy, macro_f1.
train::Scores scores_of(const Graded&, size_t classes);
// In whole; by class: precision, recall, F1; and the confusion, a row for each true class.
Evaluation evaluation_of(const Graded&, const std::vector<std::string>& classes);

// The words that draw more attention than their number would, in documents said to be of one class
// more than in others.
struct Attended {
  std::string word;
  double share = 0, elsewhere = 0;  // of a document's attention, in the class and in others
  double lift = 0;                  // its weight over that of a word in a document by chance
  double rank = 0;                  // larger comes first
  int64_t count = 0;                // how often it stands there
};
std::vector<std::vector<Attended>> most_attended(const Classifier&, std::span<const text::Labelled>,
                                                 size_t most);

report::Section most_attended_section(const Classifier&, std::span<const text::Labelled>);

// A document without some of its sentences, by chance; one remains at least.
models::DocumentIds thinned(const models::DocumentIds&, double share, uint64_t seed);

// What is minimised: −log p of the class. It refers to the classifier.
train::Learner learner(const Classifier&, const Documents&, const Watching&);

}  // namespace fovea::tasks::classification
