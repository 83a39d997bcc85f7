#include "fovea/error.h"
#include "tasks/explain.h"
#include "tasks/opened/opened.h"

// Encoders by themselves: where they look can be asked, what they say of it cannot.
namespace fovea::tasks::opened {
namespace {

constexpr const char* kNothing = "this model is an encoder by itself, and has no output";

[[noreturn]] void refuse_to_say(const char* verb) {
  throw Error(verb, std::string(kNothing) +
                        ": `fovea explain --by attention,rollout` shows where it looks");
}

// Every row is that of a token: what it has of which.
Inside inside_rows(const Opened& o, const std::string& text) {
  const NoGrad off;
  const Ids ids = ids_of(o, text);
  if (ids.empty()) throw Error("read", "there is no text to read");
  Inside inside{.title = o.tokenizer().decode(ids), .inputs = labels_of(o.tokenizer(), ids)};
  inside.outputs = inside.inputs;
  look_inside_encoder(o, ids, inside);
  const models::Transformer& m = o.model;
  inside.states = [&m](const Tensor& rows, const models::TransformerPass& pass) {
    return models::encode(m.config, m.encoder, rows, {}, pass);
  };
  return inside;
}

// Whoever asks where it looks is shown that.
std::vector<Predictions> looked_at(const Run& run, std::span<const Input> inputs,
                                   const Predicting& watch) {
  if (watch.maps != Maps::keep) refuse_to_say("predict");
  return predictions_of(run, inputs, By::rollout, watch,
                        [](const Input&) { return Predictions{{.text = kNothing}}; });
}

class ReadingRun final : public OpenedRun<NoSettings, NoSettings> {
 public:
  using OpenedRun::OpenedRun;

  std::optional<Inside> inside(const Input& input) const override {
    return inside_rows(model(), text_of(input));
  }
  std::vector<Example> examples(size_t n) const override {
    return examples_of(sentences(model()), n);
  }
  std::vector<Input> inputs(const Judged&, size_t most) const override {
    return spread_of(sentences(model()), most);
  }
  std::optional<explain::BlocksAtWork> blocks(int64_t sequences) const override {
    return blocks_of(model(), model().model.encoder, model().model.source, sequences);
  }

 protected:
  std::vector<Predictions> predict_as(std::span<const Input> inputs, const NoSettings&,
                                      const Predicting& watch) const override {
    return looked_at(*this, inputs, watch);
  }
  Evaluation evaluate_as(const Judged&, const NoSettings&, const ShareDone&) const override {
    refuse_to_say("eval");
  }
};

class ViewingRun final : public OpenedRun<NoSettings, NoSettings> {
 public:
  using OpenedRun::OpenedRun;

  std::optional<Inside> inside(const Input& input) const override {
    return look_inside_picture(model(), picture_of(input));
  }
  std::vector<Example> examples(size_t) const override { return {}; }

 protected:
  std::vector<Predictions> predict_as(std::span<const Input> inputs, const NoSettings&,
                                      const Predicting& watch) const override {
    return looked_at(*this, inputs, watch);
  }
  Evaluation evaluate_as(const Judged&, const NoSettings&, const ShareDone&) const override {
    refuse_to_say("eval");
  }
};

template <class OfRun>
std::unique_ptr<const Run> open_by_itself(const RunFolder& folder) {
  return std::make_unique<const OfRun>(load_opened(folder));
}

}  // namespace

extern const Task task_reads = {
    .name = "texts read",
    .title = "Texts read",
    .about = "An encoder that somebody else trained, by itself: where it looks in a text",
    .takes = Takes::text,
    .config = make<OpenedConfig, TaskConfig>,
    .evaluate_settings = make<NoSettings>,
    .predict_settings = make<NoSettings>,
    .open = open_by_itself<ReadingRun>,
};

extern const Task task_views = {
    .name = "pictures seen",
    .title = "Pictures seen",
    .about = "An encoder that somebody else trained, by itself: where it looks on a picture",
    .takes = Takes::pictures,
    .config = make<OpenedConfig, TaskConfig>,
    .evaluate_settings = make<NoSettings>,
    .predict_settings = make<NoSettings>,
    .open = open_by_itself<ViewingRun>,
};

}  // namespace fovea::tasks::opened
