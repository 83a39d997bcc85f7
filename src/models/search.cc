#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>

#include "core/threads.h"
#include "fovea/ops.h"
#include "models/decoder.h"
#include "models/screen.h"
#include "tensor/impl.h"

// Decoding, greedy and by beam: one search, of which greedy is the case of one beam.
namespace fovea::models {
namespace {

constexpr int64_t kPadding = 0, kBegin = 2, kEnd = 3;
constexpr double kNever = -std::numeric_limits<double>::infinity();

struct Candidate {
  double score = kNever;  // log p so far
  int64_t beam = 0, token = 0;
  float logit = 0.0f;
};
bool better(const Candidate& a, const Candidate& b) {
  if (a.score != b.score) return a.score > b.score;
  if (a.beam != b.beam) return a.beam < b.beam;
  if (a.logit != b.logit) return a.logit > b.logit;  // log p may round what differs to the same
  return a.token < b.token;
}

// The best `count` continuations of rows [K,V], best first. Padding and begin are none.
struct Rows {
  const float *log_p, *logits;
};
std::vector<Candidate> best_of(Rows rows, const double* scores, int64_t K, int64_t V,
                               size_t count) {
  std::vector<Candidate> best;
  for (int64_t k = 0; k < K; ++k) {
    if (scores[k] == kNever) continue;
    for (int64_t v = 0; v < V; ++v) {
      if (v == kPadding || v == kBegin) continue;
      const int64_t at = k * V + v;
      const Candidate c{scores[k] + static_cast<double>(rows.log_p[at]), k, v, rows.logits[at]};
      if (best.size() == count && !better(c, best.back())) continue;
      best.insert(std::upper_bound(best.begin(), best.end(), c, better), c);
      if (best.size() > count) best.pop_back();
    }
  }
  return best;
}

// What happened at one step, for every row of the batch: rows are sentence·K + beam.
struct Trace {
  std::vector<int64_t> parent, token;
  Tensor weights;  // [B·K,S] of the parents' looks, or undefined
};

struct Ending {
  double score;
  int64_t step, beam;  // the last token is trace[step]'s, at this parent beam when it ended
  bool ended;
};

class Search {
 public:
  Search(const Seq2Seq& m, const Tensor& source, const Tensor& lengths, const DecodeConfig& c)
      : model_(m),
        c_(c),
        B_(source.size(1)),
        K_(c.beam),
        source_lengths_(lengths.to_ids()),
        decoder_(m, repeated(encode(m, source, lengths)), {}, c.weights),
        scores_(static_cast<size_t>(B_ * K_), kNever),
        endings_(static_cast<size_t>(B_)),
        done_(static_cast<size_t>(B_), 0) {
    if (may_screen()) screen_ = m.screen->of(m.output);
    for (int64_t b = 0; b < B_; ++b) scores_[static_cast<size_t>(b * K_)] = 0;
  }

  std::vector<std::vector<Decoded>> run() {
    std::vector<int64_t> previous(static_cast<size_t>(B_ * K_), kBegin);
    for (int64_t t = 0; !all_done(); ++t) previous = advance(previous, t);
    std::vector<std::vector<Decoded>> all;
    for (int64_t b = 0; b < B_; ++b) all.push_back(results(b));
    return all;
  }

 private:
  Encoded repeated(const Encoded& e) const {
    if (K_ == 1) return e;
    std::vector<int64_t> rows;
    for (int64_t b = 0; b < B_; ++b) rows.insert(rows.end(), static_cast<size_t>(K_), b);
    return select_rows(e, Tensor::from_ids(rows, {B_ * K_}));
  }

