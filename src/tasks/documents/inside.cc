#include "tasks/inside.h"

#include "fovea/error.h"
#include "fovea/ops.h"
#include "tasks/documents/documents.h"
#include "tasks/transformer_inside.h"

namespace fovea::tasks::classification {
namespace {

using models::Intervention;

// A document beside copies of itself, and where its words, counted from its first, lie in them.
class Copies {
 public:
  Copies(const Classifier& c, models::DocumentIds ids) : c_(c), ids_(std::move(ids)) {
    for (const models::SentenceIds& s : ids_) words_ += static_cast<int64_t>(s.size());
  }

  models::DocumentBatch batch(int64_t copies) const {
    const std::vector<const models::DocumentIds*> all(static_cast<size_t>(copies), &ids_);
    return models::batch_of(c_.model.config, all, models::Grouping::one);
  }

  // Rows [R,S,E] of words as the one group of such a batch has them: [W,n,E].
  Tensor grouped(const Tensor& rows, const models::DocumentBatch& batch) const {
    const int64_t R = rows.size(0), E = rows.size(2);
    const models::SentenceGroup& group = batch.groups.front();
    const int64_t W = group.ids.size(0), n = group.ids.size(1);
    const std::vector<int64_t> lengths = group.lengths.to_ids();
    std::vector<int64_t> places(static_cast<size_t>(W * n), 0);
    int64_t first = 0;
    for (int64_t s = 0; s < n; ++s) {
      const int64_t length = lengths[static_cast<size_t>(s)];
      for (int64_t w = 0; w < length; ++w) places[static_cast<size_t>(w * n + s)] = first + w;
      first += length;
    }
    return index_select(rows.reshape({R * words_, E}), 0, Tensor::from_ids(places, {W * n}))
        .reshape({W, n, E});
  }

  // What a word weighs in the whole: its sentence's weight times its own among the sentence's.
  // words [n,1,W], sentences [1,1,S] or undefined → [1,words].
  Tensor weights_in_text(const Tensor& words, const Tensor& sentences) const {
    if (!sentences) return words.reshape({1, words.size(2)});
    std::vector<Tensor> parts;
    for (size_t s = 0; s < ids_.size(); ++s) {
      const auto at = static_cast<int64_t>(s);
      const Tensor own =
          words.select(0, at).slice(1, 0, static_cast<int64_t>(ids_[s].size()));  // [1,·]
      parts.push_back(own * sentences.select(0, 0).slice(1, at, at + 1));
    }
    return concatenate(parts, 1);
  }

  Tensor word_ids() const {
    models::SentenceIds all;
    for (const models::SentenceIds& s : ids_) all.insert(all.end(), s.begin(), s.end());
    return Tensor::from_ids(all, {words_});
  }
  const Classifier& classifier() const { return c_; }

