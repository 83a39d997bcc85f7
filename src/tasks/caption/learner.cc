#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "fovea/error.h"
#include "tasks/caption/caption.h"
#include "tasks/deal.h"

namespace fovea::tasks::captions {
namespace {

void say(const Watching& w, const std::string& line) {
  if (w.say) w.say(line);
}

// A caption with its image.
struct Pair {
  const CaptionedImage* image;
  std::vector<int64_t> caption;
};

std::vector<Pair> pairs_of(const CaptionModel& m, std::span<const CaptionedImage> images) {
  const auto most = static_cast<size_t>(m.config.network.longest_caption - 1);
  std::vector<Pair> pairs;
  for (const CaptionedImage& x : images) {
    for (const std::string& caption : x.captions) {
      std::vector<int64_t> ids = m.words.encode(caption);
      if (ids.size() > most) ids.resize(most);
      pairs.push_back({&x, std::move(ids)});
    }
  }
  return pairs;
}

models::CaptionBatch batch_of(const CaptionModel& m, std::span<const Pair* const> pairs) {
  std::vector<const CaptionedImage*> images;
  std::vector<const std::vector<int64_t>*> captions;
  for (const Pair* p : pairs) {
    images.push_back(p->image);
    captions.push_back(&p->caption);
  }
  return make_batch(m, images, captions);
}

// Evenly spread over a list: what a validation costs does not grow with the data.
std::vector<CaptionedImage> spread(std::span<const CaptionedImage> all, int64_t at_most) {
  const size_t n = std::min(all.size(), static_cast<size_t>(std::max<int64_t>(at_most, 1)));
  std::vector<CaptionedImage> some;
  for (size_t i = 0; i < n; ++i) some.push_back(all[i * all.size() / n]);
  return some;
}

}  // namespace

models::CaptionBatch make_batch(const CaptionModel& m,
                                std::span<const CaptionedImage* const> images,
                                std::span<const std::vector<int64_t>* const> captions) {
  size_t T = 1;
  for (const auto* ids : captions) T = std::max(T, ids->size() + 1);
  const size_t B = captions.size();
  std::vector<int64_t> in(T * B, text::kPad), out(T * B, text::kPad);
  for (size_t b = 0; b < B; ++b) {
    const std::vector<int64_t>& ids = *captions[b];
    in[b] = text::kBegin;
    for (size_t t = 0; t < ids.size(); ++t) in[(t + 1) * B + b] = out[t * B + b] = ids[t];
    out[ids.size() * B + b] = text::kEnd;
  }
  const Shape shape = {static_cast<int64_t>(T), static_cast<int64_t>(B)};
  return {.images = seen_of(m, images),
          .target_in = Tensor::from_ids(in, shape),
          .target_out = Tensor::from_ids(out, shape)};
}

double mean_loss(const CaptionModel& m, std::span<const CaptionedImage> images,
                 const ShareDone& done) {
  constexpr size_t kAtOnce = 64;
  const NoGrad off;
  const std::vector<Pair> pairs = pairs_of(m, images);
  const auto work = [&](size_t at) {
    const size_t begin = at * kAtOnce;
    std::vector<const Pair*> some;
    for (size_t i = begin; i < std::min(pairs.size(), begin + kAtOnce); ++i) {
      some.push_back(&pairs[i]);
    }
    const models::Loss part = models::loss(m.model, batch_of(m, some), {.mode = Mode::eval});
    return std::pair(double{part.nll}, int64_t{part.tokens});
  };
  double total = 0;
  int64_t tokens = 0;
  deal(done.quiet(), (pairs.size() + kAtOnce - 1) / kAtOnce, work,
       [&](size_t, std::pair<double, int64_t> part) {
         total += part.first;
         tokens += part.second;
       });
  return total / static_cast<double>(tokens);
}

train::Learner learner(const CaptionModel& m, const CaptionSets& sets, const Watching& watching) {
  for (const std::string& line : sets.warnings) say(watching, line);
  const auto pairs = std::make_shared<const std::vector<Pair>>(pairs_of(m, sets.train));
  say(watching, fmt::format("{} images with {} captions to train, {} images to validate, {} to "
                            "test; {} words; {:.2f} million weights",
                            sets.train.size(), pairs->size(), sets.valid.size(), sets.test.size(),
                            m.words.size(), static_cast<double>(m.model.weights.count()) / 1e6));
  train::Learner l;
  l.parameters = m.model.weights.learned();
  l.buffers = m.model.weights.buffers();
  for (const Pair& p : *pairs) l.lengths.push_back(static_cast<int64_t>(p.caption.size()) + 1);
  l.loss = [&m, pairs](std::span<const int64_t> examples, uint64_t seed) {
    std::vector<const Pair*> some;
    for (const int64_t i : examples) some.push_back(&(*pairs)[static_cast<size_t>(i)]);
    models::LossConfig c = m.config.loss;
    c.seed = seed;
    const models::Loss step = models::loss(m.model, batch_of(m, some), c);
    return train::StepLoss{step.loss, step.nll, static_cast<double>(step.tokens)};
  };
  const ShareDone done = stopping(watching);
  const auto valid = std::make_shared<const std::vector<CaptionedImage>>(
      spread(sets.valid, m.config.valid_images));
  l.validate = [&m, done, valid] { return evaluate(m, *valid, {}, done).scores; };
  l.unit = "words";
  l.watch = m.config.watch;
  l.higher_is_better = find_measure(measures(), l.watch)->better == Better::higher;
  return l;
}

}  // namespace fovea::tasks::captions
