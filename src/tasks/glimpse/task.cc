#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "fovea/error.h"
#include "image/csv.h"
#include "tasks/classes.h"
#include "tasks/glimpse/glimpse.h"
#include "tasks/room.h"
#include "tasks/run_of.h"

namespace fovea::tasks {
namespace glimpsing {
namespace {

class GlimpseRun final : public RunOf<Viewer, Sets, EvaluateSettings, PredictSettings> {
 public:
  using RunOf::RunOf;

  void save_files(const RunFolder& run) const override { save(model().known, run); }
  train::Learner learner(const Watching& watching) const override {
    return glimpsing::learner(model(), sets(), watching);
  }
  Set held_out_set() const override { return held_out_of(sets()); }
  Evaluation score_held_out(const ShareDone& done) const override {
    return glimpsing::evaluate(model(), held_out(), model().config.passes, done);
  }

  Evaluation evaluate_as(const Judged& what, const EvaluateSettings& settings,
                         const ShareDone& done) const override {
    const int64_t passes = settings.passes > 0 ? settings.passes : model().config.passes;
    if (!what.file.empty()) {
      const std::string& asked = settings.class_column;
      const std::string column = asked.empty() ? model().config.data.class_column : asked;
      return glimpsing::evaluate(model(), image::read_csv(what.file, column).images, passes, done);
    }
    return glimpsing::evaluate(model(), chosen_of(sets(), what.set), passes, done);
  }

  std::vector<Predictions> predict_as(std::span<const Input> inputs,
                                      const PredictSettings& settings,
                                      const Predicting& p) const override {
    std::vector<Predictions> all;
    for (const Input& input : inputs) {
      all.push_back(glimpsing::predict(model(), placed(input), settings, p.maps));
      if (p.done) p.done(static_cast<double>(all.size()) / static_cast<double>(inputs.size()));
    }
    return all;
  }

  std::string class_column(const Settings* asked) const override {
    if (asked != nullptr) {
      const std::string& said = settings_as<PredictSettings>(*asked).class_column;
      if (!said.empty()) return said;
    }
    return model().config.data.class_column;
  }

  // Spread over the set, the classes in turn.
  std::vector<Example> examples(size_t n) const override {
    const std::vector<image::LabelledImage>& images = held_out();
    const std::vector<std::string>& classes = model().known.classes;
    n = std::min(n, images.size());
    std::vector<Example> some;
    for (size_t i = 0; i < n; ++i) {
      size_t at = i * images.size() / n;
      const size_t end = (i + 1) * images.size() / n;
      const auto wanted = static_cast<int64_t>(i % classes.size());
      for (size_t other = at; other < end; ++other) {
        if (images[other].label == wanted) {
          at = other;
          break;
        }
      }
      const Own own{name_of(held_out_set()), static_cast<int64_t>(at)};
      some.push_back({own, classes[static_cast<size_t>(images[at].label)], placed(own)});
    }
    return some;
  }

  std::vector<Solved> solved(Set set, size_t most) const override {
    if (set == Set::test) set = held_out_set();
    const std::vector<image::LabelledImage>& all = chosen_of(sets(), set);
    std::vector<Solved> some;
    for (size_t i = 0; i < std::min(most, all.size()); ++i) {
      some.push_back({Own{name_of(set), static_cast<int64_t>(i)},
                      {model().known.classes[static_cast<size_t>(all[i].label)]}});
    }
    return some;
  }

