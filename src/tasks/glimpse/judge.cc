#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/random.h"
#include "fovea/error.h"
#include "report/scanpath.h"
#include "report/seen_image.h"
#include "tasks/classes.h"
#include "tasks/deal.h"
#include "tasks/glimpse/glimpse.h"
#include "tasks/run_of.h"

namespace fovea::tasks::glimpsing {
namespace {

constexpr int64_t kRows = 512;  // looked at together
constexpr uint64_t kSeed = 0;   // of draws when judged

// Wrong answers and −log p, of all images or of some.
struct Tally {
  int64_t count = 0, wrong = 0;
  double nll = 0;

  void add(const float* p, int64_t classes, int64_t label) {
    ++count;
    wrong += std::max_element(p, p + classes) - p != label;
    nll -= std::log(std::max(static_cast<double>(p[label]), 1e-30));
  }
  train::Scores scores() const {
    const auto n = static_cast<double>(std::max<int64_t>(count, 1));
    const double error = 100.0 * static_cast<double>(wrong) / n;
    return {{"error", error}, {"accuracy", 100 - error}, {"loss", nll / n}};
  }
};

struct Tallies {
  std::vector<Tally> glimpses, classes;
  Evaluation evaluation(const std::vector<std::string>& names) const {
    const Tally& last = glimpses.back();
    Evaluation e{.count = last.count, .unit = "images", .scores = last.scores(), .breakdowns = {}};
    Breakdown by_class{.by = "class", .parts = {}}, by_glimpse{.by = "glimpses", .parts = {}};
    for (size_t t = 0; t < glimpses.size(); ++t) {
      by_glimpse.parts.push_back({std::to_string(t + 1), glimpses[t].count, glimpses[t].scores()});
    }
    for (size_t k = 0; k < classes.size(); ++k) {
      if (classes[k].count == 0) continue;
      by_class.parts.push_back({names[k], classes[k].count, classes[k].scores()});
    }
    if (glimpses.size() > 1) e.breakdowns.push_back(std::move(by_glimpse));
    e.breakdowns.push_back(std::move(by_class));
    return e;
  }
};

// What was said after each glimpse of a single image.
std::vector<std::string> said(const Viewer& v, const models::Glimpsed& found) {
  const std::vector<int64_t> likeliest = argmax(found.logits.select(1, 0), 1).to_ids();
  std::vector<std::string> all;
  for (const int64_t k : likeliest) all.push_back(v.known.classes[static_cast<size_t>(k)]);
  return all;
}

report::Scanpath::Place place_of(const float* xy, const image::Image& image) {
  const auto pixel = [](float p, int64_t length) {
    return (static_cast<double>(p) + 1) / 2 * static_cast<double>(length);
  };
  return {pixel(xy[0], image.width), pixel(xy[1], image.height)};
}

report::Scanpath path_of(const Viewer& v, const image::Image& image,
                         const models::Glimpsed& found) {
  const models::Sensor& sensor = v.config.network.sensor;
  const std::vector<float> places = found.places.to_vector(), seen = found.seen.to_vector(),
                           p = softmax(found.logits.select(1, 0)).to_vector();
  const std::vector<std::string> answers = said(v, found);
  const int64_t patch = sensor.size * sensor.size;
  report::Scanpath path{.title = answers.back(), .image = image, .classes = v.known.classes};
  auto from = seen.begin();
  auto shares = p.begin();
  for (size_t t = 0; t < answers.size(); ++t) {
    const report::Scanpath::Place at = place_of(&places[2 * t], image);
    report::Scanpath::Glimpse& g = path.glimpses.emplace_back();
    g.x = at.x;
    g.y = at.y;
    g.said = answers[t];
    g.shares.assign(shares, shares + v.config.network.classes);
    shares += v.config.network.classes;
    for (int64_t s = 0; s < sensor.scales; ++s, from += patch) {
      g.sides.push_back(static_cast<double>(sensor.size << s));
      g.seen.push_back({sensor.size, sensor.size, 1, std::vector<float>(from, from + patch)});
    }
  }
  return path;
}

// Ways that chance might have led, as in training. The first place is no choice, unless all are.
std::vector<std::vector<report::Scanpath::Place>> drawn_ways(const Viewer& v,
                                                             const image::Image& image,
                                                             const Tensor& pixels, int64_t n) {
  const Tensor places =
      look_around(v.model, pixels, {.seed = kSeed, .copies = n, .draw = true}).places;
  const std::vector<float> xy = places.to_vector();  // [T,n,2]
  const int64_t first = v.config.network.model == models::GlimpseModel::random ? 0 : 1;
  std::vector<std::vector<report::Scanpath::Place>> ways(static_cast<size_t>(n));
  for (int64_t t = first; t < places.size(0); ++t) {
    for (int64_t i = 0; i < n; ++i) {
      ways[static_cast<size_t>(i)].push_back(
          place_of(&xy[static_cast<size_t>(2 * (t * n + i))], image));
    }
  }
  return ways;
}

// The soft model's weights over its grid of places.
report::SeenImage seen_of(const Viewer& v, const image::Image& image,
                          const models::Glimpsed& found) {
  const std::vector<std::string> answers = said(v, found);
  const std::vector<float> weights = found.weights.to_vector();
  const int64_t side = v.config.network.grid;
  report::SeenImage seen{.title = answers.back(), .image = image, .rows = side, .columns = side};
  auto from = weights.begin();
  for (size_t t = 0; t < answers.size(); ++t, from += side * side) {
    seen.looks.push_back(
        {fmt::format("{}: {}", t + 1, answers[t]), {from, from + side * side}, {}});
  }
  return seen;
}

}  // namespace

Evaluation evaluate(const Viewer& v, std::span<const image::LabelledImage> images, int64_t passes,
                    const ShareDone& done) {
  if (images.empty()) throw Error("evaluate", "there are no images to score");
  const auto all = static_cast<int64_t>(images.size()), classes = v.config.network.classes;
  const int64_t each = std::max<int64_t>(1, kRows / passes);
  Tallies tallies{.glimpses = {}, .classes = std::vector<Tally>(static_cast<size_t>(classes))};
  const auto which_in = [&](size_t part) {
    const int64_t begin = static_cast<int64_t>(part) * each;
    std::vector<int64_t> which(static_cast<size_t>(std::min(each, all - begin)));
    std::iota(which.begin(), which.end(), begin);
    return which;
  };
  const auto work = [&](size_t part) {
    const std::vector<int64_t> which = which_in(part);
    const Tensor p =
        models::probabilities(v.model, held_out_batch(v.config.data, images, which, v.known.side),
                              passes, mix64(kSeed ^ mix64(static_cast<uint64_t>(which.front()))));
    return p.to_vector();  // [T,n,K]
  };
  const auto take = [&](size_t part, const std::vector<float>& flat) {
    const std::vector<int64_t> which = which_in(part);
    const size_t n = which.size(), T = flat.size() / n / static_cast<size_t>(classes);
    tallies.glimpses.resize(T);
    for (size_t i = 0; i < n; ++i) {
      const int64_t label = images[static_cast<size_t>(which[i])].label;
      if (label >= classes) {
        throw Error(
            "evaluate",
            fmt::format("class {} was not in the training, which had {}; in CSV, --class-column "
                        "says where the class stands",
                        label, classes));
      }
      const auto at = [&](size_t t) {
        return flat.data() + (t * n + i) * static_cast<size_t>(classes);
      };
      for (size_t t = 0; t < T; ++t) tallies.glimpses[t].add(at(t), classes, label);
      tallies.classes[static_cast<size_t>(label)].add(at(T - 1), classes, label);
    }
  };
  deal(done, static_cast<size_t>((all + each - 1) / each), work, take);
  return tallies.evaluation(v.known.classes);
}

Predictions predict(const Viewer& v, const image::Image& image, const PredictSettings& how,
                    Maps maps) {
  const NoGrad off;
  const Tensor pixels = Tensor::from(image.pixels, {1, image.height, image.width});
  const int64_t passes = how.passes > 0 ? how.passes : v.config.passes;
  const Tensor p = models::probabilities(v.model, pixels, passes, kSeed);
  const std::vector<float> last = p.select(0, p.size(0) - 1).to_vector();
  Predictions best;
  for (const size_t k : best_first(last, how.n_best)) {
    best.push_back({.text = v.known.classes[k], .score = static_cast<double>(last[k])});
  }
  if (maps == Maps::none || !models::glimpses(v.config.network)) return best;
  const models::Glimpsed found =
      models::look_around(v.model, pixels, {.seed = kSeed, .keep = true});
  if (found.weights) {
    best.front().pictures.emplace_back(seen_of(v, image, found));
  } else {
    report::Scanpath path = path_of(v, image, found);
    if (how.ways > 0) path.others = drawn_ways(v, image, pixels, how.ways);
    best.front().pictures.emplace_back(std::move(path));
  }
  return best;
}

Viewer load_viewer(const RunFolder& run) {
  Viewer v;
  v.config = config_as<Config>(run, task_glimpse);
  v.known = load_known(run);
  models::GlimpseConfig& n = v.config.network;
  n.height = n.width = v.known.side;
  n.classes = static_cast<int64_t>(v.known.classes.size());
  v.model =
      load_model(run, [&](nn::Weights weights) { return models::glimpse(n, std::move(weights)); });
  return v;
}

}  // namespace fovea::tasks::glimpsing
