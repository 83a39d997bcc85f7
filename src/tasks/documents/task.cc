#include <algorithm>
#include <numeric>
#include <optional>

#include "fovea/error.h"
#include "tasks/documents/documents.h"
#include "tasks/explain.h"
#include "tasks/given_back.h"
#include "tasks/room.h"
#include "tasks/run_of.h"
#include "tasks/transformer_fields.h"
#include "text/messages.h"

namespace fovea::tasks {
namespace classification {
namespace {

class DocumentsRun final
    : public RunOf<Classifier, DocumentsSets, EvaluateSettings, PredictSettings> {
 public:
  using RunOf::RunOf;

  void save_files(const RunFolder& run) const override {
    if (model().origin) return model().origin->keep_in(run / kOriginFolder);
    save(model().known, run);
  }
  train::Learner learner(const Watching& watching) const override {
    return classification::learner(model(), sets().documents, watching);
  }
  GivenBack given_back() const override {
    return model().origin ? tasks::given_back(*model().origin, tensors()) : Run::given_back();
  }
  Set held_out_set() const override { return held_out_of(sets().documents); }
  Evaluation score_held_out(const ShareDone& done) const override {
    return score(held_out(), done);
  }

  Evaluation evaluate_as(const Judged& what, const EvaluateSettings&,
                         const ShareDone& done) const override {
    return score(judged(what), done);
  }
  std::optional<Inside> inside(const Input& input) const override {
    return classification::inside(model(), text_of(input));
  }
  std::optional<Tensors> logits(const Input& input) const override {
    const NoGrad off;
    const SplitDocument apart = model().known.apart(text_of(input), model().config.reading);
    const models::DocumentIds ids = model().known.ids_of(apart);
    const models::DocumentBatch batch = models::batch_of(model().model.config, {&ids});
    return Tensors{{"logits", models::classify(model().model, batch).logits.select(0, 0)}};
  }
  std::vector<Piece> pieces(const Input& input) const override {
    std::vector<Piece> all;
    const SplitDocument apart = model().known.apart(text_of(input), model().config.reading);
    const models::DocumentIds ids = model().known.ids_of(apart);
    for (size_t s = 0; s < ids.size(); ++s) {
      for (size_t w = 0; w < ids[s].size(); ++w) {
        all.push_back({apart.sentences[s][w], ids[s][w] != text::kUnknown});
      }
    }
    return all;
  }
  std::vector<Input> inputs(const Judged& what, size_t most) const override {
    std::vector<std::string> texts;
    for (text::Labelled& d : judged(what)) texts.push_back(std::move(d.text));
    return spread_of(texts, most);
  }
  std::vector<Predictions> predict_as(std::span<const Input> inputs,
                                      const PredictSettings& settings,
                                      const Predicting& p) const override {
    const std::vector<std::string> texts = texts_of(inputs);
    std::vector<Predictions> all =
        classification::predict(model(), texts, settings.n_best, p.maps, p.done);
    if (!model().origin || p.maps == Maps::none) return all;
    for (size_t i = 0; i < texts.size(); ++i) {
      const Inside in = classification::inside(model(), texts[i]);
      all[i].front().pictures = pictures_of(in, explain(in, {.by = {By::rollout}}));
    }
    return all;
  }

  // Of the shorter half, which can be read on a page; the classes in turn.
  std::vector<Example> examples(size_t n) const override {
    constexpr size_t kMost = 8;
    std::vector<const text::Labelled*> sorted;
    for (const text::Labelled& d : held_out()) sorted.push_back(&d);
    std::stable_sort(sorted.begin(), sorted.end(),
                     [](const auto* a, const auto* b) { return a->text.size() < b->text.size(); });
    sorted.resize((sorted.size() + 1) / 2);
    n = std::min({n, sorted.size(), kMost});
    const std::vector<std::string>& classes = model().known.classes;
    std::vector<Example> some;
    for (size_t i = 0; i < n; ++i) {
      const size_t from = i * sorted.size() / n, to = (i + 1) * sorted.size() / n;
      const auto begin = sorted.begin() + static_cast<int64_t>(from);
      const auto end = sorted.begin() + static_cast<int64_t>(to);
      const auto found = std::find_if(
          begin, end, [&](const auto* d) { return d->label == classes[i % classes.size()]; });
      const text::Labelled& d = **(found == end ? begin : found);
      some.push_back({Text{d.text}, d.label});
    }
    return some;
  }

  std::vector<Solved> solved(Set set, size_t most) const override {
    std::vector<Solved> some;
    for (const text::Labelled& d : chosen_of(sets().documents, set)) {
      if (some.size() == most) break;
      some.push_back({Text{d.text}, {d.label}});
    }
    return some;
  }

  std::vector<report::Section> sections() const override {
    if (!models::looks(model().model.config)) return {};
    return {most_attended_section(model(), held_out())};
  }

  std::optional<explain::BlocksAtWork> blocks(int64_t sequences) const override {
    const models::Documents& m = model().model;
    const auto* encoder = std::get_if<models::TransformerEncoder>(&m.levels[0].encoder);
    if (encoder == nullptr) return {};
    const NoGrad off;
    std::vector<models::DocumentIds> ids;
    for (const text::Labelled& d : held_out()) {
      if (static_cast<int64_t>(ids.size()) == sequences) break;
      ids.push_back(model().known.ids_of(model().known.apart(d.text, model().config.reading)));
    }
    std::vector<const models::DocumentIds*> some;
    for (const models::DocumentIds& d : ids) some.push_back(&d);
    const models::DocumentBatch batch = batch_of(model().model.config, some, models::Grouping::one);
    const models::SentenceGroup& group = batch.groups.front();
    return explain::BlocksAtWork{encoder->config, encoder->stack,
                                 m.embedding(group.ids).transpose(0, 1), group.lengths};
  }

 private:
  DocumentsSets read_sets() const override {
    return load_data(model().config.data, model().config.train.seed);
  }
  std::vector<text::Labelled> judged(const Judged& what) const {
    if (!what.file.empty()) return text::read_labelled(what.file, model().config.data.columns);
    return chosen_of(sets().documents, what.set);
  }
  const std::vector<text::Labelled>& held_out() const {
    return chosen_of(sets().documents, Set::test);
  }
  Evaluation score(std::span<const text::Labelled> documents, const ShareDone& done) const {
    return evaluation_of(grade(model(), documents, Maps::none, done), model().known.classes);
  }
};

// The queries, and the scores' own tensors.
bool of_attention(const std::string& name) {
  return name.ends_with(".query") || name.find(".score.") != std::string::npos;
}

void check_classes(const Known& known, const Documents& d) {
  for (const std::vector<text::Labelled>* set : {&d.train, &d.valid, &d.test}) {
    for (const text::Labelled& one : *set) {
      if (known.class_of(one.label) >= 0) continue;
      throw Error("documents", "the class " + text::quoted_piece(one.label) +
                                   " has no documents to train with, only such that are held out; "
                                   "equal texts stay together");
    }
  }
}

void begin_further(Classifier& c, const Documents& documents, const RunFolder* former) {
  DocumentsConfig usual;
  usual.data = c.config.data;
  usual.further = c.config.further;
  usual.suit_data();
  std::vector<std::string> others;
  if (c.config.network.model != usual.network.model) others.emplace_back("--model");
  if (c.config.reading.vocabulary != usual.reading.vocabulary) others.emplace_back("--vocab");
  expect_unset(c.config.network.transformer, usual.network.transformer, std::move(others));
  train::TrainConfig& t = c.config.train;
  const std::vector<std::string> classes = known_of(documents.train, c.config.reading).classes;
  c.origin = origin_of(c.config.further, former, {checkpoints::Purpose::tells, classes});
  c.known = known_of(*c.origin);
  check_classes(c.known, documents);
  const models::DocumentConfig n = network_of(*c.origin, c.known);
  check_room(models::count_weights(n), t, "--freeze, or a smaller model");
  c.model = models::documents(n, begun_weights(*c.origin, c.config.further, t.seed, former));
  t.optimizer.groups = groups_of(*c.origin, t.optimizer.method, without_decay().front());
}

// What is known of words and classes is found once.
std::unique_ptr<Run> begin(const DocumentsConfig& config, const RunFolder* former) {
  Classifier c;
  c.config = config;
  check(c.config.further);
  DocumentsSets sets = load_data(c.config.data, c.config.train.seed);
  if (c.config.further.on()) {
    begin_further(c, sets.documents, former);
    return std::make_unique<DocumentsRun>(std::move(c), std::move(sets));
  }
  c.known = former ? load_known(*former) : known_of(sets.documents.train, c.config.reading);
  check_classes(c.known, sets.documents);
  models::DocumentConfig& n = c.config.network;
  n.vocabulary = c.known.words->size();
  n.classes = static_cast<int64_t>(c.known.classes.size());
  check_room(models::count_weights(n), c.config.train, "--vocab, --embedding or --hidden");
  c.model = models::documents(n, c.config.train.seed);
  // What decays cannot tell words apart sharply.
  c.config.train.optimizer.groups = {{.has = of_attention,
                                      .rate = static_cast<float>(c.config.attention_rate),
                                      .weight_decay = 0.0f}};
  return std::make_unique<DocumentsRun>(std::move(c), std::move(sets));
}

}  // namespace
}  // namespace classification

extern const Task task_documents = {
    .name = "documents",
    .title = "Documents",
    .about = "Text to classes: attention over words, then over sentences",
    .examples =
        "  fovea train documents                          built-in reviews, seconds\n"
        "  fovea train documents reviews.csv              columns label and text, by name\n"
        "  fovea train documents reviews/                 a folder for each class, a file a "
        "document\n"
        "  fovea train documents mail.jsonl --label-column folder --text-column body\n"
        "  fovea train documents reviews/ --folds 5 --fold 2      the second fifth is the test\n"
        "  fovea train documents --model flat --score dot         one level, another score\n"
        "  fovea train documents reviews/ --from bert-base/ --freeze 8    a model of a hub\n"
        "  fovea predict runs/documents-reviews --show \"The film is not dull. It rained.\"\n"
        "  fovea predict runs/documents-reviews --file in.txt --weights looked.svg",
    .demo =
        "The model reads small reviews in which a sentence or two decide, among others that "
        "praise\n"
        "or damn something else; it weighs the words of each sentence, and the sentences.",
    .data_field = "data",
    .data_about =
        "Documents: TSV (label<TAB>text), CSV, JSONL, or a folder for each class; gzip too",
    .data_endings = {".tsv", ".csv", ".jsonl", ".tsv.gz", ".csv.gz", ".jsonl.gz"},
    .seconds = 2,
    .takes = Takes::text,
    .scored = true,
    .measures = classification::measures(),
    .files = {classification::kKnownFile},
    .config = make<classification::DocumentsConfig, TaskConfig>,
    .evaluate_settings = make<classification::EvaluateSettings>,
    .predict_settings = make<classification::PredictSettings>,
    .begin = begin_as<classification::DocumentsConfig, classification::begin>,
    .open = open_as<classification::DocumentsRun, classification::load_classifier>,
};

}  // namespace fovea::tasks
