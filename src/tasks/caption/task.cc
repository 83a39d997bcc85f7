#include <algorithm>
#include <optional>

#include "fovea/error.h"
#include "tasks/caption/places.h"
#include "tasks/room.h"

namespace fovea::tasks {
namespace captions {
namespace {

class CaptionRun final : public Run {
 public:
  explicit CaptionRun(CaptionModel m, std::optional<CaptionSets> sets = {})
      : m_(std::move(m)), sets_(std::move(sets)) {}

  TaskConfig& config() override { return m_.config; }
  int64_t weights() const override { return m_.model.weights.count(); }
  std::string fingerprint() override { return sets().fingerprint; }

  void save_files(const RunFolder& run) override { m_.words.save(run / kWordsFile); }
  train::Learner learner(const Watching& watching) override {
    return captions::learner(m_, sets(), watching);
  }
  Evaluation final_scores(const ShareDone& done) override {
    return captions::evaluate(m_, held_out(), {.beam = m_.config.beam}, done);
  }

  Evaluation evaluate(const Judged& what, const Settings& how, const ShareDone& done) override {
    const auto& settings = dynamic_cast<const EvaluateSettings&>(how);
    if (what.file.empty()) return captions::evaluate(m_, set_of(what.set), settings.decode, done);
    std::vector<std::string> warnings;
    const auto all =
        read_captioned(m_.config, what.file, settings.places, image::keep_in(warnings));
    Evaluation e = captions::evaluate(m_, all, settings.decode, done);
    e.warnings = std::move(warnings);
    return e;
  }
  std::vector<Predictions> predict(std::span<const Input> inputs, const Settings& how,
                                   const Predicting& p) override {
    PredictSettings settings = dynamic_cast<const PredictSettings&>(how);
    settings.decode.beam = std::max(settings.decode.beam, settings.decode.n_best);
    settings.decode.weights = p.maps == Maps::keep;
    return captions::predict(m_, asked(inputs, settings.places), settings.decode, p.done);
  }

  std::optional<Inside> inside(const Input& input) override {
    return captions::inside(m_, asked({&input, 1}, {}).front());
  }
  std::vector<Input> inputs(const Judged& what, size_t most) override {
    std::vector<Input> some;
    if (what.file.empty()) {
      const std::vector<CaptionedImage>& all = set_of(what.set);
      for (const size_t i : spread(all.size(), most)) some.emplace_back(own(all, what.set, i));
      return some;
    }
    const std::vector<CaptionedImage> all = read_captioned(m_.config, what.file, {});
    for (const size_t i : spread(all.size(), most)) {
      some.emplace_back(Picture{unpacked(all[i].pixels, fit_of(m_.config)), all[i].name});
    }
    return some;
  }

  std::vector<Example> examples(size_t n) override {
    const std::vector<CaptionedImage>& all = held_out();
    n = std::min(n, all.size());
    std::vector<Example> some;
    for (size_t i = 0; i < n; ++i) {
      const size_t at = i * all.size() / n;
      const CaptionedImage& x = all[at];
      const Set set = sets().test.empty() ? Set::valid : Set::test;
      some.push_back(
          {own(all, set, at), x.captions.front(), unpacked(x.pixels, fit_of(m_.config))});
    }
    return some;
  }

 private:
  const CaptionSets& sets() {
    if (!sets_) sets_ = load_data(m_.config);
    return *sets_;
  }
  // What the model sees of inputs. `places` as places_file() takes them.
  std::vector<CaptionedImage> asked(std::span<const Input> inputs, const std::string& places) {
    std::vector<const Picture*> pictures;
    for (const Input& input : inputs) {
      if (const auto* picture = std::get_if<Picture>(&input)) pictures.push_back(picture);
    }
    std::vector<CaptionedImage> seen = captioned(m_.config, pictures, places), all;
    auto next = seen.begin();
    for (const Input& input : inputs) {
      const bool sent = std::holds_alternative<Picture>(input);
      all.push_back(sent ? std::move(*next++) : of_own(own_of(input)));
    }
    return all;
  }
  CaptionedImage of_own(const Own& own) {
    const std::optional<Set> set = tasks::set_of(own);
    if (!set && m_.config.data.places.empty()) return scene_of(m_.config, own.number);
    if (!set) throw Error("predict", "this run sees places of its own images; scenes have none");
    const std::vector<CaptionedImage>& all = set_of(*set);
    return all[index_of(own, all.size())];
  }
  // By its number among the built-in ones, or in its set.
  Own own(const std::vector<CaptionedImage>& all, Set set, size_t i) const {
    if (m_.config.data.data.empty()) return *own_from(task_caption, all[i].name);
    return {name_of(set), static_cast<int64_t>(i)};
  }
  const std::vector<CaptionedImage>& set_of(Set set) {
    const CaptionSets& s = sets();
    return set == Set::train ? s.train : set == Set::valid ? s.valid : s.test;
  }
  const std::vector<CaptionedImage>& held_out() {
    const CaptionSets& s = sets();
    return s.test.empty() ? s.valid : s.test;
  }

  CaptionModel m_;
  std::optional<CaptionSets> sets_;
};

text::Tokenizer words_of(const CaptionConfig& c, std::span<const CaptionedImage> images) {
  std::vector<std::string> lines;
  for (const CaptionedImage& x : images) {
    lines.insert(lines.end(), x.captions.begin(), x.captions.end());
  }
  return text::Tokenizer::train(c.words, lines);
}

// The vocabulary is found once.
std::unique_ptr<Run> begin(const TaskConfig& config, const RunFolder* former) {
  CaptionModel m;
  m.config = dynamic_cast<const CaptionConfig&>(config);
  CaptionConfig& c = m.config;
  if (!c.data.places.empty()) {
    if (c.data.data.empty()) {
      throw Error("caption",
                  "--places are of images of yours; name the file of their captions, too");
    }
    suit_places(c, c.data.places);
  }
  CaptionSets sets = load_data(c);
  m.words = former ? text::Tokenizer::load(*former / kWordsFile) : words_of(c, sets.train);
  c.network.target_vocabulary = m.words.size();
  if (!looks(c)) c.network.gate = c.network.input_feeding = false;
  if (c.network.order == models::Order::bahdanau) c.network.input_feeding = false;
  check_room(models::count_weights(c.network), c.train, "--features, --hidden or --embedding");
  m.model = models::captioner(c.network, c.train.seed);
  return std::make_unique<CaptionRun>(std::move(m), std::move(sets));
}

std::unique_ptr<Run> open(const RunFolder& run) {
  return std::make_unique<CaptionRun>(load_caption_model(run));
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
    .takes = Takes::pictures,
    .drawn = "scene",
    .measures = captions::measures(),
    .files = {captions::kWordsFile},
    .config = make<captions::CaptionConfig, TaskConfig>,
    .evaluate_settings = make<captions::EvaluateSettings>,
    .predict_settings = make<captions::PredictSettings>,
    .begin = captions::begin,
    .open = captions::open,
};

}  // namespace fovea::tasks
