#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "fovea/error.h"
#include "fovea/ops.h"
#include "tasks/deal.h"
#include "tasks/draw.h"
#include "tasks/lm/lm.h"
#include "tasks/lm/over_ranks.h"

namespace fovea::tasks::lm {
namespace {

// Window i begins somewhere in the i-th stretch of the text, elsewhere at each step.
Tensor windows(const Tokens& text, std::span<const int64_t> which, int64_t length, uint64_t seed) {
  constexpr uint64_t kShift = 11;
  const auto last = static_cast<int64_t>(text.size()) - length - 1;
  std::vector<int64_t> ids;
  for (const int64_t i : which) {
    Draw draw(seed, static_cast<uint64_t>(i), kShift);
    const int64_t begin = std::min(i * length + draw.below(length), last);
    ids.insert(ids.end(), text.begin() + begin, text.begin() + begin + length + 1);
  }
  return Tensor::from_ids(ids, {static_cast<int64_t>(which.size()), length + 1});
}

int64_t window_of(const LanguageModel& m, const Tokens& text) {
  return std::min(m.config.context, static_cast<int64_t>(text.size()) - 1);
}

// −log p of ids [B,T+1]'s tokens but the first: [B,T].
Tensor each_loss(const LanguageModel& m, const Tensor& ids) {
  const int64_t T = ids.size(1) - 1;
  const Tensor states = models::decode_all(m.model, ids.slice(1, 0, T));
  return cross_entropy(models::logits(m.model, states), ids.slice(1, 1, T + 1).contiguous(),
                       {.reduction = Reduction::none});
}

// Where a stop is asked for on any rank, all throw.
void expect_no_stop(const ShareDone& done) {
  const bool mine = done.stop() != nullptr && done.stop()->load();
  const std::vector<int> all = team::gather(done.team(), static_cast<int>(mine));
  if (std::ranges::find(all, 1) != all.end()) throw train::Stopped{};
}

struct Total {
  double loss = 0;
  int64_t tokens = 0;
};

// By place in the window, over windows side by side, as many at once as a step of training has; the
// last one is shorter.
std::vector<Total> totals_by_place(const LanguageModel& m, const Tokens& text,
                                   const ShareDone& done) {
  const NoGrad off;
  const int64_t C = window_of(m, text), n = static_cast<int64_t>(text.size()) - 1;
  const int64_t rows = std::max<int64_t>(1, m.config.train.batch_tokens / C);
  struct Windows {
    int64_t at, B, T;
  };
  std::vector<Windows> parts;
  for (int64_t at = 0; at < n; at += parts.back().B * parts.back().T) {
    const int64_t whole = std::min(rows, (n - at) / C);
    parts.push_back({at, std::max<int64_t>(whole, 1), whole > 0 ? C : n - at});
  }
  const auto windows_at = [&](size_t part) {
    const auto [at, B, T] = parts[part];
    std::vector<int64_t> ids;
    for (int64_t b = 0; b < B; ++b) {
      const auto begin = text.begin() + at + b * T;
      ids.insert(ids.end(), begin, begin + T + 1);
    }
    return Tensor::from_ids(ids, {B, T + 1});
  };
  const auto work = [&](size_t part) { return each_loss(m, windows_at(part)).to_vector(); };
  std::vector<Total> totals(static_cast<size_t>(C));
  const auto take = [&](size_t part, const std::vector<float>& losses) {
    for (size_t i = 0; i < losses.size(); ++i) {
      Total& t = totals[i % static_cast<size_t>(parts[part].T)];
      t.loss += static_cast<double>(losses[i]);
      ++t.tokens;
    }
  };
  if (!m.config.context_ranks) {
    deal(done, parts.size(), work, take);
    return totals;
  }
  for (size_t part = 0; part < parts.size(); ++part) {
    expect_no_stop(done);
    const bool shared = parts[part].T >= kLeastShared;
    take(part, shared ? shared_losses(m, windows_at(part), done.team()) : work(part));
    done(static_cast<double>(part + 1) / static_cast<double>(parts.size()));
  }
  return totals;
}

int64_t characters_of(std::span<const std::string> lines) {
  int64_t n = 0;
  for (const std::string& line : lines) {
    n += static_cast<int64_t>(text::characters(line).size()) + 1;
  }
  return n;
}

train::Scores scores_of(const Total& t, int64_t characters) {
  const double loss = t.loss / static_cast<double>(t.tokens);
  return {{"loss", loss},
          {"perplexity", std::exp(loss)},
          {"bits", t.loss / std::log(2.0) / static_cast<double>(characters)}};
}

// bf16 is what a GPU computes in, and windows of which ranks hold parts are f32.
void check_type(const LmConfig& c) {
  if (c.context_ranks) throw Error("train", "--type bf16: not together with --context-ranks");
  if (default_device() == Device::cpu) {
    throw Error("train", "--type bf16: the CPU does not compute in it; take --device cuda");
  }
}

// What is known of the built-in tales alone.
void add_answered(train::Scores& scores, const LanguageModel& m, std::span<const std::string> lines,
                  const ShareDone& done) {
  if (!m.has_questions()) return;
  const RightAnswers a = right_answers(m, lines, done);
  if (a.questions == 0) return;
  scores.emplace_back("answered",
                      100.0 * static_cast<double>(a.right) / static_cast<double>(a.questions));
}

}  // namespace

Evaluation evaluate(const LanguageModel& m, std::span<const std::string> lines,
                    const ShareDone& done) {
  const Tokens text = encode(m.tokenizer, lines);
  if (text.size() < 2) throw Error("evaluate", "there is no text to score");
  const std::vector<Total> by_place = totals_by_place(m, text, done);
  Total all;
  for (const Total& t : by_place) all = {all.loss + t.loss, all.tokens + t.tokens};
  Evaluation e{.count = all.tokens, .unit = "tokens"};
  e.scores = scores_of(all, characters_of(lines));
  add_answered(e.scores, m, lines, done);
  // The first tokens of a window have little to look at.
  Breakdown places{.by = "place in the context"};
  for (size_t low = 0, high = 0; low < by_place.size(); low = high + 1) {
    high = std::min(by_place.size() - 1, low == 0 ? 7 : 2 * low - 1);
    Total some;
    for (size_t i = low; i <= high; ++i) {
      some = {some.loss + by_place[i].loss, some.tokens + by_place[i].tokens};
    }
    if (some.tokens == 0) continue;
    places.parts.push_back({Between{static_cast<int64_t>(low) + 1, static_cast<int64_t>(high) + 1},
                            some.tokens,
                            {{"loss", some.loss / static_cast<double>(some.tokens)}}});
  }
  e.breakdowns.push_back(std::move(places));
  return e;
}

train::Learner learner(const LanguageModel& m, const LmSets& sets, const Watching& watching) {
  const auto text = std::make_shared<const Tokens>(encode(m.tokenizer, sets.train));
  const auto valid = std::make_shared<const Tokens>(encode(m.tokenizer, sets.valid));
  if (text->size() < 3 || valid->size() < 2) throw Error("train", "there is too little text");
  if (m.config.watch == "answered" && !m.has_questions()) {
    throw Error("train",
                "--watch answered: built-in tales alone have questions, for a model from scratch; "
                "watch loss, perplexity or bits");
  }
  const int64_t length = window_of(m, *text);
  if (m.config.loss.type != DType::f32) check_type(m.config);
  if (m.config.context_ranks) check_shared(m, length, *watching.team);
  if (watching.say) {
    watching.say(
        fmt::format("{} tokens to train, {} to validate; {} different ones; {:.2f} million "
                    "weights",
                    text->size(), valid->size(), m.tokenizer.size(),
                    static_cast<double>(m.model.weights.count()) / 1e6));
    if (length < m.config.context) {
      watching.say(fmt::format("the text is shorter than the context: windows of {}", length));
    }
  }
  train::Learner l;
  l.parameters = m.model.weights.learned();
  l.buffers = m.model.weights.buffers();
  l.lengths.assign(std::max<size_t>(1, (text->size() - 1) / static_cast<size_t>(length)), length);
  l.loss = [&m, text, length](std::span<const int64_t> which, uint64_t seed) {
    models::LossConfig c = m.config.loss;
    c.seed = seed;
    const models::Loss loss = models::loss(m.model, windows(*text, which, length, seed), c);
    return train::StepLoss{loss.loss, loss.nll, static_cast<double>(loss.tokens)};
  };
  if (m.config.context_ranks) {
    l.shared = shared_batches(length);
    l.loss = [&m, text, length, team = watching.team, shared = l.shared](
                 std::span<const int64_t> which, uint64_t seed) {
      models::LossConfig c = m.config.loss;
      c.seed = seed;
      return shared_loss(m, windows(*text, which, length, seed), c, *team, *shared);
    };
  }
  l.validate = [&m, &sets, valid, done = stopping(watching)] {
    Total all;
    for (const Total& t : totals_by_place(m, *valid, done)) {
      all = {all.loss + t.loss, all.tokens + t.tokens};
    }
    train::Scores scores = scores_of(all, characters_of(sets.valid));
    add_answered(scores, m, sets.valid, done);
    return scores;
  };
  l.unit = "tokens";
  l.watch = m.config.watch;
  l.higher_is_better = find_measure(measures(), l.watch)->better == Better::higher;
  return l;
}

}  // namespace fovea::tasks::lm
