#include <algorithm>

#include "fovea/error.h"
#include "fovea/ops.h"
#include "tasks/caption/places.h"
#include "tasks/caption/seer.h"
#include "tasks/deal.h"
#include "tasks/run_of.h"

namespace fovea::models {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Decoded, tokens, score, ended, weights, places)

}  // namespace fovea::models

namespace fovea::tasks::captions {
namespace {

constexpr size_t kAtOnce = 64;
}  // namespace

std::vector<CaptionedImage> captioned(const CaptionModel& m,
                                      std::span<const GivenImage* const> pictures,
                                      const std::string& places) {
  const CaptionConfig& c = m.config;
  const std::string file = places_file(c, places);
  Places of;
  if (!file.empty()) {
    std::vector<std::string> names;
    for (const GivenImage* p : pictures) names.push_back(p->name);
    of = Places(c, file, names);
  }
  std::vector<CaptionedImage> all;
  for (const GivenImage* p : pictures) {
    CaptionedImage& x = all.emplace_back();
    x.name = p->name;
    x.pixels = packed(image::fitted(p->image, fit_of(c)));
    if (!file.empty()) x.places = of.of(p->name);
    if (m.seer) see(c, *m.seer, x);
  }
  return all;
}

Tensor seen_of(const CaptionModel& m, std::span<const CaptionedImage* const> images) {
  std::vector<const PackedImage*> pixels;
  std::vector<Tensor> places;
  for (const CaptionedImage* x : images) {
    pixels.push_back(&x->pixels);
    if (x->places) places.push_back(x->places);
  }
  return places.empty() ? tensor_of(pixels, fit_of(m.config)) : stack(places, 0);
}

namespace {

report::SeenImage shown(const CaptionModel& m, const CaptionedImage& x, const models::Decoded& d) {
  report::SeenImage seen{.title = m.words.decode(d.tokens),
                         .image = unpacked(x.pixels, fit_of(m.config)),
                         .rows = models::rows_of(m.config.network),
                         .columns = models::columns_of(m.config.network)};
  for (size_t t = 0; t < d.tokens.size() && t < d.weights.size(); ++t) {
    seen.looks.push_back({m.words.token(d.tokens[t]), d.weights[t]});
  }
  return seen;
}

}  // namespace

CaptionModel load_caption_model(const RunFolder& run) {
  CaptionModel m;
  m.config = config_as<CaptionConfig>(run, task_caption);
  m.words = text::Tokenizer::load(run / kWordsFile);
  m.config.network.target_vocabulary = m.words.size();
  if (!convolves(m.config)) m.config.network.channels = m.config.network.features;
  if (!m.config.data.encoder.empty()) {
    m.seer = std::make_shared<const Seer>(m.config.data.encoder);
    m.config.data.seen = (run / kSeenFile).string();
  }
  m.model = load_model(run, [&](nn::Weights weights) {
    return models::captioner(m.config.network, std::move(weights));
  });
  return m;
}

std::vector<std::vector<models::Decoded>> describe(const CaptionModel& m,
                                                   std::span<const CaptionedImage* const> images,
                                                   const models::DecodeConfig& config,
                                                   const ShareDone& done) {
  using Some = std::vector<std::vector<models::Decoded>>;
  const auto work = [&](size_t part) -> Some {
    const size_t begin = part * kAtOnce;
    const auto some = images.subspan(begin, std::min(kAtOnce, images.size() - begin));
    return models::decode(m.model, seen_of(m, some), config);
  };
  Some all;
  deal(done, (images.size() + kAtOnce - 1) / kAtOnce, work, [&](size_t, Some some) {
    for (auto& n_best : some) all.push_back(std::move(n_best));
  });
  return all;
}

std::vector<Predictions> predict(const CaptionModel& m, std::span<const CaptionedImage> images,
                                 const models::DecodeConfig& how, const ShareDone& done) {
  std::vector<const CaptionedImage*> some;
  for (const CaptionedImage& x : images) some.push_back(&x);
  std::vector<Predictions> all;
  for (const std::vector<models::Decoded>& decoded : describe(m, some, how, done)) {
    const CaptionedImage& x = images[all.size()];
    Predictions& n_best = all.emplace_back();
    for (const models::Decoded& d : decoded) {
      Prediction p{.text = m.words.decode(d.tokens), .score = d.score, .ended = d.ended};
      if (how.weights && looks(m.config)) p.pictures.emplace_back(shown(m, x, d));
      n_best.push_back(std::move(p));
    }
  }
  return all;
}

}  // namespace fovea::tasks::captions