  // A sentence's own, whatever stands beside it.
  int64_t limit(int64_t b) const {
    return c_.longest > 0 ? c_.longest : 2 * source_lengths_[static_cast<size_t>(b)] + 10;
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

  // A screen reads a quarter of the layer, and for each row again.
  bool may_screen() const {
    constexpr int64_t kRows = 3, kFewest = 1024, kSmallest = 1 << 20;
    const int64_t V = model_.config.target_vocabulary;
    return model_.screen && K_ == 1 && B_ <= kRows && V >= kFewest &&
           V * model_.config.hidden >= kSmallest;
  }

  // o_t [B·K,H]
  Tensor outputs(const Tensor& ids, Trace& trace) {
    const Tensor y = model_.target(ids);
    const Decoder::Step s = decoder_.step(decoder_.gates(y));
    Look look = s.look;
    if (decoder_.looks_once()) {
      look = decoder_.source().step(s.state, static_cast<int64_t>(traces_.size()));
    }
    trace.weights = look.weights;
    if (s.out) return s.out;
    return read_out(model_, s.state, decoder_.fixed() ? decoder_.fixed() : look.context, y);
  }

  using Candidates = std::vector<std::vector<Candidate>>;  // by sentence, best first

  Candidates candidates(const Tensor& out) const {
    const Tensor logits = model_.output(out), log_p = log_softmax(logits);
    const int64_t V = log_p.size(1);
    Candidates all(static_cast<size_t>(B_));
    parallel_for(B_, K_ * V, [&](int64_t b) {
      if (done_[static_cast<size_t>(b)]) return;
      const int64_t first = b * K_;
      all[static_cast<size_t>(b)] =
          best_of({raw(log_p) + first * V, raw(logits) + first * V},
                  &scores_[static_cast<size_t>(first)], K_, V, static_cast<size_t>(2 * K_));
    });
    return all;
  }

  // The same for one beam and few sentences, by the screen alone; none where it has no answer.
  std::optional<Candidates> screened(const Tensor& out) const {
    static constexpr int64_t kNone[] = {kPadding, kBegin};
    Candidates all(static_cast<size_t>(B_));
    for (int64_t b = 0; b < B_; ++b) {
      if (done_[static_cast<size_t>(b)]) continue;
      const float* row = raw(out) + b * out.size(1);
      const auto c = kernels::choose(*screen_, matrix_of(model_.output), row, kNone);
      if (!c) return std::nullopt;
      const double log_p = static_cast<double>(c->logit) - c->log_sum;
      all[static_cast<size_t>(b)] = {{scores_[static_cast<size_t>(b)] + log_p, 0, c->row}};
    }
    return all;
  }

  std::vector<int64_t> advance(const std::vector<int64_t>& previous, int64_t t) {
    Trace trace;
    const Tensor out = outputs(Tensor::from_ids(previous, {B_ * K_}), trace);
    std::optional<Candidates> best = screen_ ? screened(out) : std::nullopt;
    if (!best) best = candidates(out);
    trace.parent.resize(previous.size());
    std::iota(trace.parent.begin(), trace.parent.end(), 0);
    trace.token.assign(previous.size(), kEnd);
    std::vector<double> next(scores_.size(), kNever);
    for (int64_t b = 0; b < B_; ++b) {
      if (done_[static_cast<size_t>(b)]) continue;
      choose(b, t, (*best)[static_cast<size_t>(b)], trace, next);
      if (t + 1 == limit(b)) cut(b, t + 1, next);
      done_[static_cast<size_t>(b)] = full(b) || t + 1 == limit(b);
    }
    scores_ = std::move(next);
    if (K_ > 1) decoder_.select_rows(Tensor::from_ids(trace.parent, {B_ * K_}));
    traces_.push_back(std::move(trace));
    return traces_.back().token;
  }

  // Endings leave the beam; the best that go on stay in it.
  void choose(int64_t b, int64_t t, const std::vector<Candidate>& best, Trace& trace,
              std::vector<double>& next) {
    int64_t kept = 0, seen = 0;
    for (const Candidate& c : best) {
      if (kept == K_) break;
      if (c.token == kEnd) {
        if (seen < K_ && !full(b)) {
          endings_[static_cast<size_t>(b)].push_back(
              {normalised(c.score, t + 1), t, b * K_ + c.beam, true});
        }
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

  // What has not ended at the limit counts as it is.
  void cut(int64_t b, int64_t tokens, const std::vector<double>& scores) {
    for (int64_t row = b * K_; row < (b + 1) * K_ && !full(b); ++row) {
      const double score = scores[static_cast<size_t>(row)];
      if (score == kNever) continue;
      endings_[static_cast<size_t>(b)].push_back({normalised(score, tokens), tokens, row, false});
    }
  }

  std::vector<Decoded> results(int64_t b) {
    std::vector<Ending>& endings = endings_[static_cast<size_t>(b)];
    std::stable_sort(endings.begin(), endings.end(),
                     [](const Ending& x, const Ending& y) { return x.score > y.score; });
    std::vector<Decoded> best;
    for (const Ending& e : endings) {
      if (static_cast<int64_t>(best.size()) < c_.n_best) best.push_back(follow(e, b));
    }
    return best;
  }

  // Back along the parents.
  Decoded follow(const Ending& e, int64_t b) const {
    Decoded d{.score = e.score, .ended = e.ended};
    int64_t row = e.beam;
    if (e.ended) keep_weights(d, e.step, row, b);
    for (int64_t t = e.step - 1; t >= 0; --t) {
      const Trace& trace = traces_[static_cast<size_t>(t)];
      d.tokens.push_back(trace.token[static_cast<size_t>(row)]);
      row = trace.parent[static_cast<size_t>(row)];
      keep_weights(d, t, row, b);
    }
    std::reverse(d.tokens.begin(), d.tokens.end());
    std::reverse(d.weights.begin(), d.weights.end());
    return d;
  }

  void keep_weights(Decoded& d, int64_t t, int64_t row, int64_t b) const {
    const Tensor& w = traces_[static_cast<size_t>(t)].weights;
    if (!w) return;
    const Tensor line = w.select(0, row).slice(0, 0, source_lengths_[static_cast<size_t>(b)]);
    d.weights.push_back(line.to_vector());
  }

  const Seq2Seq& model_;
  DecodeConfig c_;
  int64_t B_, K_;
  std::vector<int64_t> source_lengths_;
  Decoder decoder_;
  std::vector<double> scores_;
  std::vector<std::vector<Ending>> endings_;
  std::vector<uint8_t> done_;  // by sentence
  std::vector<Trace> traces_;
  std::shared_ptr<const kernels::Screen> screen_;
};

}  // namespace

std::vector<std::vector<Decoded>> decode(const Seq2Seq& m, const Tensor& source,
                                         const Tensor& source_lengths, const DecodeConfig& c) {
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
  const NoGrad off;
  return Search(m, source, source_lengths, c).run();
}

}  // namespace fovea::models
