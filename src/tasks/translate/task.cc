#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <optional>

#include "fovea/error.h"
#include "tasks/given_back.h"
#include "tasks/room.h"
#include "tasks/run_of.h"
#include "tasks/transformer_fields.h"
#include "tasks/translate/data.h"
#include "tasks/translate/score.h"
#include "tasks/translate/translate.h"

namespace fovea::tasks {
namespace translation {
namespace {

class TranslateRun final
    : public RunOf<Translator, TranslateSets, EvaluateSettings, PredictSettings> {
 public:
  using RunOf::RunOf;

  void save_files(const RunFolder& run) const override {
    if (model().origin) return model().origin->keep_in(run / kOriginFolder);
    model().source.own()->save(run / kSourceFile);
    model().target.own()->save(run / kTargetFile);
  }
  train::Learner learner(const Watching& watching) const override {
    for (const std::string& line : sets().warnings) {
      if (watching.say) watching.say(line);
    }
    return translation::learner(model(), pairs(), watching);
  }
  GivenBack given_back() const override {
    return model().origin ? tasks::given_back(*model().origin, tensors()) : Run::given_back();
  }
  Set held_out_set() const override { return held_out_of(pairs()); }
  Evaluation score_held_out(const ShareDone& done) const override {
    return translation::evaluate(model(), held_out(), {.beam = model().config.beam}, done);
  }

  Evaluation evaluate_as(const Judged& what, const EvaluateSettings& settings,
                         const ShareDone& done) const override {
    return translation::evaluate(model(), judged(what), settings.decode, done);
  }
  std::vector<Predictions> predict_as(std::span<const Input> inputs,
                                      const PredictSettings& settings,
                                      const Predicting& p) const override {
    models::DecodeConfig decode = settings.decode;
    decode.prefix = encode_prefix(model().target, settings.prefix);
    decode.beam = std::max(decode.beam, decode.n_best);
    decode.weights = p.maps == Maps::keep;
    return translate(model(), texts_of(inputs), decode, p.done);
  }

  // Spread over the held-out sources, short to long.
  std::vector<Example> examples(size_t n) const override {
    const References r = group_by_source(held_out());
    std::vector<size_t> order(r.sources.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return r.sources[a].size() < r.sources[b].size(); });
    n = std::min(n, order.size());
    std::vector<Example> some;
    for (size_t i = 0; i < n; ++i) {
      const size_t which = order[(2 * i + 1) * order.size() / (2 * n)];
      some.push_back({Text{r.sources[which]}, r.targets[which].front()});
    }
    return some;
  }

  std::vector<Solved> solved(Set set, size_t most) const override {
    const References r = group_by_source(chosen_of(pairs(), set));
    std::vector<Solved> some;
    for (size_t i = 0; i < std::min(most, r.sources.size()); ++i) {
      some.push_back({Text{r.sources[i]}, r.targets[i]});
    }
    return some;
  }

  std::optional<Inside> inside(const Input& input) const override {
    return translation::inside(model(), text_of(input));
  }
  std::vector<Piece> pieces(const Input& input) const override {
    return read_pieces(model().source, text_of(input));
  }
  std::vector<Input> inputs(const Judged& what, size_t most) const override {
    return spread_of(group_by_source(judged(what)).sources, most);
  }

  std::optional<explain::BlocksAtWork> blocks(int64_t sequences) const override {
    const auto* m = std::get_if<models::Transformer>(&model().model);
    if (m == nullptr) return {};
    const NoGrad off;
    std::vector<std::vector<int64_t>> sources;
    for (const Example& e : examples(static_cast<size_t>(sequences))) {
      sources.push_back(encode_source(model().source, text_of(e.input)));
    }
    std::vector<const std::vector<int64_t>*> rows;
    for (const std::vector<int64_t>& row : sources) rows.push_back(&row);
    const Sources padded = pad_sources(rows);
    const Tensor embedded = m->source(padded.ids.transpose(0, 1).contiguous());
    return explain::BlocksAtWork{m->config, m->encoder, embedded, padded.lengths};
  }

