#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "fovea/error.h"
#include "fovea/ops.h"
#include "tasks/inside_blocks.h"

// What every head does, and what is lost without it.
namespace fovea::tasks {
namespace {

// Like labels have like numbers.
std::vector<int64_t> numbered(const std::vector<std::string>& labels) {
  std::map<std::string, int64_t> known;
  std::vector<int64_t> numbers;
  for (const std::string& label : labels) {
    numbers.push_back(known.try_emplace(label, static_cast<int64_t>(known.size())).first->second);
  }
  return numbers;
}

bool looks_at_itself(const std::string& layer) { return layer.ends_with(".self"); }

// Of rows whose token stood before: what goes to it, and to what followed it.
void add_repeats(HeadPattern& p, std::span<const float> w, int64_t columns,
                 std::span<const int64_t> tokens) {
  const auto rows = std::min(static_cast<int64_t>(w.size()) / columns, columns);
  double seen = 0;
  for (int64_t i = 1; i < rows; ++i) {
    double own = 0, next = 0;
    bool before = false;
    for (int64_t j = 0; j + 1 < i; ++j) {
      if (tokens[static_cast<size_t>(j)] != tokens[static_cast<size_t>(i)]) continue;
      before = true;
      own += static_cast<double>(w[static_cast<size_t>(i * columns + j)]);
      next += static_cast<double>(w[static_cast<size_t>(i * columns + j + 1)]);
    }
    if (before) p.duplicate += own, p.induction += next, seen += 1;
  }
  if (seen > 0) p.duplicate /= seen, p.induction /= seen;
}

HeadPattern mean_pattern(const std::vector<HeadPattern>& all) {
  HeadPattern mean;
  const auto n = static_cast<double>(std::max<size_t>(all.size(), 1));
  for (const HeadPattern& p : all) {
    mean.entropy += p.entropy / n, mean.distance += p.distance / n;
    mean.largest = std::max(mean.largest, p.largest);
    mean.previous += p.previous / n, mean.own += p.own / n, mean.first += p.first / n;
    mean.duplicate += p.duplicate / n, mean.induction += p.induction / n;
  }
  return mean;
}

using Key = std::pair<std::string, int64_t>;  // layer, head

std::map<Key, HeadPattern> patterns_on_repeated(const Inside& in) {
  std::map<Key, HeadPattern> all;
  if (!in.on_repeated) return all;
  const NoGrad off;
  std::map<Key, Tensor> weights;  // [B,L,L]
  const nn::HeadsHook hook = [&](const nn::Heads& heads) {
    for (int64_t h = 0; h < heads.queries.size(1); ++h) {
      weights[{heads.name, h}] = heads.attended.weights({.heads = {h}}).select(1, 0);
    }
    return Tensor();
  };
  const Tensor ids = in.on_repeated({}, {.hook = hook});  // [B,L]
  for (const auto& [head, w] : weights) {
    std::vector<HeadPattern> each;
    for (int64_t r = 0; r < w.size(0); ++r) {
      const std::vector<int64_t> tokens = looks_at_itself(head.first)
                                              ? ids.select(0, r).contiguous().to_ids()
                                              : std::vector<int64_t>();
      each.push_back(pattern_of(w.select(0, r).to_vector(), w.size(2), tokens));
    }
    all[head] = mean_pattern(each);
  }
  return all;
}

}  // namespace

HeadPattern pattern_of(std::span<const float> weights, int64_t columns,
                       std::span<const int64_t> tokens) {
  HeadPattern p;
  const int64_t rows = columns == 0 ? 0 : static_cast<int64_t>(weights.size()) / columns;
  const auto w = [&](int64_t i, int64_t j) {
    return static_cast<double>(weights[static_cast<size_t>(i * columns + j)]);
  };
  for (int64_t i = 0; i < rows; ++i) {
    double h = 0, away = 0, n = 0;
    for (int64_t j = 0; j < columns; ++j) {
      const double share = w(i, j);
      p.largest = std::max(p.largest, share);
      if (share <= 0) continue;
      h -= share * std::log(share);
      away += share * static_cast<double>(std::abs(i - j));
      n += 1;
    }
    p.entropy += n > 1 ? h / std::log(n) : 0;
    p.distance += away;
    if (i < columns) p.own += w(i, i);
    if (i > 0) p.first += w(i, 0);
    if (i > 0 && i <= columns) p.previous += w(i, i - 1);
  }
  const auto all = static_cast<double>(std::max<int64_t>(rows, 1));
  const auto later = static_cast<double>(std::max<int64_t>(rows - 1, 1));  // rows but the first
  p.entropy /= all, p.distance /= all, p.own /= all;
  p.first /= later, p.previous /= later;
  if (!tokens.empty()) add_repeats(p, weights, columns, tokens);
  return p;
}

const char* name_of(const HeadPattern& on_text, const HeadPattern& on_repeated) {
  constexpr double kMuch = 0.5, kRepeated = 0.4, kEven = 0.9;
  if (on_repeated.induction > kRepeated) return "induction";
  if (on_repeated.duplicate > kRepeated) return "duplicate";
  if (on_text.previous > kMuch) return "previous";
  if (on_text.own > kMuch) return "own";
  if (on_text.first > kMuch) return "first";
  return on_text.entropy > kEven ? "diffuse" : "";
}

void expect_heads(const Inside& in, const char* way) {
  if (in.opens != Inside::Opens::outputs && in.attention) return;
  throw Error("explain",
              in.opens == Inside::Opens::outputs
                  ? fmt::format("{} is of a Transformer's heads, and this model has none", way)
                  : fmt::format("{}: linear attention never computes its weights", way));
}

std::vector<HeadFound> patterns_of(const Inside& in, const HeadVisit& also) {
  expect_heads(in, "heads");
  const NoGrad off;
  std::map<std::string, std::vector<int64_t>> tokens;
  for (const LayerSeen& l : in.attention()) tokens[l.name] = numbered(l.columns);
  const std::map<Key, HeadPattern> repeated = patterns_on_repeated(in);
  std::vector<HeadFound> all;
  const nn::HeadsHook hook = [&](const nn::Heads& heads) {
    const std::vector<int64_t>& own = tokens[heads.name];
    for (int64_t h = 0; h < heads.queries.size(1); ++h) {
      const Tensor w = heads.attended.weights({.heads = {h}}).select(0, 0).select(0, 0);
      const int64_t columns = w.size(1);
      const std::vector<float> weights = w.to_vector();
      const bool known = looks_at_itself(heads.name) && static_cast<int64_t>(own.size()) == columns;
      HeadFound f{.layer = heads.name, .head = h};
      f.on_text = pattern_of(weights, columns, known ? std::span(own) : std::span<const int64_t>());
      if (const auto found = repeated.find({heads.name, h}); found != repeated.end()) {
        f.on_repeated = found->second;
      }
      f.does = name_of(f.on_text, f.on_repeated);
      all.push_back(std::move(f));
      if (also) also(heads.name, h, weights, columns);
    }
    return Tensor();
  };
  in.states(in.x.unsqueeze(0), {.hook = hook});
  return all;
}

// A head changes nothing before its own block: what those blocks gave is taken as it was.
std::vector<HeadFound> heads_of(const Inside& in, const Question& q, const ShareDone& done) {
  const NoGrad off;
  std::vector<HeadFound> all = patterns_of(in);
  const std::vector<BlockRows> rows =
      in.opens == Inside::Opens::blocks ? rows_of_blocks(in, in.x) : std::vector<BlockRows>();
  const Tensor x = in.x.unsqueeze(0);
  const double with = answers_to(in, q, in.states(x, {})).front();
  for (size_t i = 0; i < all.size(); ++i) {
    HeadFound& head = all[i];
    const std::string own = stack_of(head.layer);  // "decoder.0.self" → its block
    size_t at = 0;
    bool reached = false;
    const auto skip = [&](const nn::Block& b, const Tensor& y, const nn::BlockPass& pass) {
      const BlockRows& known = rows[at++];
      reached = reached || known.name == own;
      return reached ? b(y, pass) : known.after;
    };
    models::TransformerPass pass{.hook = without({{head.layer, head.head}})};
    if (!rows.empty()) pass.block = skip;
    head.lost = with - answers_to(in, q, in.states(x, pass)).front();
    if (done) done(static_cast<double>(i + 1) / static_cast<double>(all.size()));
  }
  return all;
}

}  // namespace fovea::tasks
