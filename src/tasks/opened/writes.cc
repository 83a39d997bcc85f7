#include "tasks/opened/writes.h"
#include "tasks/deal.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "fovea/error.h"
#include "fovea/ops.h"
#include "tasks/transformer_inside.h"
#include "text/lines.h"

namespace fovea::tasks::opened {
namespace {

constexpr int64_t kLongestWindow = 1024;

struct Windows {
  int64_t context = 0, stride = 0;
};

Windows windows_of(const Opened& o, const StrideSettings& s) {
  const int64_t longest = o.about.longest > 0 ? o.about.longest : kLongestWindow;
  Windows w{.context = s.context > 0 ? s.context : std::min(longest, kLongestWindow)};
  if (o.model.config.positions == nn::Positions::learned && w.context > longest) {
    throw Error("eval",
                fmt::format("--context {}, and the model reads {} tokens", w.context, longest));
  }
  w.stride = s.stride > 0 ? s.stride : std::max<int64_t>(1, w.context / 2);
  if (w.context < 2 || w.stride > w.context) {
    throw Error("eval", fmt::format("--stride must be in [1, context], context 2 or more; found {} "
                                    "and {}",
                                    w.stride, w.context));
  }
  return w;
}

// −log p of tokens begin + 1 … end of a window of ids, those from `from` on.
double loss_of(const Opened& o, std::span<const int64_t> window, int64_t from) {
  const auto T = static_cast<int64_t>(window.size()) - 1;
  const Tensor states =
      models::decode_all(o.model, Tensor::from_ids(window.first(static_cast<size_t>(T)), {1, T}));
  constexpr int64_t kLogits = int64_t{1} << 22;
  const int64_t at_once = std::max<int64_t>(1, kLogits / o.model.output.weight.size(0));
  double loss = 0;
  for (int64_t begin = from - 1; begin < T; begin += at_once) {
    const int64_t end = std::min(T, begin + at_once);
    const Tensor logits = models::logits(o.model, states.select(0, 0).slice(0, begin, end));
    const Tensor targets = Tensor::from_ids(
        window.subspan(static_cast<size_t>(begin) + 1, static_cast<size_t>(end - begin)),
        {end - begin});
    loss +=
        static_cast<double>(cross_entropy(logits, targets, {.reduction = Reduction::sum}).item());
  }
  return loss;
}

// The file as it is, its lines with their ends.
std::string whole_text(const std::string& file) {
  std::string text;
  for (const std::string& line : text::read_lines(file)) text += line + '\n';
  return text;
}

class WritingRun final : public OpenedRun<StrideSettings, WriteSettings> {
 public:
  using OpenedRun::OpenedRun;

  std::optional<Inside> inside(const Input& input) const override {
    const std::string& text = text_of(input);
    return inside_text(model(), ids_of(model(), text), text);
  }
  std::optional<Tensors> logits(const Input& input) const override {
    const NoGrad off;
    const Ids ids = ids_of(model(), text_of(input));
    if (ids.empty()) throw Error("predict", "there is no text to read");
    const auto L = static_cast<int64_t>(ids.size());
    const models::Transformer& m = model().model;
    const Tensor states = models::decode_all(m, Tensor::from_ids(ids, {1, L}));
    return Tensors{{"ids", Tensor::from_ids(ids, {L})},
                   {"logits", models::logits(m, states).select(0, 0)}};
  }
  // Beginnings of sentences.
  std::vector<Example> examples(size_t n) const override {
    std::vector<Example> some;
    for (const std::string& s : sentences(model())) {
      if (some.size() < n) some.push_back({Text{s.substr(0, s.find(' ', s.size() / 3))}, s});
    }
    return some;
  }
  std::vector<Input> inputs(const Judged& what, size_t most) const override {
    std::vector<std::string> lines =
        what.file.empty() ? sentences(model()) : text::read_lines(what.file);
    std::erase(lines, "");
    return spread_of(lines, most);
  }
  std::optional<explain::BlocksAtWork> blocks(int64_t sequences) const override {
    return blocks_of(model(), model().model.decoder, model().model.target, sequences);
  }

