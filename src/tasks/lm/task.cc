#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "fovea/error.h"
#include "tasks/given_back.h"
#include "tasks/lm/lm.h"
#include "tasks/room.h"
#include "tasks/run_of.h"
#include "tasks/transformer_fields.h"
#include "text/lines.h"

namespace fovea::tasks {
namespace lm {
namespace {

class LmRun final : public RunOf<LanguageModel, LmSets, EvaluateSettings, PredictSettings> {
 public:
  using RunOf::RunOf;

  void save_files(const RunFolder& run) const override {
    if (model().origin) return model().origin->keep_in(run / kOriginFolder);
    model().tokenizer.own()->save(run / kVocabularyFile);
  }
  train::Learner learner(const Watching& watching) const override {
    return lm::learner(model(), sets(), watching);
  }
  Set held_out_set() const override { return held_out_of(sets()); }
  GivenBack given_back() const override { return give_back(model()); }
  Evaluation score_held_out(const ShareDone& done) const override {
    return lm::evaluate(model(), held_out(), done);
  }
  Evaluation evaluate_as(const Judged& what, const EvaluateSettings&,
                         const ShareDone& done) const override {
    return lm::evaluate(model(), judged(what), done);
  }
  std::optional<Inside> inside(const Input& input) const override {
    return lm::inside(model(), text_of(input));
  }
  std::optional<Tensors> logits(const Input& input) const override {
    const NoGrad off;
    const Tokens ids = encode_prompt(model().tokenizer, text_of(input));
    const auto L = static_cast<int64_t>(ids.size());
    if (L == 0 || L > model().config.context) {
      throw Error("predict", fmt::format("--logits: a text of 1 to {} tokens, found {}",
                                         model().config.context, L));
    }
    const models::Transformer& m = model().model;
    const Tensor states = models::decode_all(m, Tensor::from_ids(ids, {1, L}));
    return Tensors{{"ids", Tensor::from_ids(ids, {L})},
                   {"logits", models::logits(m, states).select(0, 0)}};
  }
  std::vector<Piece> pieces(const Input& input) const override {
    return read_pieces(model().tokenizer, text_of(input));
  }
  std::vector<Input> inputs(const Judged& what, size_t most) const override {
    std::vector<std::string> lines = judged(what);
    std::erase(lines, "");
    return spread_of(lines, most);
  }
  std::vector<Predictions> predict_as(std::span<const Input> inputs, const PredictSettings& how,
                                      const Predicting& watch) const override {
    std::vector<Predictions> all;
    for (const std::string& prompt : texts_of(inputs)) {
      all.push_back({write_on(model(), prompt, how, watch)});
    }
    return all;
  }

  // The first halves of lines, or tales up to their last question, spread over the held-out text;
  // of long lines, of their beginning.
  std::vector<Example> examples(size_t n) const override {
    std::vector<const std::string*> lines;
    for (const std::string& line : held_out()) {
      if (!line.empty()) lines.push_back(&line);
    }
    n = std::min(n, lines.size());
    std::vector<Example> some;
    for (size_t i = 0; i < n; ++i) {
      constexpr size_t kMost = 400;  // characters
      std::vector<std::string> all = text::characters(*lines[(2 * i + 1) * lines.size() / (2 * n)]);
      all.resize(std::min(all.size(), kMost));
      size_t cut = (all.size() + 1) / 2;
      for (size_t c = 0; model().config.data.file.empty() && c < all.size(); ++c) {
        if (all[c] == "?") cut = c + 1;
      }
      std::string begun, whole;
      for (size_t c = 0; c < all.size(); ++c) {
        whole += all[c];
        if (c < cut) begun += all[c];
      }
      some.push_back({Text{begun}, whole});
    }
    return some;
  }

  std::vector<Solved> solved(Set set, size_t most) const override {
    std::vector<Solved> some;
    for (std::string& text : texts_in(model().config, chosen_of(sets(), set))) {
      if (some.size() == most) break;
      some.push_back({Text{std::move(text)}, {}});
    }
    return some;
  }
  std::vector<Foreseen> foreseen(std::span<const Input> inputs,
                                 const ShareDone& done) const override {
    return lm::foreseen(model(), texts_of(inputs), done);
  }

  // Windows of the context's length, spread over the held-out text.
  std::optional<explain::BlocksAtWork> blocks(int64_t sequences) const override {
    const NoGrad off;
    const Tokens text = encode(model().tokenizer, held_out());
    const auto all = static_cast<int64_t>(text.size());
    const int64_t L = std::min(model().config.context, all);
    const int64_t B = std::clamp<int64_t>(all / std::max<int64_t>(L, 1), 1, sequences);
    std::vector<int64_t> ids;
    for (int64_t b = 0; b < B; ++b) {
      const auto begin = text.begin() + (2 * b + 1) * (all - L) / (2 * B);
      ids.insert(ids.end(), begin, begin + L);
    }
    const models::Transformer& m = model().model;
    return explain::BlocksAtWork{m.config, m.decoder, m.target(Tensor::from_ids(ids, {B, L})), {}};
  }

