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
  std::vector<Predictions> predict(std::span<const std::string> names, const Settings& how,
                                   const Predicting& p) override {
    PredictSettings settings = dynamic_cast<const PredictSettings&>(how);
    settings.decode.beam = std::max(settings.decode.beam, settings.decode.n_best);
    settings.decode.weights = p.maps == Maps::keep;
    return captions::predict(m_, names, settings, p.done);
  }

  std::optional<Inside> inside(const std::string& name) override {
    return captions::inside(m_, name);
  }
  std::vector<std::string> inputs(const Judged& what) override {
    std::vector<std::string> names;
    const auto add = [&](const std::vector<CaptionedImage>& all) {
      for (const CaptionedImage& x : all) names.push_back(x.name);
    };
    what.file.empty() ? add(set_of(what.set)) : add(read_captioned(m_.config, what.file, {}));
    return names;
  }

  std::vector<Example> examples(size_t n) override {
    const std::vector<CaptionedImage>& all = held_out();
    n = std::min(n, all.size());
    std::vector<Example> some;
    for (size_t i = 0; i < n; ++i) {
      const CaptionedImage& x = all[i * all.size() / n];
      some.push_back({x.name, x.captions.front(), unpacked(x.pixels, fit_of(m_.config))});
    }
    return some;
  }

 private:
  const CaptionSets& sets() {
    if (!sets_) sets_ = load_data(m_.config);
    return *sets_;
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
    .input = Input::files,
    .measures = captions::measures(),
    .files = {captions::kWordsFile},
    .config = make<captions::CaptionConfig, TaskConfig>,
    .evaluate_settings = make<captions::EvaluateSettings>,
    .predict_settings = make<captions::PredictSettings>,
    .begin = captions::begin,
    .open = captions::open,
};

}  // namespace fovea::tasks
