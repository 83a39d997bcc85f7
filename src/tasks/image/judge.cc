#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <numeric>

#include "fovea/error.h"
#include "tasks/classes.h"
#include "tasks/deal.h"
#include "tasks/image/image_task.h"
#include "tasks/run_of.h"

namespace fovea::tasks::images {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Judgement, probabilities, weights)

namespace {

constexpr size_t kAtOnce = 64;
constexpr size_t kMostBetween = size_t{1} << 20;  // weights between places that are handed on

// A mean over heads: [B,H,S,S] → [B,S,S].
std::vector<float> over_heads(const Tensor& weights) { return mean(weights, {1}).to_vector(); }

}  // namespace

std::vector<int64_t> most_attended(const std::vector<float>& share, int64_t columns, int64_t most) {
  std::vector<int64_t> order(share.size());
  std::iota(order.begin(), order.end(), int64_t{0});
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    return share[static_cast<size_t>(a)] > share[static_cast<size_t>(b)];
  });
  std::vector<int64_t> chosen;
  for (const int64_t place : order) {
    if (static_cast<int64_t>(chosen.size()) >= most) break;
    const bool beside = std::any_of(chosen.begin(), chosen.end(), [&](int64_t other) {
      return std::abs(place / columns - other / columns) <= 2 &&
             std::abs(place % columns - other % columns) <= 2;
    });
    if (!beside) chosen.push_back(place);
  }
  return chosen;
}

ImageModel load_image_model(const RunFolder& run) {
  ImageModel m;
  m.config = config_as<ImageConfig>(run, task_image);
  m.classes = load_classes(run);
  m.config.network.classes = static_cast<int64_t>(m.classes.size());
  m.model = load_model(run, [&](nn::Weights weights) {
    return models::convnet(m.config.network, std::move(weights));
  });
  return m;
}

std::vector<Judgement> judge(const ImageModel& m, std::span<const PackedImage* const> images,
                             Maps maps, const ShareDone& done) {
  const NoGrad off;
  const bool keep = maps == Maps::keep && m.config.network.attention;
  const size_t K = m.classes.size();
  const auto work = [&](size_t part) {
    const size_t begin = part * kAtOnce;
    const auto some = images.subspan(begin, std::min(kAtOnce, images.size() - begin));
    const models::ConvnetOutput found =
        classify(m.model, tensor_of(some, fit_of(m.config)), {.keep_weights = keep});
    const std::vector<float> p = softmax(found.logits).to_vector();
    const std::vector<float> weights = keep ? over_heads(found.weights) : std::vector<float>();
    const size_t size = weights.size() / some.size();
    std::vector<Judgement> judged;
    for (size_t i = 0; i < some.size(); ++i) {
      Judgement& j = judged.emplace_back();
      j.probabilities.assign(p.begin() + static_cast<int64_t>(i * K),
                             p.begin() + static_cast<int64_t>((i + 1) * K));
      j.weights.assign(weights.begin() + static_cast<int64_t>(i * size),
                       weights.begin() + static_cast<int64_t>((i + 1) * size));
    }
    return judged;
  };
  std::vector<Judgement> all;
  deal(done, (images.size() + kAtOnce - 1) / kAtOnce, work,
       [&](size_t, std::vector<Judgement> judged) {
         for (Judgement& j : judged) all.push_back(std::move(j));
       });
  return all;
}

report::SeenImage seen_of(const ImageModel& m, const PackedImage& pixels, const Judgement& j,
                          int64_t places) {
  const models::ConvnetConfig& c = m.config.network;
  report::SeenImage seen{.image = unpacked(pixels, fit_of(m.config)),
                         .rows = c.height / c.stride,
                         .columns = c.width / c.stride};
  const auto S = static_cast<size_t>(seen.rows * seen.columns);
  std::vector<float> share(S, 0.0f);
  for (size_t n = 0; n < j.weights.size(); ++n) share[n % S] += j.weights[n] / float(S);
  seen.looks.push_back({"all places", share});
  for (const int64_t place : most_attended(share, seen.columns, places)) {
    const auto from = j.weights.begin() + place * static_cast<int64_t>(S);
    const auto side = static_cast<double>(c.stride);
    const double top = static_cast<double>(place / seen.columns) * side,
                 left = static_cast<double>(place % seen.columns) * side;
    seen.looks.push_back(
        {fmt::format("from {}, {}", place / seen.columns + 1, place % seen.columns + 1),
         {from, from + static_cast<int64_t>(S)},
         {{left, top, side, side}}});
  }
  if (j.weights.size() <= kMostBetween) seen.between = j.weights;
  return seen;
}

std::vector<Predictions> predict(const ImageModel& m, std::span<const PackedExample> images,
                                 const PredictSettings& settings, const Predicting& how) {
  std::vector<const PackedImage*> pixels;
  for (const PackedExample& x : images) pixels.push_back(&x.pixels);
  const std::vector<Judgement> judged = judge(m, pixels, how.maps, how.done);
  std::vector<Predictions> all;
  for (size_t i = 0; i < judged.size(); ++i) {
    const Judgement& j = judged[i];
    Predictions& n_best = all.emplace_back();
    for (const size_t k : best_first(j.probabilities, settings.n_best))
      n_best.push_back({.text = m.classes[k], .score = j.probabilities[k]});
    if (j.weights.empty()) continue;
    report::SeenImage seen = seen_of(m, images[i].pixels, j, settings.places);
    seen.title = fmt::format("{}: {}", std::filesystem::path(images[i].name).filename().string(),
                             n_best.front().text);
    n_best.front().pictures.emplace_back(std::move(seen));
  }
  return all;
}

Evaluation evaluate(const ImageModel& m, std::span<const PackedExample> examples,
                    const ShareDone& done) {
  if (examples.empty()) throw Error("evaluate", "there are no images to score");
  std::vector<const PackedImage*> pixels;
  for (const PackedExample& x : examples) pixels.push_back(&x.pixels);
  const std::vector<Judgement> judged = judge(m, pixels, Maps::none, done);
  double loss = 0;
  std::vector<int64_t> right(m.classes.size()), count(m.classes.size());
  for (size_t i = 0; i < examples.size(); ++i) {
    const std::vector<float>& p = judged[i].probabilities;
    const auto label = static_cast<size_t>(examples[i].label);
    loss -= std::log(std::max(static_cast<double>(p[label]), 1e-30));
    const auto best = static_cast<size_t>(std::max_element(p.begin(), p.end()) - p.begin());
    ++count[label];
    right[label] += best == label;
  }
  const auto n = static_cast<double>(examples.size());
  const auto share = [](int64_t part, int64_t of) { return 100.0 * double(part) / double(of); };
  Evaluation e{.count = static_cast<int64_t>(examples.size()), .unit = "images"};
  e.scores = {
      {"loss", loss / n},
      {"accuracy", share(std::accumulate(right.begin(), right.end(), int64_t{0}), e.count)}};
  if (m.config.network.attention)
    e.scores.emplace_back("gate", m.model.attention.gate.to_vector()[0]);
  Breakdown by_class{.by = "class"};
  for (size_t k = 0; k < count.size(); ++k) {
    if (count[k] == 0) continue;
    by_class.parts.push_back({m.classes[k], count[k], {{"accuracy", share(right[k], count[k])}}});
  }
  e.breakdowns.push_back(std::move(by_class));
  return e;
}

}  // namespace fovea::tasks::images
