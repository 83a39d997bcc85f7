#include "tasks/opened/opened.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "checkpoints/folder.h"
#include "checkpoints/origin.h"
#include "fovea/error.h"
#include "fovea/ops.h"
#include "tasks/classes.h"
#include "tasks/coder.h"
#include "tasks/transformer_fields.h"
#include "tasks/transformer_inside.h"

namespace fovea::tasks {

const Task& opened_task(const std::filesystem::path& path) {
  using checkpoints::Purpose;
  switch (checkpoints::about(path).purpose) {
    case Purpose::writes:
      return opened::task_writes;
    case Purpose::translates:
      return opened::task_translates;
    case Purpose::fills:
      return opened::task_fills;
    case Purpose::tells:
      return opened::task_tells;
    case Purpose::sees:
      return opened::task_sees;
    case Purpose::reads:
      return opened::task_reads;
    case Purpose::views:
      break;
  }
  return opened::task_views;
}

std::span<const Task* const> opened_table() {
  static constexpr std::array<const Task*, 7> kTable = {
      &opened::task_writes, &opened::task_translates, &opened::task_fills, &opened::task_tells,
      &opened::task_sees,   &opened::task_reads,      &opened::task_views};
  return kTable;
}

std::unique_ptr<TaskConfig> opened_config(const std::filesystem::path& path) {
  auto config = std::make_unique<opened::OpenedConfig>();
  config->about = checkpoints::about(path);
  return config;
}

namespace {

std::string millions(int64_t n) {
  return fmt::format("{:.1f} million", static_cast<double>(n) / 1e6);
}
std::string megabytes(int64_t n) { return fmt::format("{:.1f} MB", static_cast<double>(n) / 1e6); }

std::string kept_text(checkpoints::KeptAs kept) {
  using checkpoints::KeptAs;
  if (kept == KeptAs::stored) return "as they are stored";
  return fmt::format("kept as {}{}", name_of(kept), kept == KeptAs::int8 ? ", by rows" : "");
}

std::string tokenizer_in(const std::filesystem::path& folder) {
  try {
    return tokens::open_tokenizer(folder).about();
  } catch (const Error& e) {
    return fmt::format("none that is read here: {}", e.message());
  }
}

}  // namespace

std::vector<std::pair<std::string, std::string>> described(const std::filesystem::path& path) {
  const checkpoints::CheckpointInfo a = checkpoints::about(path);
  const models::TransformerConfig& n = a.network;
  std::vector<std::string> types;
  for (const auto& [type, count] : a.stored) types.push_back(fmt::format("{} {}", type, count));
  std::vector<std::pair<std::string, std::string>> lines = {
      {"architecture", fmt::format("{} ({})", a.title, a.type)},
      {"what it does", name_of(a.purpose)},
      {"blocks", n.decoder_blocks > 0 && n.source_vocabulary > 0
                     ? fmt::format("{} that encode, {} that decode", n.blocks, n.decoder_blocks)
                     : std::to_string(n.blocks)},
      {"width", std::to_string(n.depth)},
      {"heads", fmt::format("{} of {}{}", n.heads, models::head_depth(n),
                            n.key_heads > 0 && n.key_heads != n.heads
                                ? fmt::format(", {} for keys and values", n.key_heads)
                                : "")},
      {"MLP", fmt::format("{}, {}", n.mlp_width, name_of(n.activation))},
      {"norms", fmt::format("{}, {}", name_of(n.norm), name_of(n.order))},
      {"positions", name_of(n.positions)},
      {"weights", millions(a.weights)},
      {"stored as", fmt::format("{}", fmt::join(types, ", "))},
      {"file", megabytes(a.file_bytes)},
      {"memory", fmt::format("{}, weights {}", megabytes(a.memory_bytes), kept_text(a.kept))}};
  if (a.longest > 0)
    lines.insert(lines.begin() + 8, {"longest", fmt::format("{} tokens", a.longest)});
  if (!is_of_pictures(a.purpose)) lines.emplace_back("tokenizer", tokenizer_in(a.folder));
  if (!a.classes.empty()) {
    constexpr size_t kMost = 8;
    const size_t shown = std::min(kMost, a.classes.size());
    lines.emplace_back(
        "classes", fmt::format("{}: {}{}", a.classes.size(),
                               fmt::join(a.classes.begin(),
                                         a.classes.begin() + static_cast<ptrdiff_t>(shown), ", "),
                               shown < a.classes.size() ? ", …" : ""));
  }
  return lines;
}

namespace opened {

std::string OpenedConfig::data_name() const { return about.folder.filename().string(); }
std::string OpenedConfig::model() const {
  return fmt::format("{}: {}", about.title, text_of(about.network));
}
std::string OpenedConfig::attention() const { return attention_of(about.network); }

const tokens::Tokenizer& Opened::tokenizer() const {
  if (!source) throw Error("open", about.folder.string() + " has no tokenizer that is read here");
  return *source;
}
const tokens::Tokenizer& Opened::writes() const { return target ? *target : tokenizer(); }

Opened load_opened(const RunFolder& folder) {
  Opened o{checkpoints::open(folder.path())};
  o.config.about = o.about;
  using checkpoints::Purpose;
  if (is_of_pictures(o.about.purpose)) return o;
  o.source = tokens::open_tokenizer(o.about.folder);
  if (o.about.purpose == Purpose::translates) {
    o.target = tokens::open_target_tokenizer(o.about.folder);
  }
  return o;
}

Ids ids_of(const Opened& o, const std::string& text) {
  Ids ids;
  const models::TransformerConfig& n = o.about.network;
  const int64_t rows = n.source_vocabulary > 0 ? n.source_vocabulary : n.target_vocabulary;
  for (const tokens::Token& t : o.tokenizer().encode(text)) {
    if (t.id < 0 || t.id >= rows) {
      throw Error("read", fmt::format("the tokenizer gives id {}, and the model has {} rows: they "
                                      "are not of one model",
                                      t.id, rows));
    }
    ids.push_back(t.id);
  }
  const bool bounded = n.positions == nn::Positions::learned;
  if (bounded && static_cast<int64_t>(ids.size()) > n.longest) {
    throw Error("read", fmt::format("the text has {} tokens, and the model reads {}: give it less",
                                    ids.size(), n.longest));
  }
  return ids;
}

std::vector<std::string> labels_of(const tokens::Tokenizer& t, const Ids& ids) {
  std::vector<std::string> labels;
  for (const int64_t id : ids) labels.push_back(label_of(t, id));
  return labels;
}

std::vector<std::string> sentences(const Opened& o) {
  std::vector<std::string> all = {
      "The old ship came back to the harbour before the storm reached the coast.",
      "She gave him the key because he had forgotten his own at home.",
      "Nobody knew why the clock in the tower had stopped at noon.",
      "When the rain was over, the children ran out and jumped into every puddle.",
      "The food was cold and the waiter was rude, but the view was wonderful.",
      "He reads a book each week and writes down what he learned from it.",
      "The museum opens at nine and closes at five, except on Mondays.",
      "A good map tells you where you are, not only where you want to go.",
      "The two brothers who own the bakery get up at three every morning.",
      "If the bridge is closed, take the ferry and walk along the river.",
      "They planted a tree for every student who finished the course.",
      "The letter that arrived today was sent more than forty years ago."};
  const models::TransformerConfig& n = o.about.network;
  if (n.positions != nn::Positions::learned) return all;
  for (std::string& s : all) {
    while (static_cast<int64_t>(o.tokenizer().encode(s).size()) > n.longest &&
           s.find(' ') != std::string::npos) {
      s.resize(s.rfind(' '));
    }
  }
  return all;
}

void refuse_to_train() {
  throw Error("train",
              "a model that somebody else trained is looked at here; `fovea train TASK "
              "--from MODEL` trains it further");
}

GivenBack given_back_of(const Opened& o) {
  constexpr uint64_t kNothingDrawn = 0;
  const auto origin = checkpoints::Origin::of(o.about.folder);
  return given_back(origin, origin.weights(kNothingDrawn));
}

std::vector<Example> examples_of(const std::vector<std::string>& texts, size_t n) {
  std::vector<Example> some;
  for (const std::string& text : texts) {
    if (some.size() < n) some.push_back({Text{text}, ""});
  }
  return some;
}

std::vector<Predictions> predictions_of(const Run& run, std::span<const Input> inputs, By by,
                                        const Predicting& watch,
                                        const std::function<Predictions(const Input&)>& answer) {
  std::vector<Predictions> all;
  for (const Input& input : inputs) {
    all.push_back(answer(input));
    if (watch.maps == Maps::keep) {
      const Inside in = run.inside(input).value();
      all.back().front().pictures = pictures_of(in, explain(in, {.by = {by}}));
    }
    if (watch.done) {
      watch.done(static_cast<double>(all.size()) / static_cast<double>(inputs.size()));
    }
  }
  return all;
}

const std::string& file_to_judge(const Judged& what, const std::string& expected) {
  if (what.file.empty()) {
    throw Error("eval",
                "nothing was held out of a model that somebody else trained: name " + expected);
  }
  return what.file;
}

void TopSettings::visit(Fields& f) {
  f.group("Classes");
  f.integer("n-best", n_best, "how many, likeliest first", {1, 1e6});
}

Predictions best_classes(const std::vector<std::string>& classes, const Tensor& logits,
                         int64_t n_best) {
  const std::vector<float> p = softmax(logits.reshape({1, logits.numel()})).to_vector();
  Predictions best;
  for (const size_t k : best_first(p, n_best)) {
    best.push_back({.text = classes.at(k), .score = static_cast<double>(p[k])});
  }
  return best;
}

Evaluation accuracy_of(const std::vector<std::string>& classes, const std::vector<int64_t>& right,
                       const std::vector<std::vector<float>>& logits, const std::string& unit) {
  std::vector<int64_t> hits(classes.size()), count(classes.size());
  double loss = 0;
  for (size_t i = 0; i < right.size(); ++i) {
    const std::vector<float>& l = logits[i];
    const auto label = static_cast<size_t>(right[i]);
    const auto best = static_cast<size_t>(std::max_element(l.begin(), l.end()) - l.begin());
    double sum = 0;
    for (const float x : l) sum += std::exp(static_cast<double>(x - l[best]));
    loss += std::log(sum) - static_cast<double>(l[label] - l[best]);
    ++count[label];
    hits[label] += best == label;
  }
  const auto share = [](int64_t part, int64_t of) {
    return 100.0 * static_cast<double>(part) / static_cast<double>(of);
  };
  Evaluation e{.count = static_cast<int64_t>(right.size()), .unit = unit};
  e.scores = {{"loss", loss / static_cast<double>(right.size())},
              {"accuracy", share(std::accumulate(hits.begin(), hits.end(), int64_t{0}), e.count)}};
  Breakdown by_class{.by = "class"};
  for (size_t k = 0; k < count.size(); ++k) {
    if (count[k] == 0) continue;
    by_class.parts.push_back({classes[k], count[k], {{"accuracy", share(hits[k], count[k])}}});
  }
  e.breakdowns.push_back(std::move(by_class));
  return e;
}

void look_inside_encoder(const Opened& o, const Ids& ids, Inside& inside) {
  const models::Transformer& m = o.model;
  inside.x = m.source(Tensor::from_ids(ids, {static_cast<int64_t>(ids.size())})).detach();
  inside.blank = mean_vector(m.source.table);
  add_stack_attention(
      m.encoder,
      [&m, x = inside.x](const models::TransformerPass& pass) {
        models::encode(m.config, m.encoder, x.unsqueeze(0), {}, pass);
      },
      inside);
  inside.opens = Inside::Opens::blocks;
  inside.on_repeated = [&m](const Repeated& asked, const models::TransformerPass& pass) {
    const Tensor twice = repeated_ids(m.config, asked, m.config.source_vocabulary);
    models::encode(m, twice, {}, pass);
    return twice;
  };
}

void say_of_first_rows(const Opened& o, int64_t count, const Encoding& encode, Inside& inside) {
  inside.states = [encode, count](const Tensor& rows, const models::TransformerPass& pass) {
    return encode(rows, pass).slice(1, 0, count).unsqueeze(1);  // [R,1,count,W]
  };
  inside.said = [&o](const Tensor& states) {
    return checkpoints::said(*o.head, o.about.purpose, states);
  };
  inside.log_odds = [states = inside.states, said = inside.said](const Tensor& rows) {
    return log_odds_of_classes(said(states(rows, {}).squeeze(1)));
  };
  inside.named = [&o](int64_t k) { return o.about.classes.at(static_cast<size_t>(k)); };
  inside.opens = Inside::Opens::blocks;
}

std::optional<explain::BlocksAtWork> blocks_of(const Opened& o, const models::Stack& stack,
                                               const nn::Embedding& table, int64_t sequences) {
  const NoGrad off;
  std::vector<Ids> rows;
  size_t longest = 0;
  for (const std::string& text : sentences(o)) {
    if (static_cast<int64_t>(rows.size()) == sequences) break;
    rows.push_back(ids_of(o, text));
    longest = std::max(longest, rows.back().size());
  }
  Ids all, lengths;
  for (Ids& row : rows) {
    lengths.push_back(static_cast<int64_t>(row.size()));
    row.resize(longest, 0);
    all.insert(all.end(), row.begin(), row.end());
  }
  const auto B = static_cast<int64_t>(rows.size());
  const Tensor ids = Tensor::from_ids(all, {B, static_cast<int64_t>(longest)});
  return explain::BlocksAtWork{o.model.config, stack, table(ids), Tensor::from_ids(lengths, {B})};
}

}  // namespace opened
}  // namespace fovea::tasks
