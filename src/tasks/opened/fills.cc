#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "fovea/error.h"
#include "fovea/ops.h"
#include "tasks/explain.h"
#include "tasks/opened/opened.h"

// Encoders that say what a masked token was.
namespace fovea::tasks::opened {
namespace {

struct Masked {
  Ids ids;
  std::vector<int64_t> places;  // of the masks
};

int64_t mask_of(const Opened& o) {
  const std::optional<int64_t> mask = o.tokenizer().special_ids().mask;
  if (!mask) throw Error("read", "the tokenizer has no token that masks others");
  return *mask;
}

Masked masked_in(const Opened& o, const std::string& text) {
  const int64_t mask = mask_of(o);
  Masked m{.ids = ids_of(o, text)};
  for (size_t i = 0; i < m.ids.size(); ++i) {
    if (m.ids[i] == mask) m.places.push_back(static_cast<int64_t>(i));
  }
  if (m.places.empty()) {
    throw Error("read",
                fmt::format("there is nothing to fill in: write {} where a token is missing",
                            o.tokenizer().piece(mask)));
  }
  return m;
}

// Rows [R,L,W] → those of the places, [R,T,W], and what they say, [R,T,V].
Tensor rows_at(const Tensor& rows, const std::vector<int64_t>& places) {
  return index_select(rows, 1, Tensor::from_ids(places, {static_cast<int64_t>(places.size())}));
}
Tensor logits_at(const Opened& o, const Tensor& rows, const std::vector<int64_t>& places) {
  return checkpoints::said(*o.head, o.about.purpose, rows_at(rows, places));
}

Tensor read_rows(const Opened& o, const Ids& ids) {
  const auto L = static_cast<int64_t>(ids.size());
  return models::encode(o.model, Tensor::from_ids(ids, {1, L}));
}

Inside inside_masks(const Opened& o, const std::string& text) {
  const NoGrad off;
  const Masked masked = masked_in(o, text);
  const tokens::Tokenizer& t = o.tokenizer();
  const Tensor found = logits_at(o, read_rows(o, masked.ids), masked.places);  // [1,T,V]
  const Ids said = argmax(found.select(0, 0), 1).to_ids();
  Inside inside{.inputs = labels_of(t, masked.ids), .outputs = labels_of(t, said)};
  look_inside_encoder(o, masked.ids, inside);
  Ids filled = masked.ids;
  for (size_t i = 0; i < said.size(); ++i) filled[static_cast<size_t>(masked.places[i])] = said[i];
  inside.title = t.decode(filled);
  inside.choices = found.size(2) * static_cast<int64_t>(said.size());
  const models::Transformer& m = o.model;
  inside.targets = said;
  inside.states = [&m, places = masked.places](const Tensor& rows,
                                               const models::TransformerPass& pass) {
    return rows_at(models::encode(m.config, m.encoder, rows, {}, pass), places);
  };
  inside.said = [&o](const Tensor& states) {
    return checkpoints::said(*o.head, o.about.purpose, states);
  };
  inside.log_odds = [said, states = inside.states, logits = inside.said](const Tensor& rows) {
    return log_odds_of(logits(states(rows, {})).transpose(0, 1), said);
  };
  inside.named = [&t](int64_t id) { return labels_of(t, {id}).front(); };
  inside.rollout = [all = inside.rollout, places = masked.places] {
    return index_select(all(), 0, Tensor::from_ids(places, {static_cast<int64_t>(places.size())}));
  };
  return inside;
}

// What stands in the masks' places, likeliest first: every mask's own, side by side.
Predictions filled_in(const Opened& o, const std::string& text, int64_t n_best) {
  const NoGrad off;
  const Masked masked = masked_in(o, text);
  const Tensor log_p =
      log_softmax(logits_at(o, read_rows(o, masked.ids), masked.places).select(0, 0));  // [T,V]
  const auto V = static_cast<size_t>(log_p.size(1));
  const std::vector<float> all = log_p.to_vector();
  const size_t n = std::min(static_cast<size_t>(n_best), V);
  Predictions best(n);
  std::vector<Ids> filled(n, masked.ids);
  std::vector<double> p(n, 0);
  for (size_t t = 0; t < masked.places.size(); ++t) {
    const float* own = all.data() + t * V;
    std::vector<int64_t> order(V);
    std::iota(order.begin(), order.end(), int64_t{0});
    std::partial_sort(
        order.begin(), order.begin() + static_cast<ptrdiff_t>(n), order.end(),
        [&](int64_t a, int64_t b) { return own[a] != own[b] ? own[a] > own[b] : a < b; });
    for (size_t k = 0; k < n; ++k) {
      filled[k][static_cast<size_t>(masked.places[t])] = order[k];
      p[k] += static_cast<double>(own[order[k]]);
    }
  }
  for (size_t k = 0; k < n; ++k) {
    best[k] = {.text = o.tokenizer().decode(filled[k]), .score = std::exp(p[k])};
  }
  return best;
}

struct FillSettings final : Settings {
  int64_t n_best = 5;
  void visit(Fields& f) override {
    f.group("Tokens");
    f.integer("n-best", n_best, "at most this many answers, likeliest first", {1, 1000});
  }
};

class FillingRun final : public OpenedRun<NoSettings, FillSettings> {
 public:
  using OpenedRun::OpenedRun;

