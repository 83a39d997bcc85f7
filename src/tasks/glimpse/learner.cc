#include <fmt/format.h>

#include "tasks/glimpse/glimpse.h"

namespace fovea::tasks::glimpsing {

train::Learner learner(const Viewer& v, const Sets& sets, const Watching& watching) {
  if (watching.say) {
    watching.say(fmt::format(
        "{} images of {} classes to train, {} to validate, {} to test, on {} × "
        "{} pixels; {:.2f} million weights",
        sets.train.size(), v.known.classes.size(), sets.valid.size(), sets.test.size(),
        v.known.side, v.known.side, static_cast<double>(v.model.weights.count()) / 1e6));
  }
  train::Learner l;
  l.parameters = v.model.weights.learned();
  l.buffers = v.model.weights.buffers();
  l.lengths.assign(sets.train.size(), 1);
  const auto sigma = std::make_shared<float>(sigma_at(v.config, 0));
  l.before_step = [&v, sigma](double done) { *sigma = sigma_at(v.config, done); };
  l.loss = [&v, &sets, sigma](std::span<const int64_t> examples, uint64_t seed) {
    models::GlimpseLossConfig config = v.config.loss;
    config.sigma = *sigma;
    config.seed = seed;
    const models::GlimpseLoss loss = models::loss(
        v.model, training_batch(v.config.data, sets.train, examples, v.known.side, seed),
        classes_of(sets.train, examples), config);
    return train::StepLoss{loss.loss, loss.nll, static_cast<double>(examples.size())};
  };
  const ShareDone done = stopping(watching);
  l.validate = [&v, &sets, done] { return evaluate(v, sets.valid, v.config.passes, done).scores; };
  l.unit = "images";
  l.watch = v.config.watch;
  l.higher_is_better = find_measure(measures(), l.watch)->better == Better::higher;
  return l;
}

}  // namespace fovea::tasks::glimpsing
