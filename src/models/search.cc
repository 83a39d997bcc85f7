#include "fovea/search.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "fovea/ops.h"
#include "kernels/continuations.h"
#include "tensor/impl.h"

// One search, of which greedy is the case of one beam.
namespace fovea::models {
namespace {

using kernels::kImpossible;

// What happened at one step, for every row: rows are sequence·K + beam.
struct Trace {
  std::vector<int64_t> parent, token;
  Tensor weights;               // [B·K,S] of the parents' looks, or undefined
  std::vector<int64_t> places;  // [B·K] of their largest, or empty
};

struct Ending {
  double score;
  int64_t step, beam;  // the last token is trace[step]'s, at this parent beam when it ended
  bool ended;
};

class Search {
 public:
  Search(Generator& generator, const Sequences& sequences, const DecodeConfig& c)
      : generator_(generator),
        sequences_(sequences),
        c_(c),
        B_(static_cast<int64_t>(sequences.first.size())),
        K_(c.beam),
        scores_(static_cast<size_t>(B_ * K_), kImpossible),
        endings_(static_cast<size_t>(B_)),
        done_(static_cast<size_t>(B_), 0) {
    for (int64_t b = 0; b < B_; ++b) scores_[static_cast<size_t>(b * K_)] = 0;
  }

  std::vector<std::vector<Decoded>> run() {
    std::vector<int64_t> previous;
    for (const int64_t token : sequences_.first) {
      previous.insert(previous.end(), static_cast<size_t>(K_), token);
    }
    for (int64_t t = 0; !all_done(); ++t) previous = advance(previous, t);
    std::vector<std::vector<Decoded>> all;
    for (int64_t b = 0; b < B_; ++b) all.push_back(results(b));
    return all;
  }

 private:
  // A sequence's own, whatever stands beside it.
  int64_t limit(int64_t b) const {
    return c_.longest > 0 ? c_.longest : sequences_.limits[static_cast<size_t>(b)];
  }
  bool full(int64_t b) const {
    return endings_[static_cast<size_t>(b)].size() >= static_cast<size_t>(K_);
  }
  bool all_done() const {
    return std::all_of(done_.begin(), done_.end(), [](uint8_t done) { return done != 0; });
  }

  double normalised(double score, int64_t tokens) const {
    return score / std::pow(static_cast<double>(tokens), static_cast<double>(c_.length_power));
  }

  using Candidates = std::vector<std::vector<kernels::Continuation>>;  // by sequence, best first

  Candidates candidates() {
    const Tensor logits = generator_.logits().to(Device::cpu).contiguous();
    if (logits.rank() != 2 || logits.size(0) != B_ * K_) {
      throw Error("search", "the logits are " + to_string(logits.shape()) + ", expected [" +
                                std::to_string(B_ * K_) + ", V]");
    }
    const Tensor log_p = log_softmax(logits);
    // As many as go on even where all ends are the likeliest of every beam.
    const auto rounds = static_cast<int64_t>(std::max<size_t>(2, 1 + sequences_.ends.size()));
    return kernels::best_continuations({.B = B_,
                                        .K = K_,
                                        .V = log_p.size(1),
                                        .log_p = raw(log_p),
                                        .logits = raw(logits),
                                        .scores = scores_.data(),
                                        .done = done_.data()},
                                       sequences_.never, static_cast<size_t>(K_ * rounds));
  }

  // The same for one beam, where the generator knows the likeliest by itself.
  std::optional<Candidates> likeliest() {
    if (K_ > 1) return std::nullopt;
    Candidates all(static_cast<size_t>(B_));
    for (int64_t b = 0; b < B_; ++b) {
      if (done_[static_cast<size_t>(b)]) continue;
      const auto one = generator_.likeliest(b, sequences_.never);
      if (!one) return std::nullopt;
      all[static_cast<size_t>(b)] = {{scores_[static_cast<size_t>(b)] + one->log_p, 0, one->token}};
    }
    return all;
  }

