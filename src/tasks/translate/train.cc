#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "tasks/config.h"
#include "tasks/translate.h"
#include "tasks/translate/data.h"
#include "tasks/translate/results.h"
#include "tasks/translate/score.h"

namespace fovea::tasks {
namespace {

namespace fs = std::filesystem;

void say(const Watching& w, const std::string& line) {
  if (w.say) w.say(line);
}

void save_config(const fs::path& run, TranslateConfig& c) {
  nlohmann::ordered_json json = {{"task", "translate"}};
  json.update(to_json([&](Fields& f) { visit(f, c); }));
  write_json(run / "config.json", json);
}

std::vector<std::string> side(const std::vector<text::Pair>& pairs,
                              std::string text::Pair::*which) {
  std::vector<std::string> lines;
  lines.reserve(pairs.size());
  for (const text::Pair& p : pairs) lines.push_back(p.*which);
  return lines;
}

// The vocabularies of a run are made once; what lies in a folder without a config is not of a run.
text::Tokenizer tokenizer(const fs::path& file, const text::TokenizerConfig& c,
                          const std::vector<std::string>& lines) {
  if (fs::exists(file) && fs::exists(file.parent_path() / "config.json")) {
    return text::Tokenizer::load(file);
  }
  const text::Tokenizer made = text::Tokenizer::train(c, lines);
  made.save(file);
  return made;
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

train::Scores validate(const Translator& t, const ValidPart& part) {
  const double loss = mean_loss(t, part.for_loss);
  train::Scores scores = {{"loss", loss}, {"perplexity", std::exp(loss)}};
  const References& r = part.to_translate;
  if (r.sources.empty()) return scores;
  std::vector<std::string> hypotheses;
  for (auto& n_best : translate(t, r.sources, {})) hypotheses.push_back(n_best.front().text);
  const train::Scores more = text_scores(t.target, hypotheses, r.targets);
  scores.insert(scores.end(), more.begin(), more.end());
  return scores;
}

train::Learner learner(const Translator& t, const std::vector<EncodedPair>& pairs,
                       const std::vector<text::Pair>& valid) {
  train::Learner l;
  l.parameters = t.model.weights.all();
  for (const EncodedPair& e : pairs) {
    l.lengths.push_back(static_cast<int64_t>(std::max(e.source.size(), e.target.size() + 1)));
  }
  l.loss = [&](std::span<const int64_t> examples, uint64_t seed) {
    std::vector<const EncodedPair*> some;
    for (const int64_t i : examples) some.push_back(&pairs[static_cast<size_t>(i)]);
    models::LossConfig c = t.config.loss;
    c.seed = seed;
    const models::Loss loss = models::loss(t.model, make_batch(some), c);
    return train::StepLoss{loss.loss, loss.nll, static_cast<double>(loss.tokens)};
  };
  l.validate = [&t, part = valid_part(valid, t.config.valid_sentences)] {
    return validate(t, part);
  };
  l.unit = "tokens";
  l.watch = t.config.watch;
  l.higher_is_better = l.watch != "loss" && l.watch != "token_error";
  return l;
}

void check_same_data(const TranslateConfig& c, const TranslateSets& sets) {
  if (c.data.fingerprint.empty() || c.data.fingerprint == sets.fingerprint) return;
  throw Error("train",
              fmt::format("the data changed since this run began (fingerprint {}, was {}); "
                          "start a new run",
                          sets.fingerprint, c.data.fingerprint));
}

}  // namespace

Trained train_translate(const fs::path& run, TranslateConfig config, const Watching& watching) {
  const TranslateSets sets = load_data(config.data, config.train.seed);
  check_same_data(config, sets);
  if (fs::exists(run / "config.json")) check_same_data(read_config(run), sets);
  if (config.watch != "loss" && config.valid_sentences == 0) {
    throw Error("train", "watching '" + config.watch + "' needs --valid-sentences above 0");
  }
  fs::create_directories(run);
  config.data.fingerprint = sets.fingerprint;

  Translator t;
  t.source =
      tokenizer(run / "source.vocab", config.source, side(sets.pairs.train, &text::Pair::source));
  t.target =
      tokenizer(run / "target.vocab", config.target, side(sets.pairs.train, &text::Pair::target));
  config.model.source_vocabulary = t.source.size();
  config.model.target_vocabulary = t.target.size();
  t.config = config;
  t.model = models::seq2seq(config.model, config.train.seed);
  save_config(run, config);
  say(watching, fmt::format("{} pairs to train, {} to validate, {} to test; {} → {} tokens; "
                            "{:.2f} million weights",
                            sets.pairs.train.size(), sets.pairs.valid.size(),
                            sets.pairs.test.size(), t.source.size(), t.target.size(),
                            static_cast<double>(t.model.weights.count()) / 1e6));

  const std::vector<EncodedPair> pairs = training_pairs(t, sets.pairs.train, watching);
  train::Learner l = learner(t, pairs, sets.pairs.valid);
  Trained trained;
  trained.finished = train::train(run, l, config.train, watching.progress, watching.stop);
  if (trained.finished.why == train::Ended::interrupted) return trained;

  const std::vector<text::Pair>& judged =
      sets.pairs.test.empty() ? sets.pairs.valid : sets.pairs.test;
  trained.test = evaluate(t, judged, {.beam = config.beam});
  save_results(run, trained);
  report::write_page(run / "report.html", translate_page(run));
  return trained;
}

}  // namespace fovea::tasks
