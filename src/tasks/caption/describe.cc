#include <algorithm>
#include <charconv>

#include "fovea/error.h"
#include "fovea/io.h"
#include "fovea/ops.h"
#include "tasks/caption/places.h"

namespace fovea::tasks::captions {
namespace {

constexpr size_t kAtOnce = 64;
constexpr std::string_view kScene = "scene:";

}  // namespace

namespace {

CaptionedImage scene_named(const CaptionConfig& c, const std::string& name) {
  int64_t i = -1;
  const char* end = name.data() + name.size();
  const auto [at, error] = std::from_chars(name.data() + kScene.size(), end, i);
  if (error != std::errc() || at != end || i < 0) {
    throw Error("caption", "'" + name + "' is no scene; expected a number, as in scene:17");
  }
  return scene_of(c, i);
}

}  // namespace

std::vector<CaptionedImage> images_named(const CaptionConfig& c, std::span<const std::string> names,
                                         const std::string& places) {
  const std::string file = places_file(c, places);
  const bool given = !file.empty();
  Places of;
  if (given) of = Places(c, file, names);
  std::vector<CaptionedImage> all;
  for (const std::string& name : names) {
    if (!given && name.starts_with(kScene)) {
      all.push_back(scene_named(c, name));
      continue;
    }
    CaptionedImage x{.name = name, .pixels = packed(image::read_fitted(name, fit_of(c)))};
    if (given) x.places = of.of(name);
    all.push_back(std::move(x));
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
  m.config = dynamic_cast<const CaptionConfig&>(*run.config_of(task_caption));
  m.words = text::Tokenizer::load(run / kWordsFile);
  m.config.network.target_vocabulary = m.words.size();
  if (!m.config.data.places.empty()) m.config.network.channels = m.config.network.features;
  const Tensors weights = load_safetensors(run / "model.safetensors");
  m.model = models::captioner(m.config.network, m.config.train.seed);
  m.model.weights.load(weights);
  return m;
}

std::vector<std::vector<models::Decoded>> describe(const CaptionModel& m,
                                                   std::span<const CaptionedImage* const> images,
                                                   const models::DecodeConfig& config,
                                                   const ShareDone& done) {
  std::vector<std::vector<models::Decoded>> all;
  for (size_t begin = 0; begin < images.size(); begin += kAtOnce) {
    const auto some = images.subspan(begin, std::min(kAtOnce, images.size() - begin));
    for (auto& n_best : models::decode(m.model, seen_of(m, some), config)) {
      all.push_back(std::move(n_best));
    }
    if (done) done(static_cast<double>(all.size()) / static_cast<double>(images.size()));
  }
  return all;
}

std::vector<Predictions> predict(const CaptionModel& m, std::span<const std::string> names,
                                 const EvaluateSettings& how, const ShareDone& done) {
  std::vector<Predictions> all;
  for (size_t begin = 0; begin < names.size(); begin += kAtOnce) {
    const std::vector<CaptionedImage> images = images_named(
        m.config, names.subspan(begin, std::min(kAtOnce, names.size() - begin)), how.places);
    std::vector<const CaptionedImage*> some;
    for (const CaptionedImage& x : images) some.push_back(&x);
    const auto decoded = describe(m, some, how.decode);
    for (size_t i = 0; i < images.size(); ++i) {
      Predictions& n_best = all.emplace_back();
      for (const models::Decoded& d : decoded[i]) {
        Prediction p{.text = m.words.decode(d.tokens), .score = d.score, .ended = d.ended};
        if (how.decode.weights && looks(m.config)) p.images.push_back(shown(m, images[i], d));
        n_best.push_back(std::move(p));
      }
    }
    if (done) done(static_cast<double>(all.size()) / static_cast<double>(names.size()));
  }
  return all;
}

}  // namespace fovea::tasks::captions
