#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "fovea/error.h"
#include "fovea/ops.h"
#include "tasks/inside_blocks.h"

// What a row carries: it is taken from another text (Meng et al. 2022; Wang et al. 2022).
namespace fovea::tasks {
namespace {

constexpr int64_t kRowsAtOnce = 2048;  // of all passes together
constexpr double kApart = 1e-5;        // nats between the two texts, below which nothing follows

// [R,L,W]: the other text's rows where they are asked for, the input's else.
Tensor exchanged(const Tensor& own, const Tensor& other,
                 const std::vector<std::vector<int64_t>>& rows) {
  const auto R = static_cast<int64_t>(rows.size());
  const int64_t L = own.size(1);
  std::vector<float> taken(static_cast<size_t>(R * L), 0.0f);
  for (int64_t r = 0; r < R; ++r) {
    for (const int64_t t : rows[static_cast<size_t>(r)]) taken[static_cast<size_t>(r * L + t)] = 1;
  }
  const Tensor mask = greater(Tensor::from(taken, {R, L, 1}), Tensor::scalar(0.0f));
  return where(mask, other, own);
}

std::vector<int64_t> answers_of(const Inside& in, const Tensor& states) {
  std::vector<int64_t> outputs, said;
  for (int64_t t = 0; t < states.size(1); ++t) outputs.push_back(t);
  each_log_p(in, states, outputs, [&](size_t, std::span<const float> log_p) {
    said.push_back(std::max_element(log_p.begin(), log_p.end()) - log_p.begin());
  });
  return said;
}

// The last output where the two say something else, or the last.
Contrast contrast_between(const Inside& in, const Tensor& own, const Tensor& other) {
  const std::vector<int64_t> a = answers_of(in, own), b = answers_of(in, other);
  size_t t = a.size() - 1;
  while (t > 0 && a[t] == b[t]) --t;
  if (a[t] == b[t]) t = a.size() - 1;
  return {.output = in.side_by_side ? a[t] : static_cast<int64_t>(t), .a = a[t], .b = b[t]};
}

// y by pass: log p_b − log p_a, or the log odds of what both say.
std::vector<double> following(const Inside& in, const Contrast& c, const Tensor& states) {
  if (c.a != c.b) {
    return answers_to(in, {.targets = {}, .contrast = Contrast{c.output, c.b, c.a}}, states);
  }
  std::vector<double> y = answers_to(in, {.targets = {{c.output, c.a}}, .contrast = {}}, states);
  for (double& x : y) x = x - std::log(-std::expm1(std::min(x, -1e-12)));
  return y;
}

// "France | Italy" where the two differ.
std::vector<std::string> labels_of_both(const Inside& in, const Inside& other) {
  std::vector<std::string> labels = in.inputs;
  for (size_t i = 0; i < labels.size() && i < other.inputs.size(); ++i) {
    if (labels[i] != other.inputs[i]) labels[i] += " | " + other.inputs[i];
  }
  return labels;
}

// An encoder's rows are the inputs, and those of a picture before them tokens of its own; a decoder
// beside an encoder has read what was written.
std::vector<std::string> row_labels(const Inside& in, const Inside& other, int64_t rows,
                                    bool source) {
  const auto n = static_cast<size_t>(rows);
  std::vector<std::string> labels;
  if (source) {
    labels = labels_of_both(in, other);
  } else {
    labels = {"⇥"};
    labels.insert(labels.end(), in.outputs.begin(), in.outputs.end());
  }
  if (source && labels.size() < n) {
    const size_t before = n - labels.size();
    for (size_t i = before; i > 0; --i) labels.insert(labels.begin(), fmt::format("token {}", i));
  }
  labels.resize(n);
  return labels;
}

bool are_alike(const Tensor& a, const Tensor& b) { return a.to_vector() == b.to_vector(); }

struct Exchange {
  const Inside& in;
  std::vector<BlockRows> own, other;
};

// Row by row; rows that are the same in both texts carry nothing.
std::vector<float> block_followed(const Exchange& both, size_t block, const Followed& f,
                                  const ShareDone& done) {
  const Tensor &own = both.own[block].before, &other = both.other[block].before;
  const int64_t L = own.size(1);
  std::vector<int64_t> places;
  for (int64_t t = 0; t < L; ++t) {
    if (!are_alike(own.select(1, t), other.select(1, t))) places.push_back(t);
  }
  std::vector<float> follows(static_cast<size_t>(L), 0.0f);
  const auto at_once = static_cast<size_t>(std::clamp<int64_t>(kRowsAtOnce / L, 1, 64));
  for (size_t begin = 0; begin < places.size(); begin += at_once) {
    const size_t end = std::min(places.size(), begin + at_once);
    Patch patch{.block = block, .rows = {}};
    for (size_t i = begin; i < end; ++i) patch.rows.push_back({places[i]});
    const std::vector<double> y =
        following(both.in, f.contrast, patched(both.in, both.own, both.other, patch));
    for (size_t i = begin; i < end; ++i) {
      follows[static_cast<size_t>(places[i])] =
          static_cast<float>((y[i - begin] - f.from) / (f.to - f.from));
    }
    done(static_cast<double>(end) / static_cast<double>(places.size()));
  }
  return follows;
}

}  // namespace

Tensor patched(const Inside& in, const std::vector<BlockRows>& own,
               const std::vector<BlockRows>& other, const Patch& patch) {
  const NoGrad off;
  const auto R = static_cast<int64_t>(patch.rows.size());
  const auto in_all = [&](const Tensor& x) {
    Shape shape = x.shape();
    shape[0] = R;
    return x.expand(shape);
  };
  size_t at = 0;
  const auto go = [&](const nn::Block& b, const Tensor& x, const nn::BlockPass& pass) -> Tensor {
    const size_t block = at++;
    if (block < patch.block) return in_all(own[block].after);
    if (block > patch.block) return b(x, pass);
    return b(exchanged(own[block].before, other[block].before, patch.rows), pass);
  };
  return in.states(in_all(in.x.unsqueeze(0)), {.block = go});
}

Followed followed(const Inside& in, const Inside& beside, const std::optional<Contrast>& asked,
                  const ShareDone& done) {
  expect_blocks(in, "patching");
  if (in.x.shape() != beside.x.shape()) {
    throw Error(
        "explain",
        fmt::format("the other text (--beside) has {} tokens and the input {}: rows are taken "
                    "place by place, so that both need as many",
                    beside.inputs.size(), in.inputs.size()));
  }
  const NoGrad off;
  const Exchange both{in, rows_of_blocks(in, in.x), rows_of_blocks(in, beside.x)};
  const Tensor own = in.states(in.x.unsqueeze(0), {}), other = in.states(beside.x.unsqueeze(0), {});
  Followed f{.contrast = asked ? *asked : contrast_between(in, own, other)};
  f.from = following(in, f.contrast, own).front();
  f.to = following(in, f.contrast, other).front();
  if (!(std::abs(f.to - f.from) > kApart)) {
    throw Error("explain", "both texts make this output as likely: there is nothing to follow");
  }
  const size_t blocks = both.own.size();
  for (size_t b = 0; b < blocks; ++b) {
    const std::string stack = stack_of(both.own[b].name);
    if (f.stacks.empty() || f.stacks.back().name != stack) {
      const bool source = f.stacks.empty();
      f.stacks.push_back({.name = stack,
                          .blocks = {},
                          .rows = row_labels(in, beside, both.own[b].before.size(1), source)});
    }
    Followed::Stack& to = f.stacks.back();
    to.blocks.push_back(fmt::format("into block {}", to.blocks.size() + 1));
    const std::vector<float> follows = block_followed(both, b, f, [&](double part) {
      if (done) done((static_cast<double>(b) + part) / static_cast<double>(blocks));
    });
    to.follows.insert(to.follows.end(), follows.begin(), follows.end());
  }
  return f;
}

}  // namespace fovea::tasks
