#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "tasks/deal.h"
#include "tasks/translate/data.h"
#include "tasks/translate/score.h"
#include "tasks/translate/translate.h"

namespace fovea::tasks::translation {
namespace {

std::string spaced(const Coder& coder, const std::string& line) {
  if (coder.own() != nullptr) {
    return fmt::format("{}", fmt::join(coder.own()->pieces(line), " "));
  }
  return fmt::format("{}", fmt::join(coder.encode(line), " "));
}

// Sentences in five groups of about the same size, cut at lengths.
std::vector<std::pair<int64_t, int64_t>> cuts_of(std::vector<int64_t> lengths) {
  constexpr size_t kGroups = 5;
  std::sort(lengths.begin(), lengths.end());
  std::vector<std::pair<int64_t, int64_t>> cuts;
  int64_t low = lengths.front();
  for (size_t g = 1; g <= kGroups; ++g) {
    const int64_t high = lengths[g * lengths.size() / kGroups - (g == kGroups ? 1 : 0)];
    if (g < kGroups && high <= low) continue;
    const int64_t last = g == kGroups ? high : high - 1;
    if (last < low) continue;
    cuts.emplace_back(low, last);
    low = last + 1;
  }
  return cuts;
}

}  // namespace

References group_by_source(std::span<const text::Pair> pairs) {
  References r;
  std::map<std::string, size_t> at;
  for (const text::Pair& p : pairs) {
    const auto [it, fresh] = at.emplace(p.source, r.sources.size());
    if (fresh) {
      r.sources.push_back(p.source);
      r.targets.emplace_back();
    }
    std::vector<std::string>& targets = r.targets[it->second];
    if (std::find(targets.begin(), targets.end(), p.target) == targets.end()) {
      targets.push_back(p.target);
    }
  }
  return r;
}

train::Scores text_scores(const Coder& target, std::span<const std::string> hypotheses,
                          const text::References& references) {
  std::vector<std::string> pieces;
  text::References reference_pieces;
  for (size_t i = 0; i < hypotheses.size(); ++i) {
    pieces.push_back(spaced(target, hypotheses[i]));
    auto& list = reference_pieces.emplace_back();
    for (const std::string& r : references[i]) list.push_back(spaced(target, r));
  }
  return {{"bleu", text::bleu(hypotheses, references)},
          {"chrf", text::chrf(hypotheses, references)},
          {"exact", text::exact_match(hypotheses, references)},
          {"token_error", text::token_error_rate(pieces, reference_pieces)}};
}

double mean_loss(const Translator& t, std::span<const text::Pair> pairs, const ShareDone& done) {
  const NoGrad off;
  const std::vector<EncodedPair> encoded = encode_pairs(t.source, t.target, pairs);
  std::vector<const EncodedPair*> sorted;
  for (const EncodedPair& e : encoded) sorted.push_back(&e);
  std::stable_sort(sorted.begin(), sorted.end(), [](const EncodedPair* a, const EncodedPair* b) {
    return a->source.size() < b->source.size();
  });
  // As many tokens as a batch of the training has: what that takes, this takes.
  constexpr size_t kAtOnce = 64;
  const auto most = static_cast<size_t>(t.config.train.batch_tokens);
  std::vector<std::span<const EncodedPair*>> parts;
  for (size_t begin = 0, n = 0; begin < sorted.size(); begin += n) {
    n = 0;
    for (size_t longest = 0; n < kAtOnce && begin + n < sorted.size(); ++n) {
      const EncodedPair& pair = *sorted[begin + n];
      longest = std::max({longest, pair.source.size(), pair.target.size() + 1});
      if (n > 0 && (n + 1) * longest > most) break;
    }
    parts.push_back(std::span(sorted).subspan(begin, n));
  }
  const auto work = [&](size_t i) {
    const models::Loss part = loss(t.model, make_batch(t, parts[i]), {.mode = Mode::eval});
    return std::pair(double{part.nll}, int64_t{part.tokens});
  };
  double total = 0;
  int64_t tokens = 0;
  deal(done.quiet(), parts.size(), work, [&](size_t, std::pair<double, int64_t> part) {
    total += part.first;
    tokens += part.second;
  });
  return total / static_cast<double>(tokens);
}

Evaluation evaluate(const Translator& t, std::span<const text::Pair> pairs,
                    const models::DecodeConfig& config, const ShareDone& progress) {
  if (pairs.empty()) throw Error("evaluate", "there are no pairs to score");
  const References r = group_by_source(pairs);
  const auto translations = translate(t, r.sources, config, progress);
  std::vector<std::string> hypotheses;
  for (const auto& n_best : translations) {
    hypotheses.push_back(n_best.empty() ? std::string() : n_best.front().text);
  }
  Evaluation e{.count = static_cast<int64_t>(r.sources.size()), .unit = "sentences"};
  e.scores = text_scores(t.target, hypotheses, r.targets);
  const double loss = mean_loss(t, pairs, progress);
  e.scores.insert(e.scores.begin(), {{"loss", loss}, {"perplexity", std::exp(loss)}});

  std::vector<int64_t> lengths;
  for (const std::string& s : r.sources) {
    lengths.push_back(static_cast<int64_t>(t.source.encode(s).size()));
  }
  Breakdown by_length{.by = "length"};
  for (const auto& [low, high] : cuts_of(lengths)) {
    std::vector<std::string> some;
    text::References their;
    for (size_t i = 0; i < lengths.size(); ++i) {
      if (lengths[i] < low || lengths[i] > high) continue;
      some.push_back(hypotheses[i]);
      their.push_back(r.targets[i]);
    }
    if (some.empty()) continue;
    by_length.parts.push_back({Between{low, high}, static_cast<int64_t>(some.size()),
                               text_scores(t.target, some, their)});
  }
  e.breakdowns.push_back(std::move(by_length));
  return e;
}

}  // namespace fovea::tasks::translation
