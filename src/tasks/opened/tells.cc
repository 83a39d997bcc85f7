#include <fmt/format.h>

#include <algorithm>

#include "fovea/error.h"
#include "fovea/ops.h"
#include "tasks/classes.h"
#include "tasks/deal.h"
#include "tasks/explain.h"
#include "tasks/opened/opened.h"
#include "text/labelled.h"

// Encoders that tell the class of a text.
namespace fovea::tasks::opened {
namespace {

Tensor class_logits(const Opened& o, const Ids& ids) {
  const NoGrad off;
  const auto L = static_cast<int64_t>(ids.size());
  return checkpoints::said_of(o, Tensor::from_ids(ids, {1, L})).select(0, 0);
}

Ids text_ids(const Opened& o, const std::string& text) {
  Ids ids = ids_of(o, text);
  if (ids.empty()) throw Error("read", "there is no text to tell the class of");
  return ids;
}

Inside inside_class(const Opened& o, const std::string& text) {
  const NoGrad off;
  const Ids ids = text_ids(o, text);
  Inside inside{.inputs = labels_of(o.tokenizer(), ids), .outputs = o.about.classes};
  inside.lines = {inside.inputs.size()};
  look_inside_encoder(o, ids, inside);
  const models::Transformer& m = o.model;
  say_of_first_rows(
      o, 1,
      [&m](const Tensor& rows, const models::TransformerPass& pass) {
        return models::encode(m.config, m.encoder, rows, {}, pass);
      },
      inside);
  // The class is said of the first row.
  inside.rollout = [all = inside.rollout] { return all().slice(0, 0, 1); };
  say_class(inside);
  return inside;
}

class TellingRun final : public OpenedRun<NoSettings, TopSettings> {
 public:
  using OpenedRun::OpenedRun;

  std::optional<Inside> inside(const Input& input) const override {
    return inside_class(model(), text_of(input));
  }
  std::optional<Tensors> logits(const Input& input) const override {
    const Ids ids = text_ids(model(), text_of(input));
    return Tensors{{"ids", Tensor::from_ids(ids, {static_cast<int64_t>(ids.size())})},
                   {"logits", class_logits(model(), ids)}};
  }
  std::vector<Example> examples(size_t n) const override {
    return examples_of(sentences(model()), n);
  }
  std::vector<Input> inputs(const Judged& what, size_t most) const override {
    std::vector<std::string> texts = sentences(model());
    if (!what.file.empty()) {
      texts.clear();
      for (const text::Labelled& l : text::read_labelled(what.file)) texts.push_back(l.text);
    }
    return spread_of(texts, most);
  }
  std::optional<explain::BlocksAtWork> blocks(int64_t sequences) const override {
    return blocks_of(model(), model().model.encoder, model().model.source, sequences);
  }

 protected:
  std::vector<Predictions> predict_as(std::span<const Input> inputs, const TopSettings& how,
                                      const Predicting& watch) const override {
    return predictions_of(*this, inputs, By::rollout, watch, [&](const Input& input) {
      const Ids ids = text_ids(model(), text_of(input));
      return best_classes(model().about.classes, class_logits(model(), ids), how.n_best);
    });
  }
  Evaluation evaluate_as(const Judged& what, const NoSettings&,
                         const ShareDone& done) const override {
    const std::string& file =
        file_to_judge(what, "texts with their classes, label<TAB>text a line");
    const std::vector<text::Labelled> texts = text::read_labelled(file);
    const std::vector<std::string>& classes = model().about.classes;
    std::vector<std::string> labels;
    for (const text::Labelled& l : texts) labels.push_back(l.label);
    const std::vector<int64_t> right = places_of_classes(labels, classes, "eval", file);
    std::vector<std::vector<float>> logits;
    const auto work = [&](size_t i) {
      return class_logits(model(), text_ids(model(), texts[i].text)).to_vector();
    };
    deal(done, texts.size(), work,
         [&](size_t, std::vector<float> found) { logits.push_back(std::move(found)); });
    return accuracy_of(classes, right, logits, "texts");
  }
};

std::unique_ptr<const Run> open_telling(const RunFolder& folder) {
  return std::make_unique<const TellingRun>(load_opened(folder));
}

}  // namespace

extern const Task task_tells = {
    .name = "classes of texts",
    .title = "Classes of texts",
    .about = "An encoder that somebody else trained, which tells of which class a text is",
    .takes = Takes::text,
    .scored = true,
    .measures = {{"accuracy", "accuracy, %", Better::higher, 2},
                 {"loss", "loss", Better::lower, 4}},
    .config = make<OpenedConfig, TaskConfig>,
    .evaluate_settings = make<NoSettings>,
    .predict_settings = make<TopSettings>,
    .open = open_telling,
};

}  // namespace fovea::tasks::opened
