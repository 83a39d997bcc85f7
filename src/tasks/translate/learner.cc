#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "fovea/error.h"
#include "tasks/load.h"
#include "tasks/transformer_fields.h"
#include "tasks/translate/data.h"
#include "tasks/translate/score.h"
#include "tasks/translate/translate.h"

namespace fovea::tasks::translation {
namespace {

void say(const Watching& w, const std::string& line) {
  if (w.say) w.say(line);
}

std::vector<EncodedPair> training_pairs(const Translator& t, const std::vector<text::Pair>& pairs,
                                        const Watching& w) {
  std::vector<EncodedPair> all = encode_pairs(t.source, t.target, pairs);
  const auto longest = static_cast<size_t>(t.config.data.longest);
  const size_t before = all.size();
  std::erase_if(all, [&](const EncodedPair& e) {
    return e.source.size() > longest || e.target.size() > longest;
  });
  if (all.size() < before) {
    say(w,
        fmt::format("{} pairs of more than {} tokens are left out", before - all.size(), longest));
  }
  if (all.empty()) throw Error("train", "every pair is longer than --longest");
  return all;
}

// Evenly spread places in a list: what a validation costs does not grow with the data.
std::vector<size_t> spread(size_t size, size_t at_most) {
  const size_t stride = std::max<size_t>(1, size / std::max<size_t>(1, at_most));
  std::vector<size_t> places;
  for (size_t i = 0; i < size && places.size() < at_most; i += stride) places.push_back(i);
  return places;
}

// A fixed part of the validation set; a source that is translated has all its references.
struct ValidPart {
  std::vector<text::Pair> for_loss;
  References to_translate;
};

ValidPart valid_part(const std::vector<text::Pair>& valid, int64_t sentences) {
  constexpr size_t kLossPairs = 1000;
  ValidPart part;
  for (const size_t i : spread(valid.size(), kLossPairs)) part.for_loss.push_back(valid[i]);
  const References all = group_by_source(valid);
  for (const size_t i : spread(all.sources.size(), static_cast<size_t>(sentences))) {
    part.to_translate.sources.push_back(all.sources[i]);
    part.to_translate.targets.push_back(all.targets[i]);
  }
  return part;
}

train::Scores validate(const Translator& t, const ValidPart& part, const ShareDone& done) {
  const double loss = mean_loss(t, part.for_loss, done);
  train::Scores scores = {{"loss", loss}, {"perplexity", std::exp(loss)}};
  const References& r = part.to_translate;
  if (r.sources.empty()) return scores;
  std::vector<std::string> hypotheses;
  for (auto& n_best : translate(t, r.sources, {}, done)) hypotheses.push_back(n_best.front().text);
  const train::Scores more = text_scores(t.target, hypotheses, r.targets);
  scores.insert(scores.end(), more.begin(), more.end());
  return scores;
}

}  // namespace

train::Learner learner(const Translator& t, const text::Split& pairs, const Watching& watching) {
  say(watching,
      fmt::format("{} pairs to train, {} to validate, {} to test; {} → {} tokens; {:.2f} million "
                  "weights",
                  pairs.train.size(), pairs.valid.size(), pairs.test.size(), t.source.size(),
                  t.target.size(), static_cast<double>(weights_of(t.model).count()) / 1e6));
  if (!t.origin && t.config.kind == Kind::recurrent) {
    const std::string vain = set_in_vain(t.config.transformer, {}, name_of(t.config.kind));
    if (!vain.empty()) say(watching, vain);
  }
  const auto encoded =
      std::make_shared<const std::vector<EncodedPair>>(training_pairs(t, pairs.train, watching));
  train::Learner l;
  l.parameters = weights_of(t.model).learned();
  l.buffers = weights_of(t.model).buffers();
  for (const EncodedPair& e : *encoded) {
    l.lengths.push_back(static_cast<int64_t>(std::max(e.source.size(), e.target.size() + 1)));
  }
  l.loss = [&t, encoded](std::span<const int64_t> examples, uint64_t seed) {
    std::vector<const EncodedPair*> some;
    for (const int64_t i : examples) some.push_back(&(*encoded)[static_cast<size_t>(i)]);
    models::LossConfig c = t.config.loss;
    c.seed = seed;
    const models::Loss step = loss(t.model, make_batch(t, some), c);
    return train::StepLoss{step.loss, step.nll, static_cast<double>(step.tokens)};
  };
  const ShareDone done = stopping(watching);
  l.validate = [&t, done, part = valid_part(pairs.valid, t.config.valid_sentences)] {
    return validate(t, part, done);
  };
  l.unit = "tokens";
  l.watch = t.config.watch;
  l.higher_is_better = find_measure(measures(), l.watch)->better == Better::higher;
  return l;
}

}  // namespace fovea::tasks::translation