  // While a beginning is given, it is the only one.
  Candidates given(int64_t token) {
    const Tensor log_p = log_softmax(generator_.logits().to(Device::cpu).contiguous());
    const int64_t V = log_p.size(1);
    if (token < 0 || token >= V) {
      throw Error("search", "the prefix has token " + std::to_string(token) + ", expected one of " +
                                std::to_string(V));
    }
    Candidates all(static_cast<size_t>(B_));
    for (int64_t b = 0; b < B_; ++b) {
      const auto row = static_cast<size_t>(b * K_);
      all[static_cast<size_t>(b)] = {
          {scores_[row] + static_cast<double>(raw(log_p)[b * K_ * V + token]), 0, token}};
    }
    return all;
  }

  std::vector<int64_t> advance(const std::vector<int64_t>& previous, int64_t t) {
    Trace trace;
    generator_.advance(Tensor::from_ids(previous, {B_ * K_}));
    if (c_.weights || c_.places) keep_looks(generator_.weights(), trace);
    const auto step = static_cast<size_t>(t);
    std::optional<Candidates> best;
    if (step < c_.prefix.size()) best = given(c_.prefix[step]);
    if (!best) best = likeliest();
    if (!best) best = candidates();
    trace.parent.resize(previous.size());
    std::iota(trace.parent.begin(), trace.parent.end(), 0);
    trace.token.assign(previous.size(), sequences_.ends.empty() ? 0 : sequences_.ends.front());
    std::vector<double> next(scores_.size(), kImpossible);
    for (int64_t b = 0; b < B_; ++b) {
      if (done_[static_cast<size_t>(b)]) continue;
      choose(b, t, (*best)[static_cast<size_t>(b)], trace, next);
      if (t + 1 == limit(b)) cut(b, t + 1, next);
      done_[static_cast<size_t>(b)] = has_enough(b, t + 1, next) || t + 1 == limit(b);
    }
    scores_ = std::move(next);
    if (K_ > 1) generator_.select_rows(Tensor::from_ids(trace.parent, {B_ * K_}));
    traces_.push_back(std::move(trace));
    return traces_.back().token;
  }

  // Endings leave the beam; the best that go on stay in it.
  void choose(int64_t b, int64_t t, const std::vector<kernels::Continuation>& best, Trace& trace,
              std::vector<double>& next) {
    int64_t kept = 0, seen = 0;
    for (const kernels::Continuation& c : best) {
      if (kept == K_) break;
      if (ends(c.token)) {
        if (seen < K_) end(b, {normalised(c.score, t + 1), t, b * K_ + c.beam, true});
        if (K_ == 1) return;
      } else {
        const auto row = static_cast<size_t>(b * K_ + kept++);
        trace.parent[row] = b * K_ + c.beam;
        trace.token[row] = c.token;
        next[row] = c.score;
      }
      ++seen;
    }
  }

  bool ends(int64_t token) const {
    return std::find(sequences_.ends.begin(), sequences_.ends.end(), token) !=
           sequences_.ends.end();
  }

  // One more ending; of more than there are beams, the best stay where better ones are waited for.
  void end(int64_t b, const Ending& ending) {
    std::vector<Ending>& all = endings_[static_cast<size_t>(b)];
    if (!full(b)) {
      all.push_back(ending);
    } else if (c_.enough == Enough::better) {
      Ending& worst = worst_of(b);
      if (ending.score > worst.score) worst = ending;
    }
  }
  Ending& worst_of(int64_t b) {
    std::vector<Ending>& all = endings_[static_cast<size_t>(b)];
    return *std::min_element(all.begin(), all.end(),
                             [](const Ending& x, const Ending& y) { return x.score < y.score; });
  }

  // Scores fall with every token: the best that goes on counts as if it ended here.
  bool has_enough(int64_t b, int64_t tokens, const std::vector<double>& next) {
    if (!full(b)) return false;
    if (c_.enough == Enough::endings) return true;
    const double best = next[static_cast<size_t>(b * K_)];
    return best == kImpossible || normalised(best, tokens) <= worst_of(b).score;
  }

  // What has not ended at the limit counts as it is.
  void cut(int64_t b, int64_t tokens, const std::vector<double>& scores) {
    for (int64_t row = b * K_; row < (b + 1) * K_; ++row) {
      const double score = scores[static_cast<size_t>(row)];
      if (score != kImpossible) end(b, {normalised(score, tokens), tokens, row, false});
    }
  }