 private:
  LmSets read_sets() const override { return load_data(model().config); }
  std::vector<std::string> judged(const Judged& what) const {
    if (!what.file.empty()) return text::read_text(what.file);
    return chosen_of(sets(), what.set);
  }
  const std::vector<std::string>& held_out() const { return chosen_of(sets(), Set::test); }
};

// Of a model that is trained further, or from RUN/from: its tokenizer, and how much it reads.
void suit_origin(LanguageModel& m, const RunFolder* run) {
  LmConfig& c = m.config;
  m.origin = origin_of(c.further, run, {checkpoints::Purpose::writes});
  m.tokenizer = tokens::open_tokenizer(run != nullptr ? *run / kOriginFolder : m.origin->folder());
  const models::TransformerConfig& n = m.origin->plan().network;
  check_vocabulary(m.tokenizer, n.target_vocabulary);
  if (n.positions == nn::Positions::learned) c.context = std::min(c.context, n.longest);
  c.train.optimizer.groups =
      groups_of(*m.origin, c.train.optimizer.method, without_decay().front());
}

void suit_vocabulary(LanguageModel& m) {
  m.config.network.target_vocabulary = m.tokenizer.size();
  m.config.train.optimizer.groups = without_decay();
}

void begin_further(LanguageModel& m, const RunFolder* former) {
  LmConfig& c = m.config;
  LmConfig usual;
  usual.data = c.data;
  usual.further = c.further;
  usual.suit_data();
  std::vector<std::string> others;
  if (c.tokens.unit != usual.tokens.unit) others.emplace_back("--unit");
  if (c.tokens.size != usual.tokens.size) others.emplace_back("--vocab");
  expect_unset(c.network, usual.network, std::move(others));
  suit_origin(m, former);
  const models::TransformerConfig& n = m.origin->plan().network;
  check_room(models::count_weights(n), c.train, "--freeze, or a smaller model");
  m.model = models::transformer(n, begun_weights(*m.origin, c.further, c.train.seed, former));
}

std::unique_ptr<Run> begin(const LmConfig& config, const RunFolder* former) {
  LanguageModel m;
  m.config = config;
  check(m.config.further);
  LmSets sets = load_data(m.config);
  if (m.config.further.on()) {
    begin_further(m, former);
    return std::make_unique<LmRun>(std::move(m), std::move(sets));
  }
  m.tokenizer = former ? text::Tokenizer::load(*former / kVocabularyFile)
                       : text::Tokenizer::train(m.config.tokens, sets.train);
  suit_vocabulary(m);
  check_room(models::count_weights(m.config.network), m.config.train,
             "--query-depth, --blocks or --vocab");
  m.model = models::transformer(m.config.network, m.config.train.seed);
  return std::make_unique<LmRun>(std::move(m), std::move(sets));
}

}  // namespace

std::string LanguageModel::label(int64_t id) const {
  return tokenizer.own() != nullptr && id == text::kEnd ? "⏎" : tokenizer.token(id);
}
bool LanguageModel::has_questions() const {
  return config.data.file.empty() && tokenizer.own() != nullptr;
}

LanguageModel load_language_model(const RunFolder& run) {
  LanguageModel m;
  m.config = config_as<LmConfig>(run, task_lm);
  if (m.config.further.on()) {
    suit_origin(m, &run);
  } else {
    m.tokenizer = text::Tokenizer::load(run / kVocabularyFile);
    suit_vocabulary(m);
  }
  const models::TransformerConfig& n = m.origin ? m.origin->plan().network : m.config.network;
  m.model = load_model(
      run, [&](nn::Weights weights) { return models::transformer(n, std::move(weights)); });
  return m;
}

}  // namespace lm

extern const Task task_lm = {
    .name = "lm",
    .title = "Language model",
    .about = "Language model: a Transformer decoder that continues a text",
    .examples =
        "  fovea train lm                                 built-in tales, a minute\n"
        "  fovea train lm book.txt --minutes 20           your text, by characters\n"
        "  fovea train lm book.txt --unit subwords --vocab 2000\n"
        "  fovea train lm book.txt --from gpt2/ --freeze 6   begins with a model of a hub\n"
        "  mpirun -n 4 fovea train lm book.txt --context 65536 --context-ranks   a long one, "
        "shared\n"
        "  fovea predict runs/lm-book \"Once upon\" --temperature 0.7 --length 500\n"
        "  fovea predict runs/lm-tales --show \"Ada sells hats. Bela mends boats. Who is Ada?\"",
    .demo =
        "The model reads tales word by word and writes what comes next; to answer what Ada does,\n"
        "it looks back to where that was said.",
    .data_field = "file",
    .data_about = "A text; gzip too",
    .data_endings = {".txt", ".txt.gz"},
    .seconds = 40,
    .takes = Takes::text,
    .measures = lm::measures(),
    .files = {lm::kVocabularyFile},
    .config = make<lm::LmConfig, TaskConfig>,
    .evaluate_settings = make<lm::EvaluateSettings>,
    .predict_settings = make<lm::PredictSettings>,
    .begin = begin_as<lm::LmConfig, lm::begin>,
    .open = open_as<lm::LmRun, lm::load_language_model>,
};

}  // namespace fovea::tasks
