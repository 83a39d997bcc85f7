#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string>
#include <vector>

#include "app/verbs.h"
#include "fovea/attention.h"
#include "fovea/runtime.h"

// Attention on examples small enough to print. The vectors are made by hand, so that each picture
// can be foreseen; nothing is trained.
namespace fovea::app {
namespace {

using Words = std::vector<std::string>;

bool colours() {
  const char* none = std::getenv("NO_COLOR");
  return ::isatty(STDOUT_FILENO) != 0 && (none == nullptr || *none == '\0');
}

std::string bold(const std::string& text) {
  return colours() ? "\x1b[1m" + text + "\x1b[0m" : text;
}

// A weight as two columns: blocks that fill up, or in a terminal a colour from dark to bright.
std::string cell(float weight) {
  if (colours()) {
    const float x = std::sqrt(std::clamp(weight, 0.0f, 1.0f));
    const int red = static_cast<int>(24 + 231 * x), green = static_cast<int>(24 + 160 * x * x),
              blue = static_cast<int>(40 + 30 * x);
    return fmt::format("\x1b[48;2;{};{};{}m  \x1b[0m", red, green, blue);
  }
  static constexpr const char* kShades[] = {"··", "░░", "▒▒", "▓▓", "██"};
  const int shade = (weight > 0.05f) + (weight > 0.2f) + (weight > 0.45f) + (weight > 0.7f);
  return kShades[shade];
}

std::string bar(float fraction, int width) {
  static constexpr const char* kEighths[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  const int eighths = static_cast<int>(std::lround(std::clamp(fraction, 0.0f, 1.0f) * 8 * width));
  std::string text;
  for (int i = 0; i < eighths / 8; ++i) text += "█";
  text += kEighths[eighths % 8];
  const int used = eighths / 8 + (eighths % 8 != 0 ? 1 : 0);
  return text + std::string(static_cast<size_t>(width - used), ' ');
}

void report(const Attended& attended) {
  if (!verbose()) return;
  fmt::print("  plan {}, {}, {} threads\n", name_of(attended.plan()), isa(), threads());
}

// Rows of one-hot vectors: row i is 1 at ones[i].
Tensor one_hot(const std::vector<int64_t>& ones, int64_t width) {
  std::vector<float> values(ones.size() * static_cast<size_t>(width), 0.0f);
  for (size_t i = 0; i < ones.size(); ++i) {
    values[i * static_cast<size_t>(width) + static_cast<size_t>(ones[i])] = 1.0f;
  }
  return Tensor::from(values, {static_cast<int64_t>(ones.size()), width});
}

// ---- A date ------------------------------------------------------------------------------------

// What each character stands for: day 0–1, month 2–3, year 4–7, punctuation 8.
void show_date() {
  const Words source = {"1", "2", "␣", "M", "a", "y", "␣", "2", "0", "2", "1"};
  const Words target = {"2", "0", "2", "1", "-", "0", "5", "-", "1", "2"};
  std::vector<float> keys;
  for (const std::vector<float>& key :
       std::vector<std::vector<float>>{{1, 0, 0, 0, 0, 0, 0, 0, 0},
                                       {0, 1, 0, 0, 0, 0, 0, 0, 0},
                                       {0, 0, 0, 0, 0, 0, 0, 0, 1},
                                       {0, 0, .8f, .6f, 0, 0, 0, 0, 0},
                                       {0, 0, .6f, .8f, 0, 0, 0, 0, 0},
                                       {0, 0, .6f, .9f, 0, 0, 0, 0, 0},
                                       {0, 0, 0, 0, 0, 0, 0, 0, 1},
                                       {0, 0, 0, 0, 1, 0, .3f, 0, 0},
                                       {0, 0, 0, 0, 0, 1, 0, 0, 0},
                                       {0, 0, 0, 0, .3f, 0, 1, 0, 0},
                                       {0, 0, 0, 0, 0, 0, 0, 1, 0}}) {
    keys.insert(keys.end(), key.begin(), key.end());
  }
  const Tensor k = Tensor::from(keys, {11, 9});
  const Tensor q = one_hot({4, 5, 6, 7, 8, 2, 3, 8, 0, 1}, 9);
  Attention attention{.score = scores::dot()};
  attention.score.scale = 5.0f;
  const Attended attended = attend(q, k, k, attention, {.weights = true});
  const std::vector<float> weights = attended.weights().to_vector();
  const std::vector<float> entropy = attended.entropy().to_vector();

  fmt::print("{}\n",
             bold("Writing a date: which character of \"12 May 2021\" each new one looks at"));
  report(attended);
  fmt::print("\n        ");
  for (const std::string& c : source) fmt::print("{} ", c);
  fmt::print("   entropy\n");
  for (size_t i = 0; i < target.size(); ++i) {
    fmt::print("      {} ", target[i]);
    for (size_t j = 0; j < source.size(); ++j)
      fmt::print("{}", cell(weights[i * source.size() + j]));
    fmt::print("   {} {:.2f}\n", bar(entropy[i] / std::log(11.0f), 10), entropy[i]);
  }
}

// ---- A sentence --------------------------------------------------------------------------------

const Words kSentence = {"the", "cat", "sat", "on", "the", "mat", "as", "it", "was", "tired"};

// What each word is: article 0, animal 1, thing 2, verb 3, small word 4, feeling 5, pronoun 6; and,
// a row for each, what it looks for.
const std::vector<int64_t> kIs = {0, 1, 3, 4, 0, 2, 4, 6, 3, 5};
Tensor looks_for() {
  return Tensor::from({0, 3, 3, 0, 0, 0,   0,  //
                       1, 1, 0, 3, 0, 2,   0,  //
                       1, 0, 1, 1, 3, 0,   0,  //
                       0, 4, 1, 0, 0, 2,   3,  //
                       0, 0, 4, 2, 0, 0,   1,  //
                       0, 3, 0, 2, 0, 0,   3,  //
                       0, 3, 2, 0, 0, 2.5, 0},
                      {7, 7});
}

void show_sentence() {
  const Tensor x = one_hot(kIs, 7);
  const size_t n = kSentence.size();
  const std::vector<std::string> masks = {"everything", "causal", "causal+window:2"};
  std::vector<std::vector<float>> weights;
  fmt::print("\n{}\n", bold("One sentence, three masks: qᵀWk, row looks at column"));
  for (const std::string& name : masks) {
    const Attention attention{.score = scores::multiplicative(looks_for()), .mask = mask(name)};
    const Attended attended = attend(x, x, x, attention, {.weights = true});
    report(attended);
    weights.push_back(attended.weights().to_vector());
  }
  fmt::print("\n        ");
  for (const std::string& name : masks) fmt::print("{:<22}", name);
  fmt::print("\n");
  for (size_t i = 0; i < n; ++i) {
    fmt::print("  {:>5} ", kSentence[i]);
    for (const std::vector<float>& w : weights) {
      for (size_t j = 0; j < n; ++j) fmt::print("{}", cell(w[i * n + j]));
      fmt::print("  ");
    }
    fmt::print("\n");
  }
}

// ---- Weightings --------------------------------------------------------------------------------

void show_weightings() {
  const Tensor x = one_hot(kIs, 7);
  const Tensor it = x.slice(0, 7, 8);
  fmt::print("\n{}\n\n  {:>11} ", bold("What \"it\" looks at, by weighting"), "");
  for (const std::string& word : kSentence) fmt::print("{:>6}", word);
  fmt::print("\n");
  for (const Listed& listed : list_weightings()) {
    Attention attention{.score = scores::multiplicative(looks_for()),
                        .weighting = weighting(listed.name)};
    attention.weighting.seed = 3;
    const Attended attended = attend(it, x, x, attention, {.weights = true});
    fmt::print("  {:>11} ", listed.name);
    for (const float w : attended.weights().to_vector()) {
      fmt::print("{}", w == 0.0f ? "     ·" : fmt::format("{:6.2f}", w));
    }
    fmt::print("\n");
  }
}

void run() {
  show_date();
  show_sentence();
  show_weightings();
  fmt::print(
      "\nNext: `fovea attend --help` runs any of this on your own tensors; `fovea info` lists "
      "it all.\n");
}

}  // namespace

void add_demo(CLI::App& program) {
  program.add_subcommand("demo", "Attention on small examples, in the terminal")->callback(run);
}

}  // namespace fovea::app
