#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>

#include "core/random.h"
#include "tasks/classes.h"
#include "tasks/image/image_task.h"
#include "tasks/room.h"
#include "tasks/run_of.h"

namespace fovea::tasks {
namespace images {

train::Learner learner(const ImageModel& m, const ImageSets& sets, const Watching& watching) {
  const auto say = [&](const std::string& line) {
    if (watching.say) watching.say(line);
  };
  for (const std::string& line : sets.warnings) say(line);
  say(
      fmt::format("{} images of {} classes to train, {} to validate, {} to test; {:.3f} million "
                  "weights",
                  sets.train.size(), m.classes.size(), sets.valid.size(), sets.test.size(),
                  static_cast<double>(m.model.weights.count()) / 1e6));
  train::Learner l;
  l.parameters = m.model.weights.learned();
  l.buffers = m.model.weights.buffers();
  l.lengths.assign(sets.train.size(), 1);
  l.loss = [&m, &sets](std::span<const int64_t> examples, uint64_t seed) {
    const ImageConfig& c = m.config;
    const bool changes = c.augmentation.any();
    std::vector<PackedImage> changed(changes ? examples.size() : 0);
    std::vector<const PackedImage*> pixels;
    std::vector<int64_t> labels;
    for (size_t k = 0; k < examples.size(); ++k) {
      const PackedExample& x = sets.train[static_cast<size_t>(examples[k])];
      if (changes) {
        const uint64_t own = Seed(seed).at("augmentation").at(static_cast<int64_t>(k)).value();
        changed[k] = packed(image::augmented(unpacked(x.pixels, fit_of(c)), c.augmentation, own));
      }
      pixels.push_back(changes ? &changed[k] : &x.pixels);
      labels.push_back(x.label);
    }
    const auto n = static_cast<int64_t>(labels.size());
    const models::ConvnetOutput found =
        classify(m.model, tensor_of(pixels, fit_of(c)),
                 {.mode = Mode::train, .dropout = static_cast<float>(c.dropout), .seed = seed});
    const Tensor loss = cross_entropy(found.logits, Tensor::from_ids(labels, {n}),
                                      {.label_smoothing = static_cast<float>(c.label_smoothing)});
    return train::StepLoss{loss, static_cast<double>(loss.item()) * static_cast<double>(n),
                           static_cast<double>(n)};
  };
  const ShareDone done = stopping(watching);
  l.validate = [&m, &sets, done] { return evaluate(m, sets.valid, done).scores; };
  l.unit = "images";
  l.watch = m.config.watch;
  l.higher_is_better = find_measure(measures(), l.watch)->better == Better::higher;
  return l;
}

namespace {

class ImageRun final : public RunOf<ImageModel, ImageSets, EvaluateSettings, PredictSettings> {
 public:
  using RunOf::RunOf;

  void save_files(const RunFolder& run) const override { save_classes(model().classes, run); }
  train::Learner learner(const Watching& watching) const override {
    return images::learner(model(), sets(), watching);
  }
  Set held_out_set() const override { return held_out_of(sets()); }
  Evaluation score_held_out(const ShareDone& done) const override {
    return images::evaluate(model(), held_out(), done);
  }

  Evaluation evaluate_as(const Judged& what, const EvaluateSettings&,
                         const ShareDone& done) const override {
    if (what.file.empty()) return images::evaluate(model(), set_of(what.set), done);
    std::vector<std::string> warnings;
    const auto all =
        read_examples(model().config, model().classes, what.file, image::keep_in(warnings));
    Evaluation e = images::evaluate(model(), all, done);
    e.warnings = std::move(warnings);
    return e;
  }
  std::vector<Predictions> predict_as(std::span<const Input> inputs, const PredictSettings& how,
                                      const Predicting& p) const override {
    std::vector<PackedExample> all;
    for (const Input& input : inputs) all.push_back(asked(input));
    return images::predict(model(), all, how, p);
  }

  std::optional<Inside> inside(const Input& input) const override {
    return images::inside(model(), asked(input).pixels);
  }
  std::vector<Input> inputs(const Judged& what, size_t most) const override {
    std::vector<Input> some;
    if (what.file.empty()) {
      const std::vector<PackedExample>& all = set_of(what.set);
      for (const size_t i : spread(all.size(), most)) some.emplace_back(own(all, what.set, i));
      return some;
    }
    const std::vector<PackedExample> all =
        read_examples(model().config, model().classes, what.file);
    for (const size_t i : spread(all.size(), most)) {
      some.emplace_back(GivenImage{unpacked(all[i].pixels, fit_of(model().config)), all[i].name});
    }
    return some;
  }

