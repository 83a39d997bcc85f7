#include "fovea/look.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <optional>
#include <vector>

#include "attention/def.h"
#include "core/random.h"
#include "fovea/memory.h"
#include "models/checks.h"
#include "nn/score_weights.h"

namespace fovea::models {
namespace {

const ScoreDef& score_def(const LookConfig& c) { return *fovea::score(c.score).def; }
const WeightingDef& weighting_def(const LookConfig& c) {
  return *fovea::weighting(c.weighting).def;
}

// A score by position ends somewhere.
void check_length(const LookConfig& c, const ScoreDef& score, int64_t S) {
  for (const ParameterDef& p : score.parameters) {
    const bool by_position = std::find(p.shape.begin(), p.shape.end(), "Lmax") != p.shape.end();
    if (by_position && S > c.longest_source) {
      throw Error("look", "the source has " + std::to_string(S) + " keys, the score '" + c.score +
                              "' is made for longest_source = " + std::to_string(c.longest_source));
    }
  }
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

// Of [B,S,·] in its own layout: time-major stays so, and nothing is copied.
Tensor projected(const nn::Linear& layer, const Tensor& x) {
  const Tensor by_key = x.transpose(0, 1);
  if (!x.is_contiguous() && by_key.is_contiguous()) return layer(by_key).transpose(0, 1);
  return layer(x);
}

}  // namespace

const char* name_of(Locality l) {
  static constexpr const char* kNames[] = {"global", "local_m", "local_p"};
  return kNames[static_cast<int>(l)];
}

Locality locality(const std::string& name) {
  return by_name("look", "locality", name,
                 {Locality::global, Locality::local_m, Locality::local_p});
}

void check(const LookConfig& c) {
  expect_range("look", "window", c.window, 1, kLargest);
  expect_range("look", "longest_source", c.longest_source, 1, kLargest);
  score_def(c);
  weighting_def(c);
}

bool draws(const LookConfig& c) { return weighting_def(c).learns_by_log_prob; }

LookWeights look_weights(nn::Weights& w, const std::string& prefix, const LookConfig& c,
                         const LookWidths& given) {
  check(c);
  LookWeights made;
  LookWidths n = given;
  if (score_def(c).equal_widths && n.key != n.query) {
    made.keys = nn::linear(w, prefix + "keys", n.key, n.query, nn::WithBias::no);
    n.key = n.query;
  }
  made.score = nn::score_weights(
      w, prefix + "score.", c.score,
      {.query = n.query, .key = n.key, .hidden = n.hidden, .longest = c.longest_source});
  if (c.locality == Locality::local_p) {
    made.window["w_p"] = w.add(prefix + "window.w_p", {n.hidden, n.query}, nn::Init::xavier);
    made.window["u_p"] = w.add(prefix + "window.u_p", {n.hidden}, nn::Init::uniform);
  }
  if (weighting_def(c).hard) made.baseline = nn::linear(w, prefix + "baseline", n.query, 1);
  return made;
}

struct Looker::State {
  LookConfig config;
  LookWeights weights;
  LookPass pass;
  Tensor keys, values, lengths;  // [B,S,·], i64 [B]
  Score score;
  Weighting chosen;              // hard ones take the likeliest where nothing is learned
  std::optional<Memory> memory;  // from the first step on
  bool draws = false;
  Tensor seen_values;  // [B,S,C], 0 past the lengths; from the first intervention on

  int64_t S() const { return values.size(1); }

  Weighting weighting(int64_t t) const {
    Weighting w = chosen;
    w.seed = Seed(pass.seed).at("look").at(t).value();
    return w;
  }

  Mask predicted() const {
    return masks::local_p(config.window, weights.window.at("w_p"), weights.window.at("u_p"));
  }

  Mask mask_of_step(int64_t t) const {
    if (config.locality == Locality::local_m) return around(t, config.window, S());
    return config.locality == Locality::local_p ? predicted() : Mask();
  }

  Mask mask_of_all() const {
    if (config.locality == Locality::local_m) return masks::window(config.window);
    return config.locality == Locality::local_p ? predicted() : Mask();
  }

  // What is looked with: queries [B,Q] at step t or [B,T,Q] from it on, and a mask beside the
  // lengths.
  struct At {
    Tensor queries;
    Mask mask;
    int64_t t = 0;
  };