 protected:
  std::vector<Predictions> predict_as(std::span<const Input> inputs, const WriteSettings& how,
                                      const Predicting& watch) const override {
    std::vector<Predictions> all;
    for (const std::string& prompt : texts_of(inputs)) {
      all.push_back({go_on(model(), prompt, how, watch)});
    }
    return all;
  }
  Evaluation evaluate_as(const Judged& what, const StrideSettings& how,
                         const ShareDone& done) const override {
    return perplexity(model(), whole_text(file_to_judge(what, "a text")), how, done);
  }
};

std::unique_ptr<const Run> open_writing(const RunFolder& folder) {
  return std::make_unique<const WritingRun>(load_opened(folder));
}

}  // namespace

void StrideSettings::visit(Fields& f) {
  f.group("Perplexity");
  f.integer("context", context, "tokens of a window; 0: as many as the model reads, at most 1024",
            {0, 1e7});
  f.integer("stride", stride, "from one window to the next; 0: half a window", {0, 1e7});
}

Evaluation perplexity(const Opened& o, const std::string& text, const StrideSettings& s,
                      const ShareDone& done) {
  const NoGrad off;
  Ids ids;
  for (const tokens::Token& t : o.tokenizer().encode(text)) ids.push_back(t.id);
  if (ids.size() < 2) throw Error("eval", "there are fewer than two tokens to score");
  const Windows w = windows_of(o, s);
  const auto n = static_cast<int64_t>(ids.size());
  struct Window {
    int64_t first, scored, end;
  };
  std::vector<Window> all;
  for (int64_t begin = 0, scored = 1; scored < n; begin += w.stride) {
    const int64_t first = std::min(begin, scored - 1);  // each is scored after another
    all.push_back({first, scored, std::min(n, first + w.context)});
    scored = all.back().end;
  }
  const auto work = [&](size_t i) {
    const auto [first, scored, end] = all[i];
    const auto window =
        std::span(ids).subspan(static_cast<size_t>(first), static_cast<size_t>(end - first));
    return loss_of(o, window, scored - first);
  };
  double loss = 0;
  deal(done, all.size(), work, [&](size_t, double part) { loss += part; });
  Evaluation e{.count = n - 1, .unit = "tokens"};
  const double mean = loss / static_cast<double>(n - 1);
  e.scores = {{"loss", mean},
              {"perplexity", std::exp(mean)},
              {"bits", loss / std::log(2.0) / static_cast<double>(text.size())},
              {"context", static_cast<double>(w.context)},
              {"stride", static_cast<double>(w.stride)}};
  return e;
}

Inside inside_text(const Opened& o, const Ids& ids, const std::string& title) {
  if (ids.empty()) throw Error("explain", "there is no text to look at");
  const NoGrad off;
  const models::Transformer& m = o.model;
  const tokens::Tokenizer& t = o.tokenizer();
  const auto L = static_cast<int64_t>(ids.size());
  const Tensor states = models::decode_all(m, Tensor::from_ids(ids, {1, L}));
  Ids out(ids.begin() + 1, ids.end());
  out.push_back(argmax(models::logits(m, states.select(1, L - 1)), 1).to_ids()[0]);
  Inside inside{.title = title, .inputs = labels_of(t, ids), .outputs = labels_of(t, out)};
  inside.named = [&t](int64_t id) { return labels_of(t, {id}).front(); };
  look_inside_decoder(m, ids, out, inside);
  return inside;
}

extern const Task task_writes = {
    .name = "text that goes on",
    .title = "Text that goes on",
    .about = "A decoder that somebody else trained",
    .takes = Takes::text,
    .measures = {{"perplexity", "perplexity", Better::lower, 3},
                 {"loss", "loss, nats a token", Better::lower, 4},
                 {"bits", "bits a byte", Better::lower, 3}},
    .config = make<OpenedConfig, TaskConfig>,
    .evaluate_settings = make<StrideSettings>,
    .predict_settings = make<WriteSettings>,
    .open = open_writing,
};

}  // namespace fovea::tasks::opened
