#include <fmt/format.h>

#include <memory>

#include "core/random.h"
#include "fovea/error.h"
#include "tasks/documents/documents.h"
#include "tasks/transformer_fields.h"

namespace fovea::tasks::classification {
namespace {

void say(const Watching& w, const std::string& line) {
  if (w.say) w.say(line);
}

struct Encoded {
  std::vector<models::DocumentIds> documents;
  std::vector<int64_t> classes, words;
};

Encoded training_documents(const Classifier& c, std::span<const text::Labelled> documents,
                           const Watching& w) {
  Encoded e;
  int64_t cut = 0, shortened = 0, dropped = 0, words = 0;
  for (const text::Labelled& d : documents) {
    const SplitDocument apart = c.known.apart(d.text, c.config.reading);
    cut += apart.cut;
    dropped += apart.dropped;
    shortened += apart.dropped > 0;
    e.documents.push_back(c.known.ids_of(apart));
    e.classes.push_back(c.known.class_of(d.label));
    e.words.push_back(0);
    for (const auto& s : apart.sentences) e.words.back() += static_cast<int64_t>(s.size());
    words += e.words.back();
  }
  const Reading& r = c.config.reading;
  if (cut > 0) {
    say(w, fmt::format("{} sentences of more than {} words are read in pieces", cut,
                       r.longest_sentence));
  }
  if (shortened > 0) {
    say(w,
        fmt::format("{} documents have more than {}: what follows, {:.1f} % of all words, is not "
                    "read",
                    shortened,
                    c.origin ? fmt::format("{} tokens", c.known.coder->longest())
                             : fmt::format("{} sentences", r.most_sentences),
                    100.0 * static_cast<double>(dropped) / static_cast<double>(dropped + words)));
  }
  return e;
}

}  // namespace

models::DocumentIds thinned(const models::DocumentIds& document, double share, uint64_t seed) {
  const RandomKey key = random_key(seed, Purpose::dropout);
  models::DocumentIds kept;
  for (size_t i = 0; i < document.size(); ++i) {
    if (unit_open(bits32(key, i)) >= share) kept.push_back(document[i]);
  }
  if (kept.empty()) kept.push_back(document[bits32(key, document.size()) % document.size()]);
  return kept;
}

train::Learner learner(const Classifier& c, const Documents& d, const Watching& watching) {
  say(watching, fmt::format("{} documents of {} classes to train, {} to validate, {} to test; {} "
                            "words; {:.2f} million weights",
                            d.train.size(), c.known.classes.size(), d.valid.size(), d.test.size(),
                            c.known.size(), static_cast<double>(c.model.weights.count()) / 1e6));
  if (!c.origin && c.config.network.model != models::DocumentModel::transformer) {
    DocumentsConfig usual;
    usual.data = c.config.data;
    usual.suit_data();
    const std::string vain = set_in_vain(c.config.network.transformer, usual.network.transformer,
                                         name_of(c.config.network.model));
    if (!vain.empty()) say(watching, vain);
  }
  const auto encoded = std::make_shared<const Encoded>(training_documents(c, d.train, watching));
  train::Learner l;
  l.parameters = c.model.weights.learned();
  l.buffers = c.model.weights.buffers();
  l.lengths = encoded->words;
  l.loss = [&c, encoded](std::span<const int64_t> examples, uint64_t seed) {
    std::vector<models::DocumentIds> read;
    std::vector<const models::DocumentIds*> some;
    std::vector<int64_t> classes;
    read.reserve(examples.size());
    for (const int64_t i : examples) {
      const Seed own = Seed(seed).at("sentences dropped").at(i);
      read.push_back(thinned(encoded->documents[static_cast<size_t>(i)], c.config.sentence_dropout,
                             own.value()));
      some.push_back(&read.back());
      classes.push_back(encoded->classes[static_cast<size_t>(i)]);
    }
    models::DocumentBatch batch = models::batch_of(c.model.config, some);
    const auto n = static_cast<int64_t>(classes.size());
    batch.classes = Tensor::from_ids(classes, {n});
    models::DocumentLossConfig config = c.config.loss;
    config.seed = seed;
    const models::DocumentLoss loss = models::loss(c.model, batch, config);
    return train::StepLoss{loss.loss, loss.nll, static_cast<double>(n)};
  };
  const ShareDone done = stopping(watching);
  l.validate = [&c, &d, done] {
    return scores_of(grade(c, d.valid, Maps::none, done), c.known.classes.size());
  };
  l.unit = "documents";
  l.watch = c.config.watch;
  l.higher_is_better = find_measure(measures(), l.watch)->better == Better::higher;
  return l;
}

}  // namespace fovea::tasks::classification
