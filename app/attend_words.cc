#include <fmt/format.h>

#include <algorithm>

#include "app/attend.h"
#include "app/print.h"
#include "app/progress.h"
#include "attention/check.h"
#include "core/random.h"
#include "fovea/ops.h"
#include "fovea/text.h"
#include "nn/score_weights.h"
#include "report/heatmap.h"
#include "text/words.h"

// Attention over words that were typed, and pictures of any attention's weights.
namespace fovea::app {
namespace {

constexpr int64_t kWidth = 16;
constexpr int kMostMaps = 64;

Error cannot_make(const std::string& what, const std::string& parameter) {
  return Error("attend", fmt::format("'{}' needs {}, which cannot be made up for --words: give it "
                                     "in a file, IN",
                                     what, parameter));
}

// N(0, 1) by the word alone: the same word is the same vector, wherever it stands.
Tensor vectors_of(const std::vector<std::string>& words) {
  std::vector<Tensor> rows;
  for (const std::string& word : words) {
    rows.push_back(Tensor::randn({1, kWidth}, Seed(1).at(word).value()));
  }
  return concatenate(rows, 0);
}

// A sentence is a segment.
Tensor sentences_of(const std::vector<std::string>& words) {
  std::vector<int64_t> segments;
  int64_t now = 0;
  for (const std::string& word : words) {
    segments.push_back(now);
    now += word == "." || word == "!" || word == "?";
  }
  return Tensor::from_ids(segments, {1, static_cast<int64_t>(segments.size())});
}

std::vector<std::string> numbered(int64_t n) {
  std::vector<std::string> labels;
  for (int64_t i = 0; i < n; ++i) labels.push_back(std::to_string(i));
  return labels;
}

// [B,H,Lq,Lk], [B,Lq,Lk] or [Lq,Lk].
std::string title_of(const std::string& how, const Tensor& weights, int64_t map) {
  if (weights.rank() == 2) return how;
  if (weights.rank() == 3) return fmt::format("{}, batch {}", how, map);
  return fmt::format("{}, batch {}, head {}", how, map / weights.size(1), map % weights.size(1));
}

}  // namespace

std::vector<std::string> words_in(const std::string& typed) {
  std::vector<std::string> words = text::split_words(text::valid_utf8(typed));
  if (words.empty()) throw Error("attend", "--words must hold a word at least");
  return words;
}

Tensors inputs_of(const std::vector<std::string>& words, const AttendOptions& options) {
  const Tensor x = vectors_of(words);
  Tensors made = {{"q", x}, {"k", x.clone()}, {"v", x.clone()}};
  nn::Weights fresh(1);
  const nn::ScoreWidths widths = {.query = kWidth,
                                  .key = kWidth,
                                  .hidden = kWidth,
                                  .longest = static_cast<int64_t>(words.size())};
  made.merge(nn::score_weights(fresh, "", options.score, widths));
  for (const MaskTerm& term : mask(options.mask).terms) {
    for (const ParameterDef& p : term.def->parameters) {
      const std::string name = bare_name(p);
      if (p.shape == std::vector<std::string>{"A", "Dq"}) {
        made[name] = fresh.add(name, {kWidth, kWidth}, nn::Init::xavier);
      } else if (p.shape == std::vector<std::string>{"A"}) {
        made[name] = fresh.add(name, {kWidth}, nn::Init::uniform);
      } else if (name == "q_segments" || name == "k_segments") {
        made[name] = sentences_of(words);
      } else {
        throw cannot_make(term.def->name, name);
      }
    }
  }
  for (auto& [name, tensor] : made) tensor = tensor.detach();
  return made;
}

std::vector<report::Picture> maps_of(const std::string& how, const Tensor& weights,
                                     const std::vector<std::string>& words) {
  const int64_t Lq = weights.size(-2), Lk = weights.size(-1);
  const std::vector<float> values = weights.to_vector();
  const int64_t size = Lq * Lk, maps = size == 0 ? 0 : std::ssize(values) / size;
  if (maps > kMostMaps) {
    throw Error("attend", fmt::format("--picture and --show draw at most {} maps, a head of a "
                                      "sequence each, found {}",
                                      kMostMaps, maps));
  }
  std::vector<report::Picture> drawn;
  for (int64_t m = 0; m < maps; ++m) {
    report::Heatmap map{.title = title_of(how, weights, m),
                        .rows = words.empty() ? numbered(Lq) : words,
                        .columns = words.empty() ? numbered(Lk) : words,
                        .weights = {values.begin() + m * size, values.begin() + (m + 1) * size}};
    const bool below = std::any_of(map.weights.begin(), map.weights.end(),
                                   [](float weight) { return weight < 0; });
    map.axes = {"query", "key"};
    if (below) map.scale = report::Scale::around_zero;
    drawn.emplace_back(std::move(map));
  }
  return drawn;
}

}  // namespace fovea::app
