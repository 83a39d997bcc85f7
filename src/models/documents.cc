#include "fovea/documents.h"

#include <algorithm>
#include <numeric>

#include "core/random.h"
#include "models/checks.h"

namespace fovea::models {

const char* name_of(DocumentModel m) {
  static constexpr const char* kNames[] = {"hierarchical", "flat", "transformer", "mean", "first"};
  return kNames[static_cast<int>(m)];
}

DocumentModel document_model(const std::string& name) {
  return by_name("documents", "model", name,
                 {DocumentModel::hierarchical, DocumentModel::flat, DocumentModel::transformer,
                  DocumentModel::mean, DocumentModel::first});
}

bool by_sentences(const DocumentConfig& c) { return c.model == DocumentModel::hierarchical; }
bool looks(const DocumentConfig& c) {
  return c.model != DocumentModel::mean && c.model != DocumentModel::first;
}

namespace {

TransformerConfig transformer_of(const DocumentConfig& c) {
  TransformerConfig t = c.transformer;
  if (c.model == DocumentModel::first) return t;
  t.source_vocabulary = c.vocabulary;
  t.longest = c.longest_source;
  return t;
}

bool has_blocks(const DocumentConfig& c) {
  return c.model == DocumentModel::transformer || c.model == DocumentModel::first;
}

int64_t word_width(const DocumentConfig& c) {
  return c.model == DocumentModel::transformer ? c.transformer.depth : c.embedding;
}

}  // namespace

void check(const DocumentConfig& c) {
  const auto in_range = [](const char* field, int64_t value, int64_t low, int64_t high) {
    expect_range("documents", field, value, low, high);
  };
  in_range("vocabulary", c.vocabulary, 1, 10 * kLargest);
  in_range("classes", c.classes, 1, kLargest);
  in_range("embedding", c.embedding, 1, 16384);
  in_range("hidden", c.hidden, 1, 16384);
  in_range("layers", c.layers, 1, 64);
  in_range("unknown", c.unknown, 0, c.vocabulary - 1);
  if (looks(c)) check(static_cast<const LookConfig&>(c));
  if (has_blocks(c)) check(transformer_of(c));
}

// ---- Levels ------------------------------------------------------------------------------------
namespace {

struct MadeEncoder {
  SequenceEncoder encoder;
  int64_t width;
};

MadeEncoder encoder_of(nn::Weights& w, const std::string& name, const DocumentConfig& c,
                       int64_t input) {
  if (c.model == DocumentModel::mean) return {{}, input};
  if (c.model == DocumentModel::transformer) {
    const TransformerConfig t = transformer_of(c);
    return {TransformerEncoder{t, encoder_stack(w, name, t)}, input};
  }
  return {nn::recurrent(w, name,
                        {.cell = c.cell,
                         .input = input,
                         .hidden = c.hidden,
                         .layers = c.layers,
                         .bidirectional = true}),
          2 * c.hidden};
}

DocumentLevel level_of(nn::Weights& w, const std::string& name, const DocumentConfig& c,
                       int64_t input) {
  auto [encoder, width] = encoder_of(w, name, c, input);
  DocumentLevel level{.encoder = std::move(encoder), .width = width};
  if (!looks(c)) return level;
  level.query = w.add(name + ".query", {width}, nn::Init::normal);
  level.look = look_weights(w, name + ".", c, {.query = width, .key = width, .hidden = width});
  return level;
}

// What is dropped in a pass, by place.
struct Noise {
  float dropout = 0.0f;
  Seed seed;
  Tensor operator()(const Tensor& x, const char* place, int64_t index = 0) const {
    return dropout > 0.0f ? fovea::dropout(x, dropout, seed.at(place).at(index).value()) : x;
  }
};

// How a level reads: what is dropped, and who looks at its heads.
struct Reading {
  Noise noise;
  nn::HeadsHook hook;
};

Tensor read(const std::monostate&, const Tensor& x, const Tensor&, const Reading&) { return x; }
Tensor read(const nn::Recurrent& r, const Tensor& x, const Tensor& lengths, const Reading& how) {
  const Noise& noise = how.noise;
  return r(x, lengths, noise.dropout, noise.seed.at("layers").value()).sequence;
}

Tensor read(const TransformerEncoder& e, const Tensor& x, const Tensor& lengths,
            const Reading& how) {
  const TransformerPass pass{.noise = {how.noise.dropout, how.noise.seed.at("blocks").value()},
                             .hook = how.hook};
  return encode(e.config, e.stack, x.transpose(0, 1), lengths, pass).transpose(0, 1);
}

// x [T,B,C] → [B,C]; a length of at least 1.
Tensor mean_of(const Tensor& x, const Tensor& lengths) {
  const Tensor inside =
      less(Tensor::arange(x.size(0)).unsqueeze(1), lengths.unsqueeze(0));  // [T,B]
  const Tensor seen = where(inside.unsqueeze(2), x, Tensor::scalar(0.0f));
  return sum(seen, {0}) / lengths.to(DType::f32).unsqueeze(1);
}

Tensor read(const DocumentLevel& level, const Tensor& x, const Tensor& lengths,
            const Reading& how) {
  return std::visit([&](const auto& e) { return read(e, x, lengths, how); }, level.encoder);
}

// One sequence for each row, states [T,B,width] → [B,width] in the look's context.
Look pooled(const Documents& m, const DocumentLevel& level, const Tensor& states,
            const Tensor& lengths, const LookPass& pass) {
  if (m.config.model == DocumentModel::first) return {.context = states.select(0, 0)};
  if (!level.query) return {.context = mean_of(states, lengths)};
  const int64_t B = states.size(1), Q = level.query.size(0);
  const Tensor keys = states.transpose(0, 1);  // [B,T,width]
  Looker looker(m.config, level.look, {keys, keys, lengths}, pass);
  Look look = looker.all(level.query.reshape({1, 1, Q}).expand({B, 1, Q}));
  for (Tensor* t : {&look.context, &look.weights, &look.log_prob, &look.entropy}) {
    if (*t) *t = t->squeeze(1);
  }
  return look;
}

// ids with some read as unknown; padding too, which is never seen.
Tensor with_unknown(const Tensor& ids, float share, int64_t unknown, const Seed& seed) {
  if (share <= 0.0f) return ids;
  std::vector<int64_t> read = ids.to_ids();
  const RandomKey key = random_key(seed.value(), Purpose::dropout);
  for (size_t i = 0; i < read.size(); ++i) {
    if (unit_open(bits32(key, i)) < static_cast<double>(share)) read[i] = unknown;
  }
  return Tensor::from_ids(read, ids.shape());
}

LookPass look_pass(const DocumentPass& p, int64_t rows, const Seed& seed, const Intervention& i) {
  LookPass pass{
      .mode = p.mode, .seed = seed.value(), .keep_weights = p.keep_weights, .intervention = i};
  if (p.expect) {
    pass.expected = Tensor::from_bools(std::vector<uint8_t>(static_cast<size_t>(rows), 1), {rows});
  }
  return pass;
}

// Σ over the sentences of each document: x [N] → [B].
Tensor by_document(const Tensor& x, const DocumentBatch& batch) {
  const Tensor own = index_select(x, 0, batch.places.reshape({batch.places.numel()}));
  const Tensor padded = own.reshape(batch.places.shape());  // [S,B]
  const Tensor inside =
      less(Tensor::arange(padded.size(0)).unsqueeze(1), batch.lengths.unsqueeze(0));
  return sum(where(inside, padded, Tensor::scalar(0.0f)), {0});
}

}  // namespace

namespace {

// By the names that encoders of others have here (src/checkpoints).
void make_first(Documents& m) {
  const DocumentConfig& c = m.config;
  const TransformerConfig& t = c.transformer;
  nn::Weights& w = m.weights;
  const int64_t E = t.embedding_width > 0 ? t.embedding_width : t.depth;
  m.embedding.table = w.add("source.weight", {c.vocabulary, E}, nn::Init::small);
  m.levels.push_back(
      {.encoder = TransformerEncoder{t, encoder_stack(w, "encoder", t)}, .width = t.depth});
  if (c.curve != DocumentCurve::none) m.dense = nn::linear(w, "head.dense", t.depth, t.depth);
  m.output = nn::linear(w, "head.out", t.depth, c.classes);
}

Tensor curved(const Documents& m, const Tensor& v) {
  if (!m.dense.weight) return v;
  const Tensor y = m.dense(v);
  return m.config.curve == DocumentCurve::tanh ? tanh(y) : relu(y);
}

}  // namespace

Documents documents(const DocumentConfig& c, nn::Weights weights) {
  check(c);
  Documents m{.config = c, .weights = std::move(weights)};
  if (c.model == DocumentModel::first) {
    make_first(m);
    return m;
  }
  m.embedding = nn::embedding(m.weights, "words.embedding", c.vocabulary, word_width(c));
  m.levels.push_back(level_of(m.weights, "words", c, word_width(c)));
  if (by_sentences(c)) {
    m.levels.push_back(level_of(m.weights, "sentences", c, m.levels.back().width));
  }
  m.output = nn::linear(m.weights, "output", m.levels.back().width, c.classes);
  return m;
}

int64_t count_weights(const DocumentConfig& c) {
  return documents(c, nn::Weights::sketch()).weights.count();
}

// ---- A pass ------------------------------------------------------------------------------------

Classified classify(const Documents& m, const DocumentBatch& batch, const DocumentPass& p) {
  const Seed seed(p.seed);
  const bool train = p.mode == Mode::train;
  const Noise noise{train ? p.dropout : 0.0f, seed.at("dropout")};
  const float unknown = train ? p.word_dropout : 0.0f;
  Classified result;
  std::vector<Tensor> vectors, log_probs, entropies;  // of sentences, by group
  const auto keep = [](const Look& look, std::vector<Tensor>& to_log_probs,
                       std::vector<Tensor>& to_entropies) {
    if (!look.log_prob) return;
    to_log_probs.push_back(look.log_prob);
    to_entropies.push_back(look.entropy);
  };
  for (size_t g = 0; g < batch.groups.size(); ++g) {
    const SentenceGroup& group = batch.groups[g];
    const auto index = static_cast<int64_t>(g);
    Tensor states;
    if (p.read.empty()) {
      const Tensor ids =
          with_unknown(group.ids, unknown, m.config.unknown, seed.at("unknown").at(index));
      const Tensor own = p.embedded.empty() ? m.embedding(ids) : p.embedded[g];
      const Tensor x = noise(own, "words", index);  // [W,n,E]
      states = read(m.levels[0], x, group.lengths, {{noise.dropout, noise.seed.at(index)}, p.hook});
    } else {
      states = p.read[g];
    }
    Look look = pooled(m, m.levels[0], states, group.lengths,
                       look_pass(p, group.lengths.size(0), seed.at("words").at(index), p.words));
    vectors.push_back(look.context);  // [n,·]
    if (look.weights) result.words.push_back(look.weights);
    keep(look, log_probs, entropies);
  }
  const int64_t S = batch.places.size(0), B = batch.places.size(1);
  const Tensor all = vectors.size() == 1 ? vectors[0] : concatenate(vectors, 0);  // [N,·]
  const Tensor ordered =
      index_select(all, 0, batch.places.reshape({S * B})).reshape({S, B, m.levels[0].width});
  if (!log_probs.empty()) {
    result.log_prob = by_document(concatenate(log_probs, 0), batch);
    result.entropy = by_document(concatenate(entropies, 0), batch);
  }
  Tensor v = ordered;
  if (m.levels.size() > 1) {
    const Tensor states =
        read(m.levels[1], noise(ordered, "sentences"), batch.lengths, {noise, {}});
    const Look look = pooled(m, m.levels[1], states, batch.lengths,
                             look_pass(p, B, seed.at("sentences"), p.sentences));
    v = look.context;
    result.sentences = look.weights;
    if (look.log_prob) {
      result.log_prob = result.log_prob + look.log_prob;
      result.entropy = result.entropy + look.entropy;
    }
  } else {
    v = curved(m, ordered.select(0, 0));  // [B,·]
  }
  result.logits = m.output(noise(v, "document"));
  return result;
}

std::vector<Tensor> read_words(const Documents& m, const DocumentBatch& batch) {
  std::vector<Tensor> all;
  for (const SentenceGroup& group : batch.groups) {
    all.push_back(read(m.levels[0], m.embedding(group.ids), group.lengths, {}));
  }
  return all;
}

DocumentLoss loss(const Documents& m, const DocumentBatch& batch, const DocumentLossConfig& c) {
  DocumentPass pass{
      .mode = Mode::train, .dropout = c.dropout, .word_dropout = c.word_dropout, .seed = c.seed};
  const auto nll_of = [&](const Classified& r) {
    return cross_entropy(
        r.logits, batch.classes,
        {.label_smoothing = c.label_smoothing, .reduction = Reduction::none});  // [B]
  };
  const Classified chosen = classify(m, batch, pass);
  const Tensor nll = nll_of(chosen);
  const double total = sum(nll.detach()).item();
  if (!chosen.log_prob) return {mean(nll), total};

  pass.expect = true;
  const Tensor expected = nll_of(classify(m, batch, pass));
  const Tensor R = -nll.detach().unsqueeze(0);  // [1,B]
  const DocumentLevel& last = m.levels.back();
  const Tensor guess = last.look.baseline(last.query.detach()).reshape({1, 1});
  const Tensor terms = reinforce(
      {chosen.log_prob.unsqueeze(0), chosen.entropy.unsqueeze(0), Tensor::full(R.shape(), 1.0f)}, R,
      guess - expected.detach().unsqueeze(0), c);
  const auto B = static_cast<float>(nll.size(0));
  return {0.5f * (mean(nll) + mean(expected)) + terms / B, total};
}

// ---- Batches -----------------------------------------------------------------------------------
namespace {

// Sentences in the order of their lengths, cut where the next is much shorter than the first.
std::vector<std::vector<size_t>> groups_of(const std::vector<const SentenceIds*>& sentences,
                                           Grouping grouping) {
  constexpr size_t kFewest = 16;  // fewer rows cost as much as more
  std::vector<size_t> order(sentences.size());
  std::iota(order.begin(), order.end(), size_t{0});
  if (grouping == Grouping::one) return {order};
  const auto length = [&](size_t i) { return sentences[i]->size(); };
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return length(a) > length(b); });
  std::vector<std::vector<size_t>> groups;
  for (const size_t i : order) {
    const bool fits = !groups.empty() && (groups.back().size() < kFewest ||
                                          4 * length(i) >= 3 * length(groups.back().front()));
    if (!fits) groups.emplace_back();
    groups.back().push_back(i);
  }
  return groups;
}