 private:
  image::Image placed(const Input& input) const {
    return placed_image(input, model().config.data, model().known,
                        [this]() -> const Sets& { return sets(); });
  }
  // The data may have other classes now than when the model learned them.
  Sets read_sets() const override {
    Sets all = load_data(model().config.data, model().config.train.seed);
    const auto known = places_of_classes(all.classes, model().known.classes, "glimpse", "the data");
    for (auto* set : {&all.train, &all.valid, &all.test}) {
      for (image::LabelledImage& x : *set) x.label = known[static_cast<size_t>(x.label)];
    }
    all.classes = model().known.classes;
    return all;
  }
  const std::vector<image::LabelledImage>& held_out() const { return chosen_of(sets(), Set::test); }
};

bool of_policy(const std::string& name) {
  return name.starts_with("locate.") || name.starts_with("aim.");
}

void expect_falling(const Config& c) {
  if (c.sigma_start == 0 || static_cast<float>(c.sigma_start) >= c.network.sigma) return;
  throw Error("glimpse",
              fmt::format("--sigma-start {:g} is below --sigma {:g}, to which it falls; it takes "
                          "that or more, or 0 for one deviation all along",
                          c.sigma_start, c.network.sigma));
}

std::unique_ptr<Run> begin(const Config& config, const RunFolder* former) {
  Viewer v;
  v.config = config;
  expect_falling(config);
  image::Placing& placing = v.config.data.placed.placing;
  if (placing == image::Placing::unsaid) placing = image::Placing::plain;  // in a file of settings
  Sets sets = load_data(v.config.data, v.config.train.seed);
  v.config.data.class_column = sets.class_column;
  v.known = former ? load_known(*former) : known_of(sets, v.config.data);
  models::GlimpseConfig& n = v.config.network;
  n.height = n.width = v.known.side;
  n.classes = static_cast<int64_t>(v.known.classes.size());
  check_room(models::count_weights(n), v.config.train, "--hidden, --parts or --canvas");
  v.model = models::glimpse(n, v.config.train.seed);
  v.config.train.optimizer.groups = {
      {.has = of_policy, .rate = static_cast<float>(v.config.locator_rate)}};
  return std::make_unique<GlimpseRun>(std::move(v), std::move(sets));
}

}  // namespace
}  // namespace glimpsing

extern const Task task_glimpse = {
    .name = "glimpse",
    .title = "Glimpses",
    .about = "Images to classes by a few glimpses, each where the last ones sent it",
    .examples =
        "  fovea train glimpse                            built-in digits anywhere on 48 × 48, a "
        "minute\n"
        "  fovea train glimpse --variant cluttered        on 60 × 60, among pieces of others\n"
        "  fovea train glimpse --variant plain            in the middle of 28 × 28\n"
        "  fovea train glimpse mnist/                     a folder with MNIST's four files (.gz "
        "too)\n"
        "  fovea train glimpse digits.csv                 pixels and the class, a line an image\n"
        "  fovea train glimpse --glimpses 4 --sensor 6    fewer and smaller glimpses\n"
        "  fovea train glimpse --model random             the same, looking anywhere\n"
        "  fovea train glimpse --model soft --weighting sigmoid     all places at once, weighed\n"
        "  fovea train glimpse --model conv               no glimpses: the whole image\n"
        "  fovea predict runs/glimpse-digits --show test:0\n"
        "  fovea predict runs/glimpse-digits --weights way.svg test:0 digits.csv:7\n"
        "  fovea eval runs/glimpse-digits --passes 8      the mean of eight ways to look",
    .demo =
        "The model sees a few pixels at a time and decides where to look next; what it learns "
        "from\n"
        "is whether the digit that it names in the end is right.",
    .data_field = "data",
    .data_about = "Images: a folder of idx files as MNIST's, or CSV, pixels and class; gzip too",
    .data_endings = {".csv", ".csv.gz"},
    .seconds = 25,
    .takes = Takes::pictures,
    .scored = true,
    .measures = glimpsing::measures(),
    .files = {glimpsing::kKnownFile},
    .config = make<glimpsing::Config, TaskConfig>,
    .evaluate_settings = make<glimpsing::EvaluateSettings>,
    .predict_settings = make<glimpsing::PredictSettings>,
    .begin = begin_as<glimpsing::Config, glimpsing::begin>,
    .open = open_as<glimpsing::GlimpseRun, glimpsing::load_viewer>,
};

}  // namespace fovea::tasks