  std::vector<Decoded> results(int64_t b) {
    std::vector<Ending>& endings = endings_[static_cast<size_t>(b)];
    std::stable_sort(endings.begin(), endings.end(),
                     [](const Ending& x, const Ending& y) { return x.score > y.score; });
    std::vector<Decoded> best;
    for (const Ending& e : endings) {
      if (static_cast<int64_t>(best.size()) < c_.n_best) best.push_back(follow(e));
    }
    return best;
  }

  // Back along the parents.
  Decoded follow(const Ending& e) const {
    Decoded d{.score = e.score, .ended = e.ended};
    int64_t row = e.beam;
    if (e.ended) add_looks(d, e.step, row);
    for (int64_t t = e.step - 1; t >= 0; --t) {
      const Trace& trace = traces_[static_cast<size_t>(t)];
      d.tokens.push_back(trace.token[static_cast<size_t>(row)]);
      row = trace.parent[static_cast<size_t>(row)];
      add_looks(d, t, row);
    }
    std::reverse(d.tokens.begin(), d.tokens.end());
    std::reverse(d.weights.begin(), d.weights.end());
    std::reverse(d.places.begin(), d.places.end());
    return d;
  }

  // All weights of all steps are as long as the source squared: only who asks for them has them.
  void keep_looks(const Tensor& weights, Trace& trace) const {
    if (!weights) return;
    if (c_.places) trace.places = argmax(weights, 1).to_ids();
    if (c_.weights) trace.weights = weights;
  }

  void add_looks(Decoded& d, int64_t t, int64_t row) const {
    const Trace& trace = traces_[static_cast<size_t>(t)];
    if (trace.weights) d.weights.push_back(trace.weights.select(0, row).to_vector());
    if (!trace.places.empty()) d.places.push_back(trace.places[static_cast<size_t>(row)]);
  }

  Generator& generator_;
  const Sequences& sequences_;
  DecodeConfig c_;
  int64_t B_, K_;
  std::vector<double> scores_;
  std::vector<std::vector<Ending>> endings_;
  std::vector<uint8_t> done_;  // by sequence
  std::vector<Trace> traces_;
};

void check_prefix(const Sequences& s, const DecodeConfig& c) {
  for (const int64_t token : c.prefix) {
    const auto in = [&](const std::vector<int64_t>& some) {
      return std::find(some.begin(), some.end(), token) != some.end();
    };
    if (in(s.ends) || in(s.never)) {
      throw Error("search", "the prefix has token " + std::to_string(token) +
                                ", which ends a sequence or is in none");
    }
  }
  const auto room = [&](int64_t limit) {
    if (static_cast<int64_t>(c.prefix.size()) < limit) return;
    throw Error("search", "a prefix of " + std::to_string(c.prefix.size()) +
                              " tokens leaves nothing to write: the limit is " +
                              std::to_string(limit));
  };
  if (c.longest > 0) return room(c.longest);
  for (const int64_t limit : s.limits) room(limit);
}

void check(const Sequences& s, const DecodeConfig& c) {
  if (c.longest > 0) return;
  if (s.limits.size() != s.first.size()) {
    throw Error("search", "expected a limit for each of " + std::to_string(s.first.size()) +
                              " sequences, found " + std::to_string(s.limits.size()));
  }
  for (const int64_t limit : s.limits) {
    if (limit < 1) {
      throw Error("search", "a limit must be 1 or more, found " + std::to_string(limit));
    }
  }
}

}  // namespace

Tensor Generator::weights() { return {}; }

std::optional<Generator::Likeliest> Generator::likeliest(int64_t, std::span<const int64_t>) {
  return std::nullopt;
}

void check(const DecodeConfig& c) {
  if (c.beam < 1 || c.beam > kLargestBeam) {
    throw Error("decode", "beam must be in [1, " + std::to_string(kLargestBeam) + "], found " +
                              std::to_string(c.beam));
  }
  if (c.n_best < 1 || c.n_best > c.beam) {
    throw Error("decode", "n_best must be in [1, beam], found " + std::to_string(c.n_best));
  }
  if (c.longest < 0) {
    throw Error("decode", "longest must be 0 or more, found " + std::to_string(c.longest));
  }
}

std::vector<std::vector<Decoded>> search(Generator& generator, const Sequences& sequences,
                                         const DecodeConfig& c) {
  check(c);
  check(sequences, c);
  if (!c.prefix.empty()) check_prefix(sequences, c);
  const NoGrad off;
  return Search(generator, sequences, c).run();
}

}  // namespace fovea::models
