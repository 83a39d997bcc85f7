#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "fovea/error.h"
#include "fovea/ops.h"
#include "tasks/inside_blocks.h"

// One output rather than another.
namespace fovea::tasks {
namespace {

constexpr const char* kSpaces[] = {"␣", "▁"};        // that begin a word, in labels
constexpr int64_t kLogitsAtOnce = int64_t{1} << 22;  // at once

[[noreturn]] void refuse_contrast(const std::string& why) { throw Error("explain", why); }

// Logits of one output on the input: [V].
std::vector<float> logits_at(const Inside& in, int64_t output) {
  const NoGrad off;
  const Tensor states = in.states(in.x.unsqueeze(0), {});
  return in.said(states.select(1, place_of(in, output))).to_vector();
}

// Of the tokens of that name, the likeliest.
int64_t token_named(const Inside& in, const std::string& option, const std::string& typed,
                    const std::vector<float>& logits) {
  int64_t best = -1;
  for (size_t id = 0; id < logits.size(); ++id) {
    if (best >= 0 && logits[id] <= logits[static_cast<size_t>(best)]) continue;
    if (is_named(in.named(static_cast<int64_t>(id)), typed)) best = static_cast<int64_t>(id);
  }
  if (best < 0) {
    refuse_contrast(
        fmt::format("--{}: no token is called \"{}\"; a word of several tokens is no single output",
                    option, typed));
  }
  return best;
}

int64_t class_named(const Inside& in, const std::string& option, const std::string& typed) {
  const auto found = std::find_if(in.outputs.begin(), in.outputs.end(),
                                  [&](const std::string& c) { return is_named(c, typed); });
  if (found != in.outputs.end()) return found - in.outputs.begin();
  if (typed_number(typed)) {
    return static_cast<int64_t>(typed_index(option.c_str(), typed, in.outputs.size()));
  }
  refuse_contrast(fmt::format("--{} names none of the {} classes, found \"{}\"", option,
                              in.outputs.size(), typed));
}

// log p = −log(1 + exp(−o)) of log odds o, without an overflow: min(o, 0) − log(1 + exp(−|o|)).
Tensor log_p_of_odds(const Tensor& odds) {
  return minimum(odds, Tensor::scalar(0.0f)) - log(1.0f + exp(-abs(odds)));
}

Tensor nth_column(const Tensor& rows, int64_t at) { return rows.slice(1, at, at + 1); }  // [R,1]

explain::Outputs difference_of_classes(const explain::Outputs& odds, const Contrast& c) {
  return [odds, c](const Tensor& rows) {
    const Tensor log_p = log_p_of_odds(odds(rows));
    return nth_column(log_p, c.a) - nth_column(log_p, c.b);
  };
}

// visit(i, log p [V]) of rows i of states [n,…], a few at a time.
void each_row(const Inside& in, const Tensor& states, std::span<const int64_t> rows,
              const std::function<void(size_t, std::span<const float>)>& visit) {
  const NoGrad off;
  size_t at_once = 1;  // how many V are is known of the first
  for (size_t begin = 0; begin < rows.size();) {
    const size_t n = std::min(at_once, rows.size() - begin);
    const Tensor ids = Tensor::from_ids(rows.subspan(begin, n), {static_cast<int64_t>(n)});
    const Tensor log_p = log_softmax(in.said(index_select(states, 0, ids)));
    const std::vector<float> all = log_p.to_vector();
    const auto V = static_cast<size_t>(log_p.size(1));
    for (size_t i = 0; i < n; ++i) visit(begin + i, std::span(all).subspan(i * V, V));
    begin += n;
    at_once = std::max<size_t>(1, static_cast<size_t>(kLogitsAtOnce) / V);
  }
}

}  // namespace

std::optional<int64_t> typed_number(const std::string& text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return {};
  return value;
}

size_t typed_index(const char* option, const std::string& typed, size_t n) {
  const std::optional<int64_t> value = typed_number(typed);
  if (!value || *value < 1 || *value > static_cast<int64_t>(n)) {
    refuse_contrast(fmt::format("--{} must be in 1 … {}, found {}", option, n, typed));
  }
  return static_cast<size_t>(*value - 1);
}

bool is_named(const std::string& label, const std::string& typed) {
  if (label == typed) return true;
  for (const char* space : kSpaces) {
    if (!label.starts_with(space)) continue;
    const std::string word = label.substr(std::string(space).size());
    if (word == typed || " " + word == typed) return true;
    for (const char* other : kSpaces) {
      if (other + word == typed) return true;
    }
  }
  return false;
}

Contrast contrast_of(const Inside& in, const std::string& output, const std::string& against) {
  Contrast c;
  if (in.side_by_side) {
    c.a = output.empty() ? static_cast<int64_t>(in.shown) : class_named(in, "output", output);
    c.b = class_named(in, "against", against);
    c.output = c.a;
  } else {
    if (!in.states || !in.named) {
      refuse_contrast("--against needs outputs that can be one of many, and this run has none");
    }
    const auto T = static_cast<int64_t>(in.outputs.size());
    std::optional<int64_t> place;
    if (typed_number(output)) {
      place = static_cast<int64_t>(typed_index("output", output, in.outputs.size()));
    }
    for (int64_t t = T - 1; t >= 0 && !place && !output.empty(); --t) {
      if (is_named(in.outputs[static_cast<size_t>(t)], output)) place = t;
    }
    c.output = place.value_or(T - 1);
    const std::vector<float> logits = logits_at(in, c.output);
    c.a = place || output.empty() ? target_of(in, c.output)
                                  : token_named(in, "output", output, logits);
    c.b = token_named(in, "against", against, logits);
  }
  if (c.a == c.b) {
    refuse_contrast(fmt::format("--against \"{}\" is what --output is: name another", against));
  }
  return c;
}

std::string title_of(const Inside& in, const Contrast& c) {
  const auto name = [&](int64_t id) {
    return in.side_by_side ? in.outputs[static_cast<size_t>(id)] : in.named(id);
  };
  return fmt::format("{} rather than {}", name(c.a), name(c.b));
}

Inside contrasted(const Inside& in, const Contrast& c) {
  Inside one = in;
  one.outputs = {title_of(in, c)};
  one.boxed.clear();
  one.shown = 0;
  if (in.side_by_side) {
    one.log_odds = difference_of_classes(in.log_odds, c);
    if (in.convolution) {
      one.convolution->log_odds = difference_of_classes(in.convolution->log_odds, c);
    }
  } else {
    one.log_odds = [c, states = in.states, said = in.said](const Tensor& rows) {
      const Tensor logits = said(states(rows, {}).select(1, c.output));  // [R,V]
      return nth_column(logits, c.a) - nth_column(logits, c.b);
    };
    one.convolution.reset();
  }
  one.log_odds_each = explain::one_each(one.log_odds);
  return one;
}

Question question_of(const Inside& in, std::span<const int64_t> outputs) {
  Question q;
  for (const int64_t t : outputs) q.targets.push_back({t, target_of(in, t)});
  return q;
}

void each_log_p(const Inside& in, const Tensor& states, std::span<const int64_t> outputs,
                const std::function<void(size_t, std::span<const float>)>& visit) {
  std::vector<int64_t> rows;
  for (const int64_t t : outputs) rows.push_back(place_of(in, t));
  each_row(in, states.select(0, 0), rows, visit);
}

std::vector<double> answers_to(const Inside& in, const Question& q, const Tensor& states) {
  const int64_t R = states.size(0), T = states.size(1);
  std::vector<int64_t> rows;  // of all passes, one after the other
  for (int64_t r = 0; r < R; ++r) {
    if (q.contrast) rows.push_back(r * T + place_of(in, q.contrast->output));
    for (const OutputToken& t : q.targets) rows.push_back(r * T + place_of(in, t.output));
  }
  Shape flat = states.shape();
  flat.erase(flat.begin());
  flat[0] = R * T;
  const size_t each = rows.size() / static_cast<size_t>(R);
  std::vector<double> y(static_cast<size_t>(R), 0.0);
  each_row(in, states.reshape(flat), rows, [&](size_t i, std::span<const float> log_p) {
    const auto at = [&](int64_t id) { return static_cast<double>(log_p[static_cast<size_t>(id)]); };
    const double own =
        q.contrast ? at(q.contrast->a) - at(q.contrast->b) : at(q.targets[i % each].token);
    y[i / each] += own / static_cast<double>(each);
  });
  return y;
}

}  // namespace fovea::tasks