SentenceGroup side_by_side(const std::vector<const SentenceIds*>& sentences,
                           const std::vector<size_t>& rows) {
  const size_t n = rows.size();
  size_t longest = 0;
  std::vector<int64_t> lengths;
  for (const size_t i : rows) {
    lengths.push_back(static_cast<int64_t>(sentences[i]->size()));
    longest = std::max(longest, sentences[i]->size());
  }
  std::vector<int64_t> ids(longest * n, 0);
  for (size_t b = 0; b < n; ++b) {
    const SentenceIds& row = *sentences[rows[b]];
    for (size_t t = 0; t < row.size(); ++t) ids[t * n + b] = row[t];
  }
  const auto N = static_cast<int64_t>(n);
  return {Tensor::from_ids(ids, {static_cast<int64_t>(longest), N}),
          Tensor::from_ids(lengths, {N})};
}

SentenceIds joined(const DocumentIds& document) {
  SentenceIds all;
  for (const SentenceIds& s : document) all.insert(all.end(), s.begin(), s.end());
  return all;
}

}  // namespace

DocumentBatch batch_of(const DocumentConfig& c, const std::vector<const DocumentIds*>& documents,
                       Grouping grouping) {
  if (documents.empty()) throw Error("batch_of", "there are no documents");
  std::vector<SentenceIds> whole;
  if (!by_sentences(c)) {
    for (const DocumentIds* d : documents) whole.push_back(joined(*d));
  }
  std::vector<const SentenceIds*> sentences;
  std::vector<int64_t> lengths;
  for (size_t b = 0; b < documents.size(); ++b) {
    const size_t before = sentences.size();
    if (!whole.empty()) {
      sentences.push_back(&whole[b]);
    } else {
      for (const SentenceIds& s : *documents[b]) sentences.push_back(&s);
    }
    lengths.push_back(static_cast<int64_t>(sentences.size() - before));
    const bool empty = std::any_of(sentences.begin() + static_cast<int64_t>(before),
                                   sentences.end(), [](const auto* s) { return s->empty(); });
    if (empty || lengths.back() == 0) {
      throw Error("batch_of", fmt::format("document {} has {}", b,
                                          empty ? "an empty sentence" : "no sentences"));
    }
  }
  DocumentBatch batch;
  std::vector<int64_t> place(sentences.size());
  int64_t next = 0;
  for (const std::vector<size_t>& rows : groups_of(sentences, grouping)) {
    batch.groups.push_back(side_by_side(sentences, rows));
    for (const size_t i : rows) place[i] = next++;
  }
  const size_t B = documents.size();
  const auto S = static_cast<size_t>(*std::max_element(lengths.begin(), lengths.end()));
  std::vector<int64_t> places(S * B, 0);
  size_t first = 0;
  for (size_t b = 0; b < B; ++b) {
    for (size_t s = 0; s < static_cast<size_t>(lengths[b]); ++s) places[s * B + b] = place[first++];
  }
  const auto columns = static_cast<int64_t>(B);
  batch.places = Tensor::from_ids(places, {static_cast<int64_t>(S), columns});
  batch.lengths = Tensor::from_ids(lengths, {columns});
  return batch;
}

}  // namespace fovea::models
