#include <algorithm>
#include <numeric>

#include "report/shaded_text.h"
#include "tasks/classes.h"
#include "tasks/deal.h"
#include "tasks/documents/documents.h"
#include "tasks/run_of.h"

namespace fovea::tasks::classification {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(WordWeights, sentences, words)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Judgement, probabilities, looked)

namespace {

int64_t words_of(const models::DocumentIds& document) {
  int64_t words = 0;
  for (const models::SentenceIds& s : document) words += static_cast<int64_t>(s.size());
  return words;
}

// The weights of one batch, by document.
class Weights {
 public:
  Weights(const models::DocumentBatch& batch, const models::Classified& found)
      : places_(batch.places.to_ids()), B_(static_cast<size_t>(batch.places.size(1))) {
    for (const Tensor& w : found.words) {
      const std::vector<float> all = w.to_vector();
      const auto W = static_cast<size_t>(w.size(1));
      for (size_t row = 0; row * W < all.size(); ++row) {
        rows_.emplace_back(all.begin() + static_cast<int64_t>(row * W),
                           all.begin() + static_cast<int64_t>((row + 1) * W));
      }
    }
    if (found.sentences) sentences_ = found.sentences.to_vector();
  }

  WordWeights of(size_t b, const models::DocumentIds& document) const {
    return sentences_.empty() ? as_one(b, document) : by_sentence(b, document);
  }

 private:
  const std::vector<float>& row(size_t s, size_t b) const {
    return rows_[static_cast<size_t>(places_[s * B_ + b])];
  }

  WordWeights by_sentence(size_t b, const models::DocumentIds& document) const {
    WordWeights looked;
    const size_t S = sentences_.size() / B_;
    for (size_t s = 0; s < document.size(); ++s) {
      looked.sentences.push_back(sentences_[b * S + s]);
      const std::vector<float>& w = row(s, b);
      looked.words.emplace_back(w.begin(), w.begin() + static_cast<int64_t>(document[s].size()));
    }
    return looked;
  }

  // One sequence: a sentence weighs what its words do.
  WordWeights as_one(size_t b, const models::DocumentIds& document) const {
    WordWeights looked;
    auto at = row(0, b).begin();
    for (const models::SentenceIds& s : document) {
      const auto end = at + static_cast<int64_t>(s.size());
      std::vector<float>& words = looked.words.emplace_back(at, end);
      const float sum = std::accumulate(words.begin(), words.end(), 0.0f);
      for (float& w : words) w = sum != 0.0f ? w / sum : 0.0f;
      looked.sentences.push_back(sum);
      at = end;
    }
    return looked;
  }

  std::vector<int64_t> places_;
  size_t B_;
  std::vector<std::vector<float>> rows_;  // by place
  std::vector<float> sentences_;          // [B,S]
};

}  // namespace

int64_t Judgement::likeliest() const {
  return std::max_element(probabilities.begin(), probabilities.end()) - probabilities.begin();
}

