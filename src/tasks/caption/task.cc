#include <algorithm>
#include <filesystem>
#include <optional>

#include "fovea/error.h"
#include "tasks/caption/places.h"
#include "tasks/caption/seer.h"
#include "tasks/room.h"
#include "tasks/run_of.h"

namespace fovea::tasks {
namespace captions {
namespace {

class CaptionRun final
    : public RunOf<CaptionModel, CaptionSets, EvaluateSettings, PredictSettings> {
 public:
  using RunOf::RunOf;

  void save_files(const RunFolder& run) const override {
    model().words.save(run / kWordsFile);
    if (model().seer) save_seen(sets(), (run / kSeenFile).string());
  }
  train::Learner learner(const Watching& watching) const override {
    return captions::learner(model(), sets(), watching);
  }
  Set held_out_set() const override { return held_out_of(sets()); }
  Evaluation score_held_out(const ShareDone& done) const override {
    return captions::evaluate(model(), held_out(), {.beam = model().config.beam}, done);
  }

  Evaluation evaluate_as(const Judged& what, const EvaluateSettings& settings,
                         const ShareDone& done) const override {
    if (what.file.empty())
      return captions::evaluate(model(), set_of(what.set), settings.decode, done);
    std::vector<std::string> warnings;
    const auto all = read_captioned(model(), what.file, settings.places, image::keep_in(warnings));
    Evaluation e = captions::evaluate(model(), all, settings.decode, done);
    e.warnings = std::move(warnings);
    return e;
  }
  std::vector<Predictions> predict_as(std::span<const Input> inputs, const PredictSettings& how,
                                      const Predicting& p) const override {
    PredictSettings settings = how;
    settings.decode.beam = std::max(settings.decode.beam, settings.decode.n_best);
    settings.decode.weights = p.maps == Maps::keep;
    return captions::predict(model(), asked(inputs, settings.places), settings.decode, p.done);
  }

  std::optional<Inside> inside(const Input& input) const override {
    return captions::inside(model(), asked({&input, 1}, {}).front());
  }
  std::vector<Input> inputs(const Judged& what, size_t most) const override {
    std::vector<Input> some;
    if (what.file.empty()) {
      const std::vector<CaptionedImage>& all = set_of(what.set);
      for (const size_t i : spread(all.size(), most)) some.emplace_back(own(all, what.set, i));
      return some;
    }
    const std::vector<CaptionedImage> all = read_captioned(model(), what.file, {});
    for (const size_t i : spread(all.size(), most)) {
      some.emplace_back(GivenImage{unpacked(all[i].pixels, fit_of(model().config)), all[i].name});
    }
    return some;
  }

  std::vector<Example> examples(size_t n) const override {
    const std::vector<CaptionedImage>& all = held_out();
    n = std::min(n, all.size());
    std::vector<Example> some;
    for (size_t i = 0; i < n; ++i) {
      const size_t at = i * all.size() / n;
      const CaptionedImage& x = all[at];
      some.push_back({own(all, held_out_set(), at), x.captions.front(),
                      unpacked(x.pixels, fit_of(model().config))});
    }
    return some;
  }

  std::vector<Solved> solved(Set set, size_t most) const override {
    if (set == Set::test) set = held_out_set();
    const std::vector<CaptionedImage>& all = set_of(set);
    std::vector<Solved> some;
    for (size_t i = 0; i < std::min(most, all.size()); ++i) {
      some.push_back({own(all, set, i), all[i].captions});
    }
    return some;
  }

 private:
  CaptionSets read_sets() const override { return load_data(model().config, model().seer.get()); }
  // What the model sees of inputs. `places` as places_file() takes them.
  std::vector<CaptionedImage> asked(std::span<const Input> inputs,
                                    const std::string& places) const {
    std::vector<const GivenImage*> pictures;
    for (const Input& input : inputs) {
      if (const auto* picture = std::get_if<GivenImage>(&input)) pictures.push_back(picture);
    }
    std::vector<CaptionedImage> seen = captioned(model(), pictures, places), all;
    auto next = seen.begin();
    for (const Input& input : inputs) {
      const bool sent = std::holds_alternative<GivenImage>(input);
      all.push_back(sent ? std::move(*next++) : of_own(own_of(input)));
    }
    return all;
  }
  CaptionedImage of_own(const Own& own) const {
    const std::optional<Set> set = tasks::set_of(own);
    if (!set && model().config.data.places.empty()) {
      CaptionedImage x = scene_of(model().config, own.number);
      if (model().seer) add_places(x);
      return x;
    }
    if (!set) throw Error("predict", "this run sees places of its own images; scenes have none");
    const std::vector<CaptionedImage>& all = set_of(*set);
    return all[index_of(own, all.size())];
  }
  // One of the run's own was seen already.
  void add_places(CaptionedImage& x) const {
    for (const auto* set : {&sets().test, &sets().valid, &sets().train}) {
      for (const CaptionedImage& seen : *set) {
        if (seen.key == x.key) x.places = seen.places;
      }
    }
    if (!x.places) see(model().config, *model().seer, x);
  }
  // By its number among the built-in ones, or in its set.
  Own own(const std::vector<CaptionedImage>& all, Set set, size_t i) const {
    if (model().config.data.data.empty()) return *own_from(task_caption, all[i].name);
    return {name_of(set), static_cast<int64_t>(i)};
  }
  const std::vector<CaptionedImage>& set_of(Set set) const { return chosen_of(sets(), set); }
  const std::vector<CaptionedImage>& held_out() const { return set_of(Set::test); }
};

text::Tokenizer words_of(const CaptionConfig& c, std::span<const CaptionedImage> images) {
  std::vector<std::string> lines;
  for (const CaptionedImage& x : images) {
    lines.insert(lines.end(), x.captions.begin(), x.captions.end());
  }
  return text::Tokenizer::train(c.words, lines);
}

// What it sees is kept in the run: one that goes on needs the encoder for new images alone.
void begin_seeing(CaptionModel& m, const RunFolder* former) {
  CaptionConfig& c = m.config;
  if (!c.data.places.empty()) {
    throw Error("caption", "--places and --encoder both say what images are seen by; name one");
  }
  m.seer = std::make_shared<const Seer>(c.data.encoder);
  if (former != nullptr && std::filesystem::exists(*former / kSeenFile)) {
    c.data.seen = (*former / kSeenFile).string();
    suit_places(c, c.data.seen);
  } else {
    suit_seer(c, *m.seer);
  }
}

// The vocabulary is found once.
std::unique_ptr<Run> begin(const CaptionConfig& config, const RunFolder* former) {
  CaptionModel m;
  m.config = config;
  CaptionConfig& c = m.config;
  if (!c.data.places.empty()) {
    if (c.data.data.empty()) {
      throw Error("caption",
                  "--places are of images of yours; name the file of their captions, too");
    }
    suit_places(c, c.data.places);
  }
  if (!c.data.encoder.empty()) begin_seeing(m, former);
  CaptionSets sets = load_data(c, m.seer.get());
  m.words = former ? text::Tokenizer::load(*former / kWordsFile) : words_of(c, sets.train);
  c.network.target_vocabulary = m.words.size();
  if (!looks(c)) c.network.gate = c.network.input_feeding = false;
  if (c.network.order == models::Order::bahdanau) c.network.input_feeding = false;
  check_room(models::count_weights(c.network), c.train, "--features, --hidden or --embedding");
  m.model = models::captioner(c.network, c.train.seed);
  return std::make_unique<CaptionRun>(std::move(m), std::move(sets));
}

}  // namespace
}  // namespace captions

extern const Task task_caption = {
    .name = "caption",
    .title = "Captions",
    .about = "Image to text: a recurrent network that looks at a place of the image for each word",
    .examples =
        "  fovea train caption                            built-in scenes, minutes\n"
        "  fovea train caption captions.tsv               your images: image<TAB>caption a line\n"
        "  fovea train caption captions_train2014.json --images train2014/    COCO\n"
        "  fovea train caption Flickr8k.token.txt --images Flicker8k_Dataset/\n"
        "  fovea train caption captions.tsv --encoder vit-base/         what a model of a hub "
        "sees\n"
        "  fovea train caption captions.tsv --places vgg.safetensors    what another network saw\n"
        "  fovea train caption --weighting sample         hard attention\n"
        "  fovea train caption --context fixed            one vector for the image\n"
        "  fovea predict runs/caption-scenes photo.jpg    what it sees in an image\n"
        "  fovea predict runs/caption-scenes scene:7 --weights looked.png",
    .demo =
        "The model looks at coloured shapes and writes a sentence that names them and how they\n"
        "lie; at each word it writes, it looks at a place of the image.",
    .data_field = "data",
    .data_about = "Images with captions: TSV, Flickr's token file, COCO's or Karpathy's JSON",
    .seconds = 180,
    .takes = Takes::pictures,
    .drawn = "scene",
    .measures = captions::measures(),
    .files = {captions::kWordsFile, captions::kSeenFile},
    .config = make<captions::CaptionConfig, TaskConfig>,
    .evaluate_settings = make<captions::EvaluateSettings>,
    .predict_settings = make<captions::PredictSettings>,
    .begin = begin_as<captions::CaptionConfig, captions::begin>,
    .open = open_as<captions::CaptionRun, captions::load_caption_model>,
};

}  // namespace fovea::tasks