  // ask(weighting) gives a MemoryStep or an Attended.
  template <class Ask>
  Look look(const Ask& ask, const At& at) {
    const auto answer = ask(weighting(at.t));
    Look result{.context = answer.context};
    Tensor w;
    if (pass.keep_weights || pass.intervention) w = answer.weights();
    if (draws) {
      result.log_prob = answer.log_prob();
      result.entropy = answer.entropy();
    }
    if (draws && pass.expected) {
      const auto soft = ask(weightings::softmax());
      const auto mixed = [&](const Tensor& mean, const Tensor& drawn) {
        return where(column(pass.expected, drawn.rank()), mean, drawn);
      };
      result.context = mixed(soft.context, result.context);
      result.log_prob = mixed(Tensor::zeros({}), result.log_prob);
      if (w) w = mixed(soft.weights(), w);
    }
    if (pass.intervention) intervene(at, w, result.context);
    if (pass.keep_weights) result.weights = w.detach();
    return result;
  }

  // The one place where weights are read, differentiated and replaced; the context follows.
  void intervene(const At& at, Tensor& w, Tensor& context) {
    const bool one = w.rank() == 2;
    const Tensor own = one ? w.unsqueeze(1) : w;  // [B,T,S]
    const auto permitted = [&] { return may_see(at); };
    Tensor used = pass.intervention({.weights = own, .t = at.t, .permitted = permitted});
    if (!used || used.shape() != own.shape()) {
      throw Error("look", "an intervention gave weights " +
                              (used ? to_string(used.shape()) : std::string("undefined")) +
                              ", expected " + to_string(own.shape()));
    }
    if (used.impl() != own.impl()) used = where(permitted(), used, Tensor::scalar(0.0f));
    if (!seen_values) seen_values = only_seen();
    const Tensor contexts = matmul(used, seen_values);  // [B,T,C]
    w = one ? used.squeeze(1) : used;
    context = one ? contexts.squeeze(1) : contexts;
  }

  // Where all scores are 0, softmax leaves no permitted key without a weight.
  Tensor may_see(const At& at) const {
    const NoGrad off;
    Score zero = score;
    zero.scale = 0.0f;
    const Tensor q = at.queries.rank() == 2 ? at.queries.unsqueeze(1) : at.queries;
    const Attended a = attend(q, keys, values, {zero, masks::lengths(lengths) & at.mask, {}});
    return greater(a.weights(), Tensor::scalar(0.0f));
  }

  Tensor only_seen() const {
    const Tensor j = Tensor::arange(S()).reshape({1, S(), 1});
    return where(less(j, column(lengths, 3)), values, Tensor::scalar(0.0f));
  }
};

Looker::Looker(const LookConfig& config, const LookWeights& weights, const LookSource& source,
               const LookPass& pass)
    : state_(std::make_unique<State>(State{.config = config,
                                           .weights = weights,
                                           .pass = pass,
                                           .keys = source.keys,
                                           .values = source.values,
                                           .lengths = source.lengths})) {
  State& s = *state_;
  s.score = fovea::score(config.score, weights.score);
  check_length(config, *s.score.def, s.S());
  if (weights.keys.weight) s.keys = projected(weights.keys, source.keys);
  s.chosen = fovea::weighting(config.weighting);
  s.draws = s.chosen.def->learns_by_log_prob && pass.mode == Mode::train;
  if (s.chosen.def->hard && pass.mode == Mode::eval) s.chosen = weightings::argmax();
}

Looker::~Looker() = default;
Looker::Looker(Looker&&) noexcept = default;
Looker& Looker::operator=(Looker&&) noexcept = default;

Look Looker::step(const Tensor& query, int64_t t) {
  State& s = *state_;
  if (!s.memory) s.memory.emplace(s.keys, s.values, s.score, s.lengths);
  const State::At at{query, s.mask_of_step(t), t};
  return s.look([&](const Weighting& w) { return (*s.memory)(query, at.mask, w); }, at);
}

Look Looker::all(const Tensor& queries) {
  State& s = *state_;
  const State::At at{queries, s.mask_of_all(), 0};
  const Mask mask = masks::lengths(s.lengths) & at.mask;
  const Want want{.weights = s.pass.keep_weights || s.pass.intervention};
  return s.look(
      [&](const Weighting& w) {
        return attend(queries, s.keys, s.values, {s.score, mask, w}, want);
      },
      at);
}

}  // namespace fovea::models