// In batches of like sizes, of no more than 64 documents and 16,384 words with what is padded.
std::vector<Judgement> judge(const Classifier& c, std::span<const models::DocumentIds> documents,
                             Maps maps, const ShareDone& progress) {
  constexpr size_t kDocuments = 64;
  constexpr int64_t kWords = 1 << 14;
  const NoGrad off;
  std::vector<int64_t> sizes;
  for (const models::DocumentIds& d : documents) sizes.push_back(words_of(d));
  std::vector<size_t> order(documents.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return sizes[a] < sizes[b]; });
  std::vector<std::span<const size_t>> parts;
  for (size_t begin = 0, end = 0; begin < order.size(); begin = end) {
    end = begin + 1;
    while (end < order.size() && end - begin < kDocuments &&
           static_cast<int64_t>(end - begin + 1) * sizes[order[end]] <= kWords) {
      ++end;
    }
    parts.push_back(std::span(order).subspan(begin, end - begin));
  }
  const auto work = [&](size_t part) {
    std::vector<const models::DocumentIds*> some;
    for (const size_t i : parts[part]) some.push_back(&documents[i]);
    const models::DocumentBatch batch = models::batch_of(c.model.config, some);
    const bool keep = maps == Maps::keep && models::looks(c.model.config);
    const models::Classified found = models::classify(c.model, batch, {.keep_weights = keep});
    const Tensor p = softmax(found.logits);
    const std::vector<float> flat = p.to_vector();
    const auto classes = static_cast<int64_t>(p.size(1));
    const Weights weights(batch, found);
    std::vector<Judgement> judged(some.size());
    for (size_t i = 0; i < some.size(); ++i) {
      const auto at = flat.begin() + static_cast<int64_t>(i) * classes;
      judged[i].probabilities.assign(at, at + classes);
      if (keep) judged[i].looked = weights.of(i, *some[i]);
    }
    return judged;
  };
  std::vector<Judgement> all(documents.size());
  deal(progress, parts.size(), work, [&](size_t part, std::vector<Judgement> judged) {
    for (size_t i = 0; i < judged.size(); ++i) all[parts[part][i]] = std::move(judged[i]);
  });
  return all;
}

models::DocumentConfig network_of(const checkpoints::Origin& origin, const Known& known) {
  using checkpoints::HeadPlan;
  models::DocumentConfig n;
  n.model = models::DocumentModel::first;
  n.transformer = origin.plan().network;
  n.vocabulary = n.transformer.source_vocabulary;
  n.classes = static_cast<int64_t>(known.classes.size());
  n.unknown = known.coder->theirs()->special_ids().unknown.value_or(0);
  const HeadPlan& head = *origin.plan().head;
  if (head.dense > 0) {
    n.curve = head.curve == HeadPlan::Curve::tanh ? models::DocumentCurve::tanh
                                                  : models::DocumentCurve::relu;
  }
  return n;
}

Classifier load_classifier(const RunFolder& run) {
  Classifier c;
  c.config = config_as<DocumentsConfig>(run, task_documents);
  models::DocumentConfig n = c.config.network;
  if (c.config.further.on()) {
    c.origin = origin_of(c.config.further, &run, {checkpoints::Purpose::tells});
    c.known = known_of(*c.origin);
    n = network_of(*c.origin, c.known);
  } else {
    c.known = load_known(run);
    n.vocabulary = c.known.words->size();
    n.classes = static_cast<int64_t>(c.known.classes.size());
  }
  c.model = load_model(
      run, [&](nn::Weights weights) { return models::documents(n, std::move(weights)); });
  return c;
}

std::vector<Predictions> predict(const Classifier& c, std::span<const std::string> texts,
                                 int64_t n_best, Maps maps, const ShareDone& progress) {
  std::vector<SplitDocument> apart;
  std::vector<models::DocumentIds> ids;
  for (const std::string& text : texts) {
    apart.push_back(c.known.apart(text, c.config.reading));
    ids.push_back(c.known.ids_of(apart.back()));
  }
  const std::vector<Judgement> judged = judge(c, ids, maps, progress);
  std::vector<Predictions> all;
  for (size_t i = 0; i < judged.size(); ++i) {
    const Judgement& j = judged[i];
    Predictions& best = all.emplace_back();
    for (const size_t k : best_first(j.probabilities, n_best)) {
      best.push_back(
          {.text = c.known.classes[k], .score = static_cast<double>(j.probabilities[k])});
    }
    if (j.looked.sentences.empty()) continue;
    report::ShadedText shaded{.title = best.front().text, .lines = {}};
    for (size_t s = 0; s < apart[i].sentences.size(); ++s) {
      shaded.lines.push_back(
          {j.looked.sentences[s], std::move(apart[i].sentences[s]), j.looked.words[s]});
    }
    best.front().pictures.emplace_back(std::move(shaded));
  }
  return all;
}

}  // namespace fovea::tasks::classification
