#include <algorithm>
#include <cmath>
#include <limits>

#include "fovea/error.h"
#include "tasks/caption/caption.h"

namespace fovea::tasks::captions {
namespace {

// Hypotheses and what they should have been.
struct Compared {
  std::vector<std::string> hypotheses;
  text::References references;
};

train::Scores text_scores(const Compared& c) {
  train::Scores scores;
  for (int64_t n = 1; n <= 4; ++n) {
    scores.emplace_back("bleu" + std::to_string(n), text::bleu_n(n, c.hypotheses, c.references));
  }
  scores.emplace_back("exact", text::exact_match(c.hypotheses, c.references));
  return scores;
}

}  // namespace

double ObjectHits::percent() const {
  if (words == 0) return std::numeric_limits<double>::quiet_NaN();
  return 100.0 * static_cast<double>(hits) / static_cast<double>(words);
}

ObjectHits object_hits(const CaptionModel& m, const Scene& scene, const models::Decoded& d) {
  const int64_t Y = models::rows_of(m.config.network), X = models::columns_of(m.config.network);
  ObjectHits p;
  for (size_t t = 0; t < scene.words.size() && t < d.places.size() && t < d.tokens.size(); ++t) {
    if (scene.names[t] < 0 || m.words.token(d.tokens[t]) != scene.words[t]) continue;
    const double y = (static_cast<double>(d.places[t] / X) + 0.5) * kSceneSide / double(Y),
                 x = (static_cast<double>(d.places[t] % X) + 0.5) * kSceneSide / double(X);
    ++p.words;
    p.hits += scene.objects[static_cast<size_t>(scene.names[t])].box.has(x, y);
  }
  return p;
}

Evaluation evaluate(const CaptionModel& m, std::span<const CaptionedImage> images,
                    const models::DecodeConfig& config, const ShareDone& done) {
  if (images.empty()) throw Error("evaluate", "there are no images to score");
  std::vector<const CaptionedImage*> some;
  for (const CaptionedImage& x : images) some.push_back(&x);
  models::DecodeConfig how = config;
  how.places = looks(m.config) && images.front().scene.has_value();
  const auto decoded = describe(m, some, how, done);
  Compared all;
  std::vector<Compared> by_count(4);
  std::vector<ObjectHits> pointing(4);
  ObjectHits pointed;
  for (size_t i = 0; i < images.size(); ++i) {
    const models::Decoded& best = decoded[i].front();
    all.hypotheses.push_back(m.words.decode(best.tokens));
    all.references.push_back(images[i].captions);
    if (!images[i].scene) continue;
    const size_t n = std::min<size_t>(images[i].scene->objects.size(), 3);
    by_count[n].hypotheses.push_back(all.hypotheses.back());
    by_count[n].references.push_back(images[i].captions);
    const ObjectHits p = object_hits(m, *images[i].scene, best);
    pointing[n].words += p.words;
    pointing[n].hits += p.hits;
    pointed.words += p.words;
    pointed.hits += p.hits;
  }
  Evaluation e{.count = static_cast<int64_t>(images.size()), .unit = "images"};
  e.scores = text_scores(all);
  e.scores.insert(e.scores.begin(), {"loss", mean_loss(m, images, done)});
  if (pointed.words > 0) e.scores.emplace_back("pointing", pointed.percent());
  Breakdown objects{.by = "objects"};
  for (size_t n = 1; n < by_count.size(); ++n) {
    if (by_count[n].hypotheses.empty()) continue;
    ScoredPart part{std::to_string(n), static_cast<int64_t>(by_count[n].hypotheses.size()),
                    text_scores(by_count[n])};
    if (pointing[n].words > 0) part.scores.emplace_back("pointing", pointing[n].percent());
    objects.parts.push_back(std::move(part));
  }
  if (!objects.parts.empty()) e.breakdowns.push_back(std::move(objects));
  return e;
}

}  // namespace fovea::tasks::captions
