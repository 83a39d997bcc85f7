#include <algorithm>
#include <charconv>

#include "fovea/error.h"
#include "fovea/io.h"
#include "image/image_file.h"
#include "image/resize.h"
#include "tasks/caption/caption.h"

namespace fovea::tasks::captions {
namespace {

constexpr size_t kAtOnce = 64;
constexpr std::string_view kScene = "scene:";

}  // namespace

CaptionedImage image_named(const CaptionConfig& c, const std::string& name) {
  if (name.starts_with(kScene)) {
    int64_t i = -1;
    const char* end = name.data() + name.size();
    const auto [at, error] = std::from_chars(name.data() + kScene.size(), end, i);
    if (error != std::errc() || at != end || i < 0) {
      throw Error("caption", "'" + name + "' is no scene; expected a number, as in scene:17");
    }
    return scene_of(c, i);
  }
  const image::Fit fit = fit_of(c);
  CaptionedImage x{.name = name};
  const image::Image read = image::with_channels(image::read_image(name), fit.channels);
  x.pixels = packed(image::fitted(read, fit.height, fit.width));
  return x;
}

namespace {

report::SeenImage seen_of(const CaptionModel& m, const CaptionedImage& x,
                          const models::Decoded& d) {
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
  const Tensors weights = load_safetensors(run / "model.safetensors");
  m.model = models::captioner(m.config.network, m.config.train.seed);
  m.model.weights.load(weights);
  return m;
}

std::vector<std::vector<models::Decoded>> describe(const CaptionModel& m,
                                                   std::span<const PackedImage* const> images,
                                                   const models::DecodeConfig& config,
                                                   const ShareDone& done) {
  std::vector<std::vector<models::Decoded>> all;
  for (size_t begin = 0; begin < images.size(); begin += kAtOnce) {
    const auto some = images.subspan(begin, std::min(kAtOnce, images.size() - begin));
    for (auto& n_best : models::decode(m.model, tensor_of(some, fit_of(m.config)), config)) {
      all.push_back(std::move(n_best));
    }
    if (done) done(static_cast<double>(all.size()) / static_cast<double>(images.size()));
  }
  return all;
}

std::vector<Predictions> predict(const CaptionModel& m, std::span<const std::string> names,
                                 const models::DecodeConfig& config, const ShareDone& done) {
  std::vector<Predictions> all;
  for (size_t begin = 0; begin < names.size(); begin += kAtOnce) {
    std::vector<CaptionedImage> images;
    for (const std::string& name : names.subspan(begin, std::min(kAtOnce, names.size() - begin))) {
      images.push_back(image_named(m.config, name));
    }
    std::vector<const PackedImage*> pixels;
    for (const CaptionedImage& x : images) pixels.push_back(&x.pixels);
    const auto decoded = describe(m, pixels, config);
    for (size_t i = 0; i < images.size(); ++i) {
      Predictions& n_best = all.emplace_back();
      for (const models::Decoded& d : decoded[i]) {
        Prediction p{.text = m.words.decode(d.tokens), .score = d.score, .ended = d.ended};
        if (config.weights && looks(m.config)) p.images.push_back(seen_of(m, images[i], d));
        n_best.push_back(std::move(p));
      }
    }
    if (done) done(static_cast<double>(all.size()) / static_cast<double>(names.size()));
  }
  return all;
}

}  // namespace fovea::tasks::captions
