#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "fovea/error.h"
#include "fovea/io.h"
#include "tasks/lm/lm.h"
#include "tasks/room.h"
#include "tasks/transformer_fields.h"

namespace fovea::tasks {
namespace lm {
namespace {

class LmRun final : public Run {
 public:
  explicit LmRun(LanguageModel m, std::optional<LmSets> sets = {})
      : m_(std::move(m)), sets_(std::move(sets)) {}

  TaskConfig& config() override { return m_.config; }
  int64_t weights() const override { return m_.model.weights.count(); }
  std::string fingerprint() override { return sets().fingerprint; }
  void save_files(const RunFolder& run) override { m_.tokenizer.save(run / kVocabularyFile); }
  train::Learner learner(const Watching& watching) override {
    return lm::learner(m_, sets(), watching);
  }
  Evaluation final_scores(const ShareDone& done) override {
    return lm::evaluate(m_, held_out(), done);
  }
  Evaluation evaluate(const Judged& what, const Settings&, const ShareDone& done) override {
    return lm::evaluate(m_, judged(what), done);
  }
  std::optional<Inside> inside(const std::string& text) override { return lm::inside(m_, text); }
  std::vector<std::string> inputs(const Judged& what) override {
    std::vector<std::string> lines = judged(what);
    std::erase(lines, "");
    return lines;
  }
  std::vector<Predictions> predict(std::span<const std::string> inputs, const Settings& how,
                                   const Predicting& watch) override {
    std::vector<Predictions> all;
    for (const std::string& prompt : inputs) {
      all.push_back({write_on(m_, prompt, dynamic_cast<const PredictSettings&>(how), watch)});
    }
    return all;
  }

  // The first halves of lines, or tales up to their last question, spread over the held-out text.
  std::vector<Example> examples(size_t n) override {
    std::vector<const std::string*> lines;
    for (const std::string& line : held_out()) {
      if (!line.empty()) lines.push_back(&line);
    }
    n = std::min(n, lines.size());
    std::vector<Example> some;
    for (size_t i = 0; i < n; ++i) {
      const std::vector<std::string> all =
          text::characters(*lines[(2 * i + 1) * lines.size() / (2 * n)]);
      Example e;
      size_t cut = (all.size() + 1) / 2;
      for (size_t c = 0; m_.config.data.file.empty() && c < all.size(); ++c) {
        if (all[c] == "?") cut = c + 1;
      }
      for (size_t c = 0; c < all.size(); ++c) {
        e.expected += all[c];
        if (c < cut) e.input += all[c];
      }
      some.push_back(std::move(e));
    }
    return some;
  }

  // Windows of the context's length, spread over the held-out text.
  std::optional<explain::BlocksAtWork> blocks(int64_t sequences) override {
    const NoGrad off;
    const Tokens text = encode(m_.tokenizer, held_out());
    const auto all = static_cast<int64_t>(text.size());
    const int64_t L = std::min(m_.config.context, all);
    const int64_t B = std::clamp<int64_t>(all / std::max<int64_t>(L, 1), 1, sequences);
    std::vector<int64_t> ids;
    for (int64_t b = 0; b < B; ++b) {
      const auto begin = text.begin() + (2 * b + 1) * (all - L) / (2 * B);
      ids.insert(ids.end(), begin, begin + L);
    }
    const models::Transformer& m = m_.model;
    return explain::BlocksAtWork{m.config, m.decoder, m.target(Tensor::from_ids(ids, {B, L})), {}};
  }

 private:
  const LmSets& sets() {
    if (!sets_) sets_ = load_data(m_.config);
    return *sets_;
  }
  std::vector<std::string> judged(const Judged& what) {
    if (!what.file.empty()) return text::read_lines(what.file);
    return what.set == Set::train   ? sets().train
           : what.set == Set::valid ? sets().valid
                                    : held_out();
  }
  const std::vector<std::string>& held_out() {
    return sets().test.empty() ? sets().valid : sets().test;
  }

  LanguageModel m_;
  std::optional<LmSets> sets_;
};

void suit_vocabulary(LanguageModel& m) {
  m.config.network.target_vocabulary = m.tokenizer.size();
  m.config.train.optimizer.groups = without_decay();
}

std::unique_ptr<Run> begin(const TaskConfig& config, const RunFolder* former) {
  LanguageModel m;
  m.config = dynamic_cast<const LmConfig&>(config);
  LmSets sets = load_data(m.config);
  m.tokenizer = former ? text::Tokenizer::load(*former / kVocabularyFile)
                       : text::Tokenizer::train(m.config.tokens, sets.train);
  suit_vocabulary(m);
  check_room(models::count_weights(m.config.network), m.config.train,
             "--query-depth, --blocks or --vocab");
  m.model = models::transformer(m.config.network, m.config.train.seed);
  return std::make_unique<LmRun>(std::move(m), std::move(sets));
}

std::unique_ptr<Run> open(const RunFolder& run) { return std::make_unique<LmRun>(load_model(run)); }

}  // namespace

LanguageModel load_model(const RunFolder& run) {
  LanguageModel m;
  m.config = dynamic_cast<const LmConfig&>(*run.config_of(task_lm));
  m.tokenizer = text::Tokenizer::load(run / kVocabularyFile);
  suit_vocabulary(m);
  const Tensors weights = load_safetensors(run / "model.safetensors");
  models::expect_weights(m.config.network, weights);
  m.model = models::transformer(m.config.network, m.config.train.seed);
  m.model.weights.load(weights);
  return m;
}

}  // namespace lm

extern const Task task_lm = {
    .name = "lm",
    .title = "Language model",
    .about = "Text that goes on: a Transformer's decoder by itself",
    .examples =
        "  fovea train lm                                 built-in tales, a minute\n"
        "  fovea train lm book.txt --minutes 20           your text, by characters\n"
        "  fovea train lm book.txt --unit subwords --vocab 2000\n"
        "  fovea predict runs/lm-book \"Once upon\" --temperature 0.7 --length 500\n"
        "  fovea predict runs/lm-tales --show \"Ada sells hats. Bela mends boats. Who is Ada?\"",
    .demo =
        "The model reads tales word by word and writes what comes next; to answer what Ada does,\n"
        "it looks back to where that was said.",
    .data_field = "file",
    .data_about = "A text; gzip too",
    .input = Input::text,
    .measures = lm::measures(),
    .files = {lm::kVocabularyFile},
    .config = make<lm::LmConfig, TaskConfig>,
    .evaluate_settings = make<lm::EvaluateSettings>,
    .predict_settings = make<lm::PredictSettings>,
    .begin = lm::begin,
    .open = lm::open,
};

}  // namespace fovea::tasks
