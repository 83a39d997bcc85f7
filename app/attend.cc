#include "app/attend.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "app/options.h"
#include "app/outputs.h"
#include "app/print.h"
#include "app/progress.h"
#include "attention/def.h"
#include "fovea/runtime.h"
#include "io/tensor_reader.h"
#include "report/label.h"

namespace fovea::app {
namespace {

constexpr const char* kHelp = R"(
The input holds q [Lq,D], k [Lk,D] and v [Lk,Dv], or [B,L,D], or [B,H,L,D] (k and v may have fewer
heads), as F32, F16, BF16 or F64, and what the choice needs (? marks what may be absent). Of F16 and
BF16 q, k and v are computed with as they are; all that is written is F32.
{}  {:<15} added to the scores wherever it is there; like mask it broadcasts to [B,H,Lq,Lk]
  {:<15} d_context, the gradient of what you care about by the context
`fovea info` lists every score, mask and weighting with its formula, numbers and parameters.
The output holds context and, when asked, weights, lse, entropy, top_weights and top_keys; d_NAME
for every float input; chosen and log_prob where the weighting picks one key.

Examples:
  fovea attend --words "the cat saw the dog" --show               words you type, a map in letters
  fovea attend --words "the cat saw the dog" --mask causal --picture causal.svg
  fovea attend in.safetensors                                     a summary, nothing written
  fovea attend in.safetensors --mask causal --weights -o out.safetensors
  fovea attend in.safetensors --score additive --mask lengths+window:8 -o out.safetensors
  fovea attend in.safetensors --weighting sample --seed 7 --top 3 -o out.safetensors
  fovea attend in.safetensors --score cosine --weighting entmax15 --grad -o out.safetensors)";

std::string attend_help() {
  std::string needs;
  for (const auto& list : {list_scores(), list_masks(), list_weightings()}) {
    for (const Listed& item : list) {
      if (item.parameters.empty()) continue;
      needs += fmt::format("  {:<15} {}\n", item.name, fmt::join(item.parameters, "  "));
    }
  }
  return fmt::format(kHelp, needs, "bias", "--grad");
}

void check(const AttendOptions& options) {
  if (options.in.empty() == options.words.empty()) {
    throw Error("attend", "either IN, a safetensors file, or --words must be there, and not both");
  }
  if (!options.picture.empty()) {
    report::picture_format(options.picture);
    check_output({"attend", options.picture}, {.files = {options.in}, .runs = {}});
  }
  if (!options.out.empty()) {
    check_output({"attend", options.out}, {.files = {options.in}, .runs = {}});
    if (!options.picture.empty() && is_one_file(options.out, options.picture)) {
      throw Error("attend", "--out and --picture are one file, " + options.out.string());
    }
  }
}

std::map<std::string, DType> halves_in(const std::filesystem::path& file) {
  std::map<std::string, DType> found;
  const TensorReader reader(file);
  for (const safetensors::Entry& entry : reader.header().entries) {
    if (kept_as(entry) != DType::f32) found[entry.name] = kept_as(entry);
  }
  return found;
}

// d for every float input; zeros for those that the choice does not use.
void add_gradients(Inputs& inputs, const Attended& attended, const Tensor& d_context,
                   Tensors& outputs) {
  std::vector<std::string> names;
  std::vector<Tensor> leaves;
  for (const auto& [name, tensor] : inputs.tensors) {
    if (!tensor.requires_grad()) continue;
    names.push_back(name);
    leaves.push_back(tensor);
  }
  const std::vector<Tensor> grads = gradients(attended.context, d_context, leaves);
  for (size_t i = 0; i < names.size(); ++i) outputs["d_" + names[i]] = grads[i];
}

void need_gradients(Inputs& inputs) {
  for (auto& [name, tensor] : inputs.tensors) {
    if (name != "d_context" && tensor.dtype() == DType::f32) tensor.set_requires_grad();
  }
}

// Weightings that pick one key say which, and how probable it was.
void add_choice(const Attended& attended, Tensors& outputs) {
  outputs["chosen"] = attended.chosen();
  outputs["log_prob"] = attended.log_prob();
}

// Vectors without numbers take no room in a file, and any number of them time.
void check_pairs(const Tensor& q, const Tensor& k) {
  constexpr double kMost = 1e10;
  if (q.rank() < 2 || k.rank() < 2 || q.size(-1) > 0) return;
  double pairs = static_cast<double>(k.size(-2));
  for (int d = 0; d < q.rank() - 1; ++d) pairs *= static_cast<double>(q.size(d));
  if (pairs <= kMost) return;
  throw Error("attend", fmt::format("q is {} and k {}: {:.0e} pairs of vectors without numbers, "
                                    "at most {:.0e} are compared",
                                    to_string(q.shape()), to_string(k.shape()), pairs, kMost));
}

Tensors compute(AttendOptions& options, Inputs& inputs, Plan& plan) {
  const Tensor d_context = options.grad ? inputs.require("d_context") : Tensor();
  if (options.grad) need_gradients(inputs);
  const Tensor q = inputs.as_stored("q"), k = inputs.as_stored("k"), v = inputs.as_stored("v");
  const int64_t keys = k.shape().size() < 2 ? 0 : k.size(-2);
  if (options.top > keys) {
    throw Error("attend",
                fmt::format("--top must be at most {}, as many as there are keys, found {}", keys,
                            options.top));
  }
  check_pairs(q, k);
  const Attention choice = choose(options, inputs);
  const bool drawn = options.show || !options.picture.empty();
  const Want want = {.weights = options.weights || drawn, .plan = fovea::plan(options.plan)};
  const Attended attended = attend(q, k, v, choice, want);
  plan = attended.plan();

  Tensors outputs = {{"context", attended.context}};
  if (options.grad) {
    expect_shape("d_context", d_context, attended.context.shape());
    add_gradients(inputs, attended, d_context, outputs);
  }
  if (options.weights || drawn) outputs["weights"] = attended.weights();
  if (options.lse) outputs["lse"] = attended.log_sum_exp();
  if (options.entropy) outputs["entropy"] = attended.entropy();
  if (options.top > 0) {
    const TopK top = attended.top(options.top);
    outputs["top_weights"] = top.weights;
    outputs["top_keys"] = top.keys;
  }
  if (choice.weighting.def->hard) add_choice(attended, outputs);
  return outputs;
}

// A tensor's name is whatever a file says.
std::string shown(const std::string& name) {
  constexpr int kLongest = 60;
  return report::cut(report::visible(name), kLongest);
}

std::string unused(const Inputs& inputs) {
  std::string names;
  for (const auto& [name, tensor] : inputs.tensors) {
    if (!inputs.used.contains(name)) names += (names.empty() ? "" : ", ") + shown(name);
  }
  return names;
}

void print_summary(const std::string& name, const Tensor& tensor) {
  constexpr size_t kShown = 4;
  print_out("  {:<12} {:<18}", shown(name), to_string(tensor.shape()));
  if (tensor.dtype() == DType::f32) {
    const std::vector<float> values = tensor.to_vector();
    double squares = 0;
    for (const float x : values) squares += static_cast<double>(x) * x;
    print_out(" norm {:<10.6g} ", std::sqrt(squares));
    for (size_t i = 0; i < std::min(values.size(), kShown); ++i) print_out(" {:.5f}", values[i]);
    if (values.size() > kShown) print_out(" …");
  } else if (tensor.dtype() == DType::i64) {
    const std::vector<int64_t> ids = tensor.to_ids();
    for (size_t i = 0; i < std::min(ids.size(), 2 * kShown); ++i) print_out(" {}", ids[i]);
    if (ids.size() > 2 * kShown) print_out(" …");
  }
  print_out("\n");
}

// What was chosen, for a picture: "causal, temperature 3"; nothing but defaults, the score.
std::string title_of(const AttendOptions& options) {
  const AttendOptions usual;
  std::vector<std::string> parts;
  const auto add = [&](const std::string& part, bool said) {
    if (said) parts.push_back(part);
  };
  add(options.score, options.score != usual.score);
  add(options.mask, options.mask != usual.mask);
  add(options.weighting, options.weighting != usual.weighting);
  add(fmt::format("scale {}", options.scale.value_or(1)), options.scale.has_value());
  add(fmt::format("softcap {}", options.softcap.value_or(0)), options.softcap.has_value());
  add(fmt::format("temperature {}", options.temperature), options.temperature != 1);
  add(fmt::format("sink {}", options.sink.value_or(0)), options.sink.has_value());
  return parts.empty() ? options.score : fmt::format("{}", fmt::join(parts, ", "));
}

void run(AttendOptions options, const tasks::Given& given) {
  tasks::from_options(given, options);
  check(options);
  if (options.threads > 0) set_threads(static_cast<int>(options.threads));
  Inputs inputs;
  std::vector<std::string> words;
  if (!options.words.empty()) words = words_in(options.words);
  inputs.tensors = words.empty() ? load_safetensors(options.in) : inputs_of(words, options);
  if (words.empty()) inputs.halves = halves_in(options.in);
  for (auto& [name, tensor] : inputs.tensors) {
    if (tensor.dtype() == DType::f32) tensor = tensor.to(default_device());
  }
  Plan plan = Plan::automatic;
  Tensors outputs = compute(options, inputs, plan);

  if (options.show || !options.picture.empty()) {
    const std::vector<report::Picture> maps =
        maps_of(title_of(options), outputs.at("weights"), words);
    if (!options.picture.empty()) report::write(options.picture, maps);
    for (const report::Picture& map : maps) {
      if (options.show) print_out("\n{}", terminal_text(map));
    }
    if (!options.weights) outputs.erase("weights");
  }
  const std::string how =
      fmt::format("{} + {} + {}: plan {}, {}, {} threads", options.score, options.mask,
                  options.weighting, name_of(plan), isa(), threads());
  if (verbose()) print_note("fovea attend: {}\n", how);
  if (!options.out.empty()) {
    save_safetensors(options.out, outputs);
    print_out("wrote {}:", options.out.string());
    for (const auto& [name, tensor] : outputs)
      print_out(" {} {}", shown(name), to_string(tensor.shape()));
    print_out("\n");
  } else if (!options.show) {
    print_out("{}\n", how);
    for (const auto& [name, tensor] : outputs) print_summary(name, tensor);
  }
  if (const std::string names = unused(inputs); !names.empty()) {
    print_out("not used by this choice: {}\n", names);
  }
}

std::string names_of(const std::vector<Listed>& list) {
  std::vector<std::string> names;
  for (const Listed& item : list) {
    names.push_back(item.name);
    if (!item.numbers.empty()) names.back() += fmt::format(":{}", fmt::join(item.numbers, ","));
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace

void AttendOptions::visit(tasks::Fields& f) {
  constexpr tasks::Range kAny = {-1e30, 1e30}, kAboveZero = {1e-30, 1e30};
  const auto optional = [&](const char* name, std::optional<float>& x, const char* help,
                            tasks::Range range) {
    double value = x.value_or(NAN);
    f.real(name, value, help, range);
    if (!std::isnan(value)) x = static_cast<float>(value);
  };
  f.group("Numbers");
  optional("scale", scale, "Multiplies the score; else the mechanism's own", kAny);
  optional("softcap", softcap, "C·tanh(s/C) instead of the scaled score s, before bias and mask",
           kAboveZero);
  optional("sink", sink, "A score without a value beside those of the keys", kAny);
  f.real("temperature", temperature, "Scores are divided by it", kAboveZero);
  f.real("dropout", dropout, "Probability that a weight is dropped", {0, 0.999});
  f.integer("seed", seed, "Of sampling, gumbel and dropout", {0, 9e15});
  f.integer("top", top, "Write the K largest weights of each row and their keys; 0: none",
            {0, 1e9});
  f.integer("threads", threads, "Results do not depend on them; 0: as many as suit", {0, 4096});
}

void add_attend(CLI::App& program) {
  CLI::App* verb =
      program.add_subcommand("attend", "Attention: q, k, v in; context, weights, gradients out");
  verb->footer(attend_help());
  auto options = std::make_shared<AttendOptions>();
  auto given = std::make_shared<tasks::Given>();
  verb->add_option("IN", options->in, "Input, a safetensors file")->check(not_empty);
  verb->add_option(
          "--words", options->words,
          "Instead of IN: words. Each gets a random vector; parameters are those of a new model")
      ->check(not_empty);
  verb->add_option("-o,--out", options->out, "Output; without it a summary is printed")
      ->check(not_empty);
  verb->add_option("--score", options->score, names_of(list_scores()))
      ->check(not_empty)
      ->capture_default_str();
  verb->add_option("--mask", options->mask,
                   names_of(list_masks()) +
                       "; joined by +, numbers as in window:8, window:8,0 or window:inf,0")
      ->check(not_empty)
      ->capture_default_str();
  verb->add_option("--weighting", options->weighting, names_of(list_weightings()))
      ->check(not_empty)
      ->capture_default_str();
  verb->add_flag("--renormalise", options->renormalise,
                 "local-p: weights sum to 1 after the Gaussian (the original's do not)");
  verb->add_flag("--show", options->show, "Draw the weights");
  verb->add_option("--picture", options->picture, "Draw the weights: FILE.svg, .png, .csv or .json")
      ->check(not_empty);
  verb->add_flag("--weights", options->weights, "Write the weights");
  verb->add_flag("--lse", options->lse, "Write each row's log-sum-exp");
  verb->add_flag("--entropy", options->entropy, "Write each row's entropy");
  verb->add_flag("--grad", options->grad, "Write d_NAME for every float input; needs d_context");
  verb->add_option("--plan", options->plan,
                   fmt::format("automatic, {}", fmt::join(list_plans(), ", ")))
      ->check(not_empty)
      ->capture_default_str();
  add_fields(*verb, *given, *options);
  verb->callback([options, given] { run(*options, *given); });
}

}  // namespace fovea::app