 private:
  TranslateSets read_sets() const override {
    return load_data(model().config.data, model().config.train.seed);
  }
  const text::Split& pairs() const { return sets().pairs; }
  const std::vector<text::Pair>& held_out() const { return chosen_of(pairs(), Set::test); }
  std::vector<text::Pair> judged(const Judged& what) const {
    if (what.file.empty()) return chosen_of(pairs(), what.set);
    std::vector<text::Pair> read = text::read_tsv(what.file);
    if (model().config.data.swap) {
      for (text::Pair& p : read) std::swap(p.source, p.target);
    }
    return read;
  }
};

text::Tokenizer make_tokenizer(const char* option, const text::TokenizerConfig& c,
                               const std::vector<text::Pair>& pairs,
                               std::string text::Pair::*side) {
  // Beside the tokens that every vocabulary has: the blank, and a piece of text.
  if (c.unit == text::Unit::subwords && c.size < text::kFirst + 2) {
    throw Error("train", fmt::format("--{} must be at least {} for subwords, found {}", option,
                                     text::kFirst + 2, c.size));
  }
  std::vector<std::string> lines;
  lines.reserve(pairs.size());
  for (const text::Pair& p : pairs) lines.push_back(p.*side);
  return text::Tokenizer::train(c, lines);
}

void begin_further(Translator& t, const RunFolder* former) {
  TranslateConfig& c = t.config;
  TranslateConfig usual = defaults_for(c.data);
  usual.further = c.further;
  usual.suit_data();
  std::vector<std::string> others;
  if (c.kind != usual.kind) others.emplace_back("--model");
  if (c.source.size != usual.source.size) others.emplace_back("--src-vocab");
  if (c.target.size != usual.target.size) others.emplace_back("--tgt-vocab");
  expect_unset(c.transformer, usual.transformer, std::move(others));
  suit_origin(t, former);
  const models::TransformerConfig& n = t.origin->plan().network;
  if (n.positions == nn::Positions::learned)
    c.data.longest = std::min(c.data.longest, n.longest - 1);
  check_room(models::count_weights(n), c.train, "--freeze, or a smaller model");
  t.model = models::transformer(n, begun_weights(*t.origin, c.further, c.train.seed, former));
  c.train.optimizer.groups =
      groups_of(*t.origin, c.train.optimizer.method, without_decay().front());
}

// A run's vocabularies are made once.
std::unique_ptr<Run> begin(const TranslateConfig& config, const RunFolder* former) {
  Translator t;
  t.config = config;
  TranslateConfig& c = t.config;
  check(c.further);
  TranslateSets sets = load_data(c.data, c.train.seed);
  if (c.watch != "loss" && c.watch != "perplexity" && c.valid_sentences == 0) {
    throw Error("train", "watching '" + c.watch + "' needs --valid-sentences above 0");
  }
  if (c.further.on()) {
    begin_further(t, former);
    return std::make_unique<TranslateRun>(std::move(t), std::move(sets));
  }
  t.source = former ? text::Tokenizer::load(*former / kSourceFile)
                    : make_tokenizer("src-vocab", c.source, sets.pairs.train, &text::Pair::source);
  t.target = former ? text::Tokenizer::load(*former / kTargetFile)
                    : make_tokenizer("tgt-vocab", c.target, sets.pairs.train, &text::Pair::target);
  c.network.source_vocabulary = t.source.size();
  c.network.target_vocabulary = t.target.size();
  check_room(count_weights(c), c.train,
             c.kind == Kind::recurrent ? "--hidden, --layers or --embedding"
                                       : "--query-depth, --blocks or the vocabularies");
  t.model = make_network(c, c.train.seed);
  return std::make_unique<TranslateRun>(std::move(t), std::move(sets));
}

}  // namespace
}  // namespace translation

extern const Task task_translate = {
    .name = "translate",
    .title = "Translation",
    .about = "Text to text: a recurrent network with or without attention, or a Transformer",
    .examples =
        "  fovea train translate                          built-in dates, 1 minute\n"
        "  fovea train translate pairs.tsv                your pairs, source<TAB>target a line\n"
        "  fovea train translate --src a.en.gz --tgt a.fr.gz --minutes 30\n"
        "  fovea train translate pairs.tsv --model transformer --blocks 4 --query-depth 256\n"
        "  fovea train translate pairs.tsv --from opus-mt-en-fr/    begins with a model of a hub\n"
        "  fovea train translate --out runs/x --resume    go on after a stop\n"
        "  fovea predict runs/translate-dates --show \"3rd of May 2021\"\n"
        "  fovea predict runs/translate-dates --show --prefix 1999 \"3rd of May 2021\"\n"
        "  fovea predict runs/translate-dates --file in.txt --beam 5 > out.txt",
    .demo =
        "The model reads a date as people write it, in nine languages, letter by letter, and\n"
        "writes it as yyyy-mm-dd; at each character it writes, it looks.",
    .data_field = "tsv",
    .data_about = "Pairs, source<TAB>target a line; gzip too",
    .data_endings = {".tsv", ".txt", ".tsv.gz", ".txt.gz"},
    .seconds = 60,
    .takes = Takes::text,
    .measures = translation::measures(),
    .files = {translation::kSourceFile, translation::kTargetFile},
    .config = make<translation::TranslateConfig, TaskConfig>,
    .evaluate_settings = make<translation::EvaluateSettings>,
    .predict_settings = make<translation::PredictSettings>,
    .begin = begin_as<translation::TranslateConfig, translation::begin>,
    .open = open_as<translation::TranslateRun, translation::load_translator>,
};

}  // namespace fovea::tasks