 private:
  const Classifier& c_;
  models::DocumentIds ids_;
  int64_t words_ = 0;
};

Tensor log_odds(const Copies& copies, const Tensor& rows, const Intervention& how) {
  const models::DocumentBatch batch = copies.batch(rows.size(0));
  models::DocumentPass pass{.words = how, .sentences = how};
  pass.embedded = {copies.grouped(rows, batch)};
  return log_odds_of_classes(models::classify(copies.classifier().model, batch, pass).logits);
}

// What lies before the first look is read once.
explain::LookAt looks_at(const Copies& copies) {
  const models::DocumentBatch batch = copies.batch(1);
  const NoGrad off;
  const std::vector<Tensor> read = models::read_words(copies.classifier().model, batch);
  return [copies, batch, read](const Intervention& how) {
    Tensor words, sentences;
    const auto keep = [&](Tensor& to) {
      return [&](const models::Weighed& seen) {
        to = how ? how(seen) : seen.weights;
        return to;
      };
    };
    models::DocumentPass pass{.words = keep(words), .sentences = keep(sentences)};
    pass.read = read;
    const Tensor logits = models::classify(copies.classifier().model, batch, pass).logits;
    return explain::Seen{log_softmax(logits), copies.weights_in_text(words, sentences)};
  };
}

// Its blocks go as they go: heads alone are open.
RunPass passing(const Copies& copies) {
  return [copies](const models::TransformerPass& how) {
    models::DocumentPass pass;
    pass.hook = how.hook;
    models::classify(copies.classifier().model, copies.batch(1), pass);
  };
}

void open_heads(const Copies& copies, Inside& inside) {
  inside.states = [copies](const Tensor& rows, const models::TransformerPass& how) {
    const models::DocumentBatch batch = copies.batch(rows.size(0));
    models::DocumentPass pass;
    pass.hook = how.hook;
    pass.embedded = {copies.grouped(rows, batch)};
    return models::classify(copies.classifier().model, batch, pass).logits.unsqueeze(1);
  };
  inside.said = [](const Tensor& logits) { return logits; };
  inside.opens = Inside::Opens::heads;
  inside.named = [copies](int64_t c) {
    return copies.classifier().known.classes.at(static_cast<size_t>(c));
  };
}

// The class is said of the first row.
void look_inside_blocks(const Copies& copies, const models::TransformerEncoder& encoder,
                        Inside& inside) {
  add_stack_attention(encoder.stack, passing(copies), inside);
  inside.rollout = [all = inside.rollout] { return all().slice(0, 0, 1); };
  open_heads(copies, inside);
}

void look_inside(const Copies& copies, Inside& inside) {
  const models::Documents& m = copies.classifier().model;
  inside.look = looks_at(copies);
  inside.held = [copies](const Tensor& rows) {
    return log_odds(copies, rows, models::interventions::held());
  };
  const auto* encoder = std::get_if<models::TransformerEncoder>(&m.levels[0].encoder);
  if (encoder != nullptr && encoder->config.linear) encoder = nullptr;
  inside.attention = [copies, encoder, look = inside.look, inputs = inside.inputs] {
    const NoGrad off;
    std::vector<LayerSeen> layers = {
        layer_of_weights("look", look({}).weights.unsqueeze(0), {"the text"}, inputs)};
    if (encoder == nullptr) return layers;
    for (const nn::Block& b : encoder->stack.blocks) {
      layers.push_back({b.self.name, inputs, inputs, b.self.config.heads,
                        [copies, name = b.self.name](const Select& asked) {
                          return weights_in(passing(copies), name, asked);
                        }});
    }
    return layers;
  };
  if (encoder == nullptr) return;
  open_heads(copies, inside);
  inside.rollout = [copies, encoder, look = inside.look] {
    const NoGrad off;
    HeadsSeen seen;
    passing(copies)({.hook = seen.hook()});
    std::vector<Tensor> layers;
    for (const nn::Block& b : encoder->stack.blocks) layers.push_back(seen.named(b.self.name));
    return matmul(look({}).weights, explain::rollout(layers));
  };
}

}  // namespace

Inside inside(const Classifier& c, const std::string& text) {
  const NoGrad off;
  const SplitDocument apart = c.known.apart(text, c.config.reading);
  const Copies copies(c, c.known.ids_of(apart));
  Inside inside{.outputs = c.known.classes};
  for (const std::vector<std::string>& sentence : apart.sentences) {
    inside.lines.push_back(sentence.size());
    inside.inputs.insert(inside.inputs.end(), sentence.begin(), sentence.end());
  }
  inside.x = c.model.embedding(copies.word_ids()).detach();
  inside.blank = mean_vector(c.model.embedding.table);
  inside.log_odds = [copies](const Tensor& rows) { return log_odds(copies, rows, {}); };
  say_class(inside);
  if (models::looks(c.model.config)) {
    look_inside(copies, inside);
  } else if (const auto* e = std::get_if<models::TransformerEncoder>(&c.model.levels[0].encoder)) {
    look_inside_blocks(copies, *e, inside);
  }
  return inside;
}

}  // namespace fovea::tasks::classification
