#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "fovea/error.h"
#include "fovea/ops.h"
#include "tasks/deal.h"
#include "tasks/explain.h"
#include "tasks/opened/opened.h"
#include "tasks/transformer_inside.h"
#include "text/lines.h"

// Encoders with decoders: text into text.
namespace fovea::tasks::opened {
namespace {

constexpr const char* kEndMark = "⏎";

struct BeamSettings final : Settings {
  int64_t beam = 0, n_best = 1, length = 0;
  void visit(Fields& f) override {
    f.group("Translating");
    f.integer("beam", beam, "hypotheses side by side; 0: as the model says", {0, 1024});
    f.integer("n-best", n_best, "how many of them", {1, 1024});
    f.integer("length", length, "tokens to write, at most; 0: as the model says", {0, 1e6});
  }
};

models::DecodeConfig decoding_of(const Opened& o, const BeamSettings& s) {
  const checkpoints::Generation& g = o.generation;
  if (!g.unknown.empty() || g.repetition_penalty != 1.0) {
    throw Error("predict",
                fmt::format("generation_config.json asks for {}, which is not done "
                            "here: take it out of the file",
                            g.unknown.empty() ? "repetition_penalty"
                                              : fmt::format("{}", fmt::join(g.unknown, ", "))));
  }
  if (!g.first || g.ends.empty()) {
    throw Error("predict", "config.json names no decoder_start_token_id or no eos_token_id");
  }
  models::DecodeConfig d;
  d.beam = s.beam > 0 ? s.beam : g.beams;
  d.n_best = s.n_best;
  d.length_power = static_cast<float>(g.length_penalty);
  d.enough = g.early_stopping ? models::Enough::endings : models::Enough::better;
  d.special = {*g.first, g.ends, g.never};
  d.special.never.push_back(*g.first);
  d.longest = s.length > 0 ? s.length : g.most_new > 0 ? g.most_new : 0;
  const models::TransformerConfig& n = o.model.config;
  if (n.positions == nn::Positions::learned) d.longest = std::min(d.longest, n.longest);
  return d;
}

Ids source_of(const Opened& o, const std::string& line) {
  Ids ids = ids_of(o, line);
  if (ids.empty()) throw Error("read", "there is no text to translate");
  return ids;
}

std::vector<models::Decoded> translated(const Opened& o, const Ids& source,
                                        const models::DecodeConfig& d) {
  const auto S = static_cast<int64_t>(source.size());
  return models::decode(o.model, Tensor::from_ids(source, {S, 1}), Tensor::from_ids(Ids{S}, {1}), d)
      .front();
}

ForcedTranslation written_for(const Opened& o, const Ids& source, const models::DecodeConfig& d) {
  const models::Decoded best = translated(o, source, d).front();
  ForcedTranslation w{.source = source, .in = {d.special.begin}, .out = best.tokens};
  if (best.ended || w.out.empty()) w.out.push_back(d.special.ends.front());
  w.in.insert(w.in.end(), w.out.begin(), w.out.end() - 1);
  return w;
}

Inside inside_translation(const Opened& o, const std::string& line) {
  const NoGrad off;
  BeamSettings greedy;
  greedy.beam = 1;
  const models::DecodeConfig d = decoding_of(o, greedy);
  const ForcedTranslation w = written_for(o, source_of(o, line), d);
  Inside inside{.inputs = labels_of(o.tokenizer(), w.source),
                .outputs = labels_of(o.writes(), w.out)};
  if (w.out.back() == d.special.ends.front()) inside.outputs.back() = kEndMark;
  inside.title = line + " → " + o.writes().decode(w.out);
  inside.named = [&o](int64_t id) { return labels_of(o.writes(), {id}).front(); };
  look_inside_translator(o.model, w, inside);
  return inside;
}

class TranslatingRun final : public OpenedRun<BeamSettings, BeamSettings> {
 public:
  using OpenedRun::OpenedRun;

  std::optional<Inside> inside(const Input& input) const override {
    return inside_translation(model(), text_of(input));
  }
  // Of what it writes by itself, token by token.
  std::optional<Tensors> logits(const Input& input) const override {
    const NoGrad off;
    const ForcedTranslation w =
        written_for(model(), source_of(model(), text_of(input)), decoding_of(model(), {}));
    const models::Transformer& m = model().model;
    const auto row = [](const Ids& ids) {
      return Tensor::from_ids(ids, {1, static_cast<int64_t>(ids.size())});
    };
    const Tensor states =
        models::decode_all(m, row(w.in), models::project(m, models::encode(m, row(w.source))));
    return Tensors{{"source", row(w.source).select(0, 0)},
                   {"ids", row(w.in).select(0, 0)},
                   {"logits", models::logits(m, states).select(0, 0)}};
  }
  std::vector<Example> examples(size_t n) const override {
    return examples_of(sentences(model()), n);
  }
  std::vector<Input> inputs(const Judged& what, size_t most) const override {
    std::vector<std::string> lines =
        what.file.empty() ? sentences(model()) : std::vector<std::string>();
    if (!what.file.empty()) {
      for (const text::Pair& p : text::read_tsv(what.file)) lines.push_back(p.source);
    }
    return spread_of(lines, most);
  }
  std::optional<explain::BlocksAtWork> blocks(int64_t sequences) const override {
    return blocks_of(model(), model().model.encoder, model().model.source, sequences);
  }

 protected:
  std::vector<Predictions> predict_as(std::span<const Input> inputs, const BeamSettings& how,
                                      const Predicting& watch) const override {
    const models::DecodeConfig d = decoding_of(model(), how);
    return predictions_of(*this, inputs, By::attention, watch, [&](const Input& input) {
      Predictions best;
      for (const models::Decoded& one :
           translated(model(), source_of(model(), text_of(input)), d)) {
        best.push_back(
            {.text = model().writes().decode(one.tokens), .score = one.score, .ended = one.ended});
      }
      return best;
    });
  }
  Evaluation evaluate_as(const Judged& what, const BeamSettings& how,
                         const ShareDone& done) const override {
    const auto pairs = text::read_tsv(
        file_to_judge(what, "sentences with translations, source<TAB>target a line"));
    std::vector<Input> inputs;
    text::References references;
    for (const text::Pair& p : pairs) {
      inputs.emplace_back(Text{p.source});
      references.push_back({p.target});
    }
    std::vector<std::string> written;
    const auto work = [&](size_t i) {
      return predict_as({&inputs[i], 1}, how, {}).front().front().text;
    };
    deal(done, inputs.size(), work,
         [&](size_t, std::string text) { written.push_back(std::move(text)); });
    Evaluation e{.count = static_cast<int64_t>(pairs.size()), .unit = "sentences"};
    e.scores = {{"bleu", text::bleu(written, references)},
                {"chrf", text::chrf(written, references)},
                {"exact", text::exact_match(written, references)}};
    return e;
  }
};

std::unique_ptr<const Run> open_translating(const RunFolder& folder) {
  return std::make_unique<const TranslatingRun>(load_opened(folder));
}

}  // namespace

extern const Task task_translates = {
    .name = "text into text",
    .title = "Text into text",
    .about = "An encoder with a decoder that somebody else trained",
    .takes = Takes::text,
    .measures = {{"bleu", "BLEU", Better::higher, 2}, {"chrf", "chrF", Better::higher, 2}},
    .config = make<OpenedConfig, TaskConfig>,
    .evaluate_settings = make<BeamSettings>,
    .predict_settings = make<BeamSettings>,
    .open = open_translating,
};

}  // namespace fovea::tasks::opened