  std::optional<Inside> inside(const Input& input) const override {
    return inside_masks(model(), text_of(input));
  }
  std::optional<Tensors> logits(const Input& input) const override {
    const NoGrad off;
    const Ids ids = ids_of(model(), text_of(input));
    const Tensor said =
        checkpoints::said(*model().head, model().about.purpose, read_rows(model(), ids));
    return Tensors{{"ids", Tensor::from_ids(ids, {static_cast<int64_t>(ids.size())})},
                   {"logits", said.select(0, 0)}};
  }
  std::vector<Example> examples(size_t n) const override {
    return examples_of(masked_sentences(), n);
  }
  std::vector<Input> inputs(const Judged&, size_t most) const override {
    return spread_of(masked_sentences(), most);
  }
  std::optional<explain::BlocksAtWork> blocks(int64_t sequences) const override {
    return blocks_of(model(), model().model.encoder, model().model.source, sequences);
  }

 protected:
  std::vector<Predictions> predict_as(std::span<const Input> inputs, const FillSettings& how,
                                      const Predicting& watch) const override {
    return predictions_of(*this, inputs, By::attention, watch, [&](const Input& input) {
      return filled_in(model(), text_of(input), how.n_best);
    });
  }
  Evaluation evaluate_as(const Judged&, const NoSettings&, const ShareDone&) const override {
    throw Error("eval",
                "a model that fills in masked tokens gives no text a probability: there is "
                "nothing to score");
  }

 private:
  // Each without its middle word.
  std::vector<std::string> masked_sentences() const {
    const std::string mask(model().tokenizer().piece(mask_of(model())));
    std::vector<std::string> all;
    for (std::string s : sentences(model())) {
      const size_t begin = s.find(' ', s.size() / 2) + 1;
      const size_t end = std::min(s.find_first_of(" ,.", begin), s.size());
      all.push_back(s.replace(begin, end - begin, mask));
    }
    return all;
  }
};

std::unique_ptr<const Run> open_filling(const RunFolder& folder) {
  return std::make_unique<const FillingRun>(load_opened(folder));
}

}  // namespace

extern const Task task_fills = {
    .name = "masked tokens",
    .title = "Masked tokens",
    .about = "An encoder that somebody else trained, which says what a masked token was",
    .takes = Takes::text,
    .scored = true,
    .config = make<OpenedConfig, TaskConfig>,
    .evaluate_settings = make<NoSettings>,
    .predict_settings = make<FillSettings>,
    .open = open_filling,
};

}  // namespace fovea::tasks::opened