  std::vector<Example> examples(size_t n) const override {
    const std::vector<PackedExample>& all = held_out();
    n = std::min(n, all.size());
    std::vector<Example> some;
    for (size_t i = 0; i < n; ++i) {
      const size_t at = i * all.size() / n;
      const PackedExample& x = all[at];
      some.push_back({own(all, held_out_set(), at), model().classes[static_cast<size_t>(x.label)],
                      unpacked(x.pixels, fit_of(model().config))});
    }
    return some;
  }

  std::vector<Solved> solved(Set set, size_t most) const override {
    if (set == Set::test) set = held_out_set();
    const std::vector<PackedExample>& all = set_of(set);
    std::vector<Solved> some;
    for (size_t i = 0; i < std::min(most, all.size()); ++i) {
      some.push_back({own(all, set, i), {model().classes[static_cast<size_t>(all[i].label)]}});
    }
    return some;
  }

 private:
  // The data may have other classes now than when the model learned them.
  ImageSets read_sets() const override {
    ImageSets all = load_data(model().config);
    const auto known = places_of_classes(all.classes, model().classes, "image", "the data");
    for (auto* set : {&all.train, &all.valid, &all.test}) {
      for (PackedExample& x : *set) x.label = known[static_cast<size_t>(x.label)];
    }
    all.classes = model().classes;
    return all;
  }
  // What the model sees of an input.
  PackedExample asked(const Input& input) const {
    if (const auto* picture = std::get_if<GivenImage>(&input)) {
      return {packed(image::fitted(picture->image, fit_of(model().config))), 0, picture->name};
    }
    const Own& own = own_of(input);
    const std::optional<Set> set = tasks::set_of(own);
    if (!set) return pair_of(model().config, own.number);
    const std::vector<PackedExample>& all = set_of(*set);
    PackedExample x = all[index_of(own, all.size())];
    x.name = name_of(input);
    return x;
  }
  // By its number among the built-in ones, or in its set.
  Own own(const std::vector<PackedExample>& all, Set set, size_t i) const {
    if (model().config.data.data.empty()) return *own_from(task_image, all[i].name);
    return {name_of(set), static_cast<int64_t>(i)};
  }
  const std::vector<PackedExample>& set_of(Set set) const { return chosen_of(sets(), set); }
  const std::vector<PackedExample>& held_out() const { return set_of(Set::test); }
};

std::unique_ptr<Run> begin(const ImageConfig& config, const RunFolder* former) {
  ImageModel m;
  m.config = config;
  ImageConfig& c = m.config;
  models::check(c.network);
  ImageSets sets = load_data(c);
  m.classes = former ? load_classes(*former) : sets.classes;
  c.network.classes = static_cast<int64_t>(m.classes.size());
  check_room(models::count_weights(c.network), c.train, "--features or --blocks");
  m.model = models::convnet(c.network, c.train.seed);
  // γ starts at 0, and nothing is learned through it before it has moved.
  c.train.optimizer.groups = {
      {.has = [](const std::string& name) { return name == "attention.gate"; },
       .rate = static_cast<float>(c.gate_rate),
       .weight_decay = 0.0f}};
  return std::make_unique<ImageRun>(std::move(m), std::move(sets));
}

}  // namespace
}  // namespace images

extern const Task task_image = {
    .name = "image",
    .title = "Images",
    .about = "Image to classes: a convolution network whose places attend to each other",
    .examples =
        "  fovea train image                              built-in pairs, a minute\n"
        "  fovea train image --no-attention               the same without attention\n"
        "  fovea train image photos/                      a folder for each class, PNG and JPEG\n"
        "  fovea train image photos/ --height 96 --width 96 --stride 8 --blocks 4\n"
        "  fovea predict runs/image-photos photo.jpg --n-best 3\n"
        "  fovea predict runs/image-pairs pair:7 --weights looked.png",
    .demo =
        "The model sees two marks far apart and says whether they are the same; no convolution\n"
        "reaches from one to the other, but attention does.",
    .data_field = "data",
    .data_about = "A folder for each class, with PNG and JPEG files",
    .seconds = 20,
    .takes = Takes::pictures,
    .drawn = "pair",
    .scored = true,
    .measures = images::measures(),
    .files = {images::kClassesFile},
    .config = make<images::ImageConfig, TaskConfig>,
    .evaluate_settings = make<images::EvaluateSettings>,
    .predict_settings = make<images::PredictSettings>,
    .begin = begin_as<images::ImageConfig, images::begin>,
    .open = open_as<images::ImageRun, images::load_image_model>,
};

}  // namespace fovea::tasks
