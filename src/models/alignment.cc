#include "models/alignment.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <optional>

#include "core/random.h"
#include "fovea/memory.h"
#include "fovea/ops.h"

namespace fovea::models {
namespace {

const Weighting& argmax_once() {
  static const Weighting likeliest = weightings::argmax();
  return likeliest;
}

// Which sentences take the expectation instead of a draw, bool [B].
Tensor coins(int64_t B, float share, uint64_t seed) {
  std::vector<uint8_t> heads(static_cast<size_t>(B));
  const RandomKey key = random_key(seed, Purpose::reinforce);
  for (int64_t b = 0; b < B; ++b) {
    heads[static_cast<size_t>(b)] = unit_open(bits32(key, static_cast<uint64_t>(b))) < share;
  }
  return Tensor::from_bools(heads, {B});
}

// Keys |j − t| ≤ width, bool [S].
Mask around(int64_t t, int64_t width, int64_t S) {
  std::vector<uint8_t> allowed(static_cast<size_t>(S));
  for (int64_t j = 0; j < S; ++j) allowed[static_cast<size_t>(j)] = std::abs(j - t) <= width;
  return masks::matrix(Tensor::from_bools(allowed, {S}));
}

// v [B] or [B,T] as a column of what has one more dimension.
Tensor column(const Tensor& v, int rank) {
  Tensor c = v;
  while (c.rank() < rank) c = c.unsqueeze(-1);
  return c;
}

// A score by position ends somewhere.
void check_length(const Seq2SeqConfig& c, int64_t S) {
  for (const ParameterDef& p : score_def(c.score).parameters) {
    const bool by_position = std::find(p.shape.begin(), p.shape.end(), "Lmax") != p.shape.end();
    if (by_position && S > c.longest_source) {
      throw Error("seq2seq",
                  "a source has " + std::to_string(S) + " tokens, the score '" + c.score +
                      "' is made for longest_source = " + std::to_string(c.longest_source));
    }
  }
}

// A learned parameter as its score says that it starts.
Tensor started(nn::Weights& weights, const std::string& name, const Shape& shape,
               const ParameterDef& p) {
  switch (p.start) {
    case Start::uniform:
      return weights.add(name, shape, nn::Init::uniform);
    case Start::one: {
      Tensor ones = weights.add(name, shape, nn::Init::zeros);
      const NoGrad off;
      return ones.fill_(1.0f);
    }
    case Start::usual:
      break;
  }
  if (p.name.ends_with('?')) return weights.add(name, shape, nn::Init::zeros);
  return weights.add(name, shape, shape.size() > 1 ? nn::Init::xavier : nn::Init::uniform);
}

}  // namespace

const ScoreDef& score_def(const std::string& name) { return *fovea::score(name).def; }
const WeightingDef& weighting_def(const std::string& name) { return *fovea::weighting(name).def; }

Tensors score_parameters(nn::Weights& weights, const std::string& name, const ScoreDef& def,
                         const Widths& n) {
  const std::map<std::string, int64_t> sizes = {
      {"A", n.hidden}, {"A2", n.hidden}, {"Dq", n.query},     {"Dk", n.key},
      {"H", 1},        {"H?", 1},        {"Lmax", n.longest}, {"Dq+Dk", n.query + n.key}};
  Tensors made;
  for (const ParameterDef& p : def.parameters) {
    std::string plain = p.name;
    if (plain.ends_with('?')) plain.pop_back();
    Shape shape;
    for (const std::string& letter : p.shape) {
      const auto size = sizes.find(letter);
      if (size == sizes.end()) {
        throw Error("seq2seq", "the score '" + def.name + "' has a parameter of size " + letter +
                                   ", which a decoder cannot learn");
      }
      shape.push_back(size->second);
    }
    made[plain] = started(weights, name + '.' + plain, shape, p);
  }
  return made;
}

struct Source::Impl {
  const Seq2Seq& model;
  Looking looking;
  bool keep_weights;
  int64_t S;
  Tensor keys, values, lengths;  // [B,S,·]
  Score score;
  std::optional<Memory> memory;
  bool hard, drawn;
  Tensor expected;  // bool [B]: who takes the expectation

  Mask predicted() const {
    const Seq2SeqConfig& c = model.config;
    return masks::local_p(c.window, model.window.at("w_p"), model.window.at("u_p"));
  }

  Weighting weighting(int64_t t) const {
    if (hard && looking.mode == Mode::eval) return argmax_once();
    Weighting w = fovea::weighting(model.config.weighting);
    w.seed = mix64(looking.seed ^ mix64(static_cast<uint64_t>(t) + 1));
    return w;
  }

  // A step or all of them; Answer is a MemoryStep or an Attended.
  template <class Ask>
  Look look(const Ask& ask, int64_t t) {
    const auto answer = ask(weighting(t));
    Look result{.context = answer.context};
    if (keep_weights) result.weights = answer.weights().detach();
    if (!drawn || looking.mode == Mode::eval) return result;
    result.log_prob = answer.log_prob();
    result.entropy = answer.entropy();
    if (!expected) return result;
    const auto soft = ask(weightings::softmax());
    const Tensor zero = Tensor::zeros({});
    result.context = where(column(expected, soft.context.rank()), soft.context, result.context);
    result.log_prob = where(column(expected, result.log_prob.rank()), zero, result.log_prob);
    return result;
  }
};

Source::~Source() = default;

Source::Source(const Seq2Seq& m, const Tensor& sequence, const Tensor& lengths,
               const Looking& looking, bool keep_weights)
    : impl_(std::make_unique<Impl>(Impl{.model = m,
                                        .looking = looking,
                                        .keep_weights = keep_weights,
                                        .S = sequence.size(0),
                                        .lengths = lengths})) {
  Impl& s = *impl_;
  check_length(m.config, s.S);
  s.values = sequence.transpose(0, 1);
  s.keys = m.keys.weight ? m.keys(sequence).transpose(0, 1) : s.values;
  s.score = fovea::score(m.config.score, m.score);
  const WeightingDef& def = weighting_def(m.config.weighting);
  s.hard = def.hard;
  s.drawn = def.learns_by_log_prob;
  if (s.drawn && looking.semi_sampling > 0) {
    s.expected = coins(sequence.size(1), looking.semi_sampling, looking.seed);
  }
}

Look Source::step(const Tensor& query, int64_t t) {
  Impl& s = *impl_;
  if (!s.memory) s.memory.emplace(s.keys, s.values, s.score, s.lengths);
  const Seq2SeqConfig& c = s.model.config;
  Mask mask;
  if (c.locality == Locality::local_m) mask = around(t, c.window, s.S);
  if (c.locality == Locality::local_p) mask = s.predicted();
  return s.look([&](const Weighting& w) { return (*s.memory)(query, mask, w); }, t);
}

Look Source::all(const Tensor& queries) {
  Impl& s = *impl_;
  const Seq2SeqConfig& c = s.model.config;
  Mask mask = masks::lengths(s.lengths);
  if (c.locality == Locality::local_m) mask = mask & masks::window(c.window);
  if (c.locality == Locality::local_p) mask = mask & s.predicted();
  return s.look(
      [&](const Weighting& w) {
        return attend(queries, s.keys, s.values, {s.score, mask, w}, {.weights = s.keep_weights});
      },
      0);
}

}  // namespace fovea::models
