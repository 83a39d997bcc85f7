#include "tasks/faithful.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

#include "fovea/error.h"
#include "fovea/ops.h"
#include "tasks/deal.h"

namespace fovea::explain {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Faithful, tau_gradient, tau_left_out, permuted, uniform,
                                   uniform_distance, adversarial, largest, inputs)

}  // namespace fovea::explain

namespace fovea::tasks {

using Of = FaithfulFound::Of;
using Implicit = FaithfulFound::Implicit;
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Of, input, output, row)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Implicit, by_output, in_all)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Pointed, by, words, hits, with_occlusion, tau)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Pointing, ways, chance)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(FaithfulFound, each, of, seeds, implicit, pointing, inputs)

namespace {

using explain::Faithful;
using Number = double Faithful::*;

struct Row {
  const char *name, *title, *how;
  Number number;
};
constexpr Row kRows[] = {
    {"tau_gradient", "τ, gradient", "order of |x·∂y/∂x|, weights held", &Faithful::tau_gradient},
    {"tau_left_out", "τ, left out", "order of the change where an input is blank",
     &Faithful::tau_left_out},
    {"permuted", "change, permuted", "of the output, where weights change places",
     &Faithful::permuted},
    {"uniform", "change, uniform", "of the output, where all weights are alike",
     &Faithful::uniform},
    {"uniform_distance", "distance, uniform", "of those weights from its own",
     &Faithful::uniform_distance},
    {"adversarial", "distance, adversarial", "the farthest weights found with the same output",
     &Faithful::adversarial},
};
constexpr const char* kSeeds = "seeds";
constexpr double kFarthest = 0.6931471805599453;  // log 2

std::vector<double> values_of(const FaithfulFound& f, Number number) {
  std::vector<double> all;
  for (const Faithful& one : f.each) {
    if (std::isfinite(one.*number)) all.push_back(one.*number);
  }
  return all;
}

double quantile(std::vector<double> values, double share) {
  if (values.empty()) return std::nan("");
  std::sort(values.begin(), values.end());
  const auto at = static_cast<size_t>(std::lround(share * static_cast<double>(values.size() - 1)));
  return values[at];
}

// Jensen–Shannon distances of the weights that two runs give the same input, by output.
void add_distances(const Tensor& own, const Inside& other, std::vector<double>& to) {
  const NoGrad off;
  const Tensor theirs = other.look({}).weights;
  if (theirs.size(1) != own.size(1)) return;  // it reads the input in other pieces
  const int64_t rows = std::min(own.size(0), theirs.size(0));
  for (int64_t t = 0; t < rows; ++t) {
    to.push_back(
        explain::jensen_shannon(own.select(0, t).to_vector(), theirs.select(0, t).to_vector()));
  }
}

void add_tau(double tau, std::vector<double>& to) {
  if (!std::isnan(tau)) to.push_back(tau);
}

// The weights here and the Jacobian there, which has no attention to ask.
void add_implicit(const Tensor& own, const Inside& here, const Inside& there,
                  FaithfulFound::Implicit& to) {
  if (here.outputs != there.outputs || here.inputs != there.inputs) return;
  std::vector<int64_t> outputs(static_cast<size_t>(own.size(0)));
  std::iota(outputs.begin(), outputs.end(), int64_t{0});
  if (there.side_by_side) outputs = {static_cast<int64_t>(there.shown)};
  expect_outputs(there, "the Jacobian");
  const Inputs inputs = inputs_of(there);
  const Tensor norm = explain::sequential_jacobian(inputs.log_odds, inputs.x, outputs).norm;
  for (int64_t t = 0; t < norm.size(0); ++t) {
    add_tau(explain::kendall_tau(own.select(0, t).to_vector(), norm.select(0, t).to_vector()),
            to.by_output);
  }
  add_tau(explain::kendall_tau(sum(own, {0}).to_vector(), sum(norm, {0}).to_vector()), to.in_all);
}

void add_beside(const Inside& here, const Run& other, const Input& input, size_t run,
                FaithfulFound& to) {
  const Tensor own = [&] {
    const NoGrad off;
    return here.look({}).weights;
  }();
  const std::optional<Inside> there = other.inside(input);
  if (!there) throw Error("faithful", "nobody has looked inside the run beside it");
  if (there->look) return add_distances(own, *there, to.seeds);
  to.implicit.resize(std::max(to.implicit.size(), run + 1));
  add_implicit(own, here, *there, to.implicit[run]);
}

[[noreturn]] void refuse_task(const Run& run) {
  throw Error("faithful", fmt::format("its task has no such measure (attention: {})",
                                      run.config().attention()));
}

explain::Looking looking(const Run& run, const Inside& in) {
  if (!in.look) {
    throw Error("faithful",
                fmt::format("there is no look at the input whose weights could be changed "
                            "(attention: {})",
                            run.config().attention()));
  }
  const Inputs inputs = inputs_of(in);
  explain::Looking at{.look = in.look,
                      .held = inputs.held,
                      .outputs = inputs.log_odds,
                      .x = inputs.x,
                      .blank = inputs.blank};
  if (in.side_by_side) at.which = {static_cast<int64_t>(in.shown)};  // one look for all of them
  return at;
}

// Of one input.
FaithfulFound measured_on(const Run& run, const Input& input, std::span<const Run* const> beside,
                          const explain::FaithfulConfig& c, const ShareDone& tell) {
  const std::optional<Inside> inside = run.inside(input);
  if (!inside) refuse_task(run);
  const explain::Looking at = looking(run, *inside);
  const auto half = [&](double begun) {
    return [&, begun](double part) { tell((begun + part) / (inside->boxed.empty() ? 1 : 2)); };
  };
  FaithfulFound found;
  found.each = explain::faithful(at, c, half(0));
  add_pointing(*inside, found.pointing, half(1));
  if (found.each.empty()) return found;
  found.inputs = 1;
  for (size_t row = 0; row < found.each.size(); ++row) {
    const size_t output = inside->side_by_side ? inside->shown : row;
    found.of.push_back({name_of(input),
                        output < inside->outputs.size() ? inside->outputs[output] : "",
                        static_cast<int64_t>(row)});
  }
  for (size_t i = 0; i < beside.size(); ++i) add_beside(*inside, *beside[i], input, i, found);
  return found;
}

template <class T>
void append(const std::vector<T>& some, std::vector<T>& to) {
  to.insert(to.end(), some.begin(), some.end());
}

void add_found(const FaithfulFound& some, FaithfulFound& to) {
  append(some.each, to.each);
  append(some.of, to.of);
  append(some.seeds, to.seeds);
  to.implicit.resize(std::max(to.implicit.size(), some.implicit.size()));
  for (size_t i = 0; i < some.implicit.size(); ++i) {
    append(some.implicit[i].by_output, to.implicit[i].by_output);
    append(some.implicit[i].in_all, to.implicit[i].in_all);
  }
  add(some.pointing, to.pointing);
  to.inputs += some.inputs;
}

}  // namespace

void FaithfulSettings::visit(Fields& f) {
  f.group("Measuring");
  f.integer("inputs", inputs, "at most, spread over the data", {1, 1e6});
  f.integer("permutations", permutations, "orders that each look's weights are tried in", {1, 1e4});
  f.integer("steps", steps, "that the adversary learns for", {1, 1e5});
  f.real("allowed", allowed, "change of an output that counts as none, in total variation",
         {1e-6, 1});
  f.integer("seed", seed, "of permutations and the adversary's start", {0, 9e15});
}

FaithfulFound measure_faithful(const Run& run, const Judged& what,
                               std::span<const Run* const> beside, const FaithfulSettings& s,
                               const ShareDone& done) {
  const auto most = static_cast<size_t>(s.inputs);
  std::vector<Input> inputs = run.inputs(what, most);
  if (inputs.empty()) {
    const std::vector<Example> some = run.examples(1);
    if (!some.empty() && !run.inside(some.front().input)) refuse_task(run);
    throw Error("faithful", "there are no inputs to measure it on");
  }
  explain::FaithfulConfig c;
  c.permutations = s.permutations;
  c.adversary.steps = s.steps;
  c.adversary.allowed = s.allowed;
  c.adversary.seed = static_cast<uint64_t>(s.seed);
  const auto work = [&](size_t i) {
    const auto tell = [&](double part) {
      done((static_cast<double>(i) + part) / static_cast<double>(inputs.size()));
    };
    return measured_on(run, inputs[i], beside, c, tell);
  };
  FaithfulFound found;
  deal(done, inputs.size(), work,
       [&](size_t, const FaithfulFound& part) { add_found(part, found); });
  if (found.each.empty()) {
    throw Error("faithful", "every input is too short for an order: three parts are needed");
  }
  return found;
}

train::Scores scores_of(const FaithfulFound& f) {
  train::Scores scores;
  for (const Row& row : kRows) scores.emplace_back(row.name, mean_of(values_of(f, row.number)));
  if (!f.seeds.empty()) scores.emplace_back(kSeeds, mean_of(f.seeds));
  return scores;
}

namespace {

// What is typical of outputs, and what they come to: a few that change much move the mean alone.
struct Middle {
  double median = 0, mean = 0;
};
Middle middle_of(const std::vector<double>& values) {
  return {quantile(values, 0.5), mean_of(values)};
}

// From the least to the most that can be said of a number.
struct Grades {
  std::vector<double> from;  // where each but the first begins
  std::vector<const char*> words;
  size_t of(double x) const {
    return static_cast<size_t>(
        std::count_if(from.begin(), from.end(), [x](double f) { return x >= f; }));
  }
  const char* operator()(double x) const { return words[of(x)]; }
};
const Grades kAgrees = {{0.3, 0.6},
                        {"They rank the inputs differently from gradients and leaving out",
                         "They rank the inputs partly as gradients and leaving out do",
                         "They rank the inputs much as gradients and leaving out do"}};
const Grades kMatters = {
    {0.1}, {"Permuting them changes most outputs little", "Permuting them changes the outputs"}};
const Grades kOthers = {{0.2, 0.5},
                        {"Only similar weights were found to give the same outputs",
                         "Different weights were found that give the same outputs",
                         "Very different weights were found that give the same outputs"}};

// Of what was measured, the numbers that the verdict goes by.
struct Typical {
  Middle tau, changed, far;  // far: a share of the farthest that there is
};
Typical typical_of(const FaithfulFound& f) {
  const auto middle = [&](Number n) { return middle_of(values_of(f, n)); };
  const Middle gradient = middle(&Faithful::tau_gradient),
               without = middle(&Faithful::tau_left_out), far = middle(&Faithful::adversarial);
  return {.tau = {(gradient.median + without.median) / 2, (gradient.mean + without.mean) / 2},
          .changed = middle(&Faithful::permuted),
          .far = {far.median / kFarthest, far.mean / kFarthest}};
}

// Where median and mean lie in different grades, outputs are not alike.
std::vector<const char*> disagreements(const Typical& t) {
  std::vector<const char*> some;
  const auto add = [&](const Grades& grades, const Middle& x, const char* what) {
    if (grades.of(x.median) != grades.of(x.mean)) some.push_back(what);
  };
  add(kAgrees, t.tau, "how the inputs are ranked");
  add(kMatters, t.changed, "what permuting changes");
  add(kOthers, t.far, "how different the weights can be");
  return some;
}

}  // namespace

// What follows first, then what was measured. By the median, which half of the outputs reach; where
// the mean says something else, that is said, and attention is no explanation.
std::string verdict(const FaithfulFound& f) {
  const Typical t = typical_of(f);
  const std::vector<const char*> differ = disagreements(t);
  const bool believe = differ.empty() && kAgrees.of(t.tau.median) == 2 &&
                       kOthers.of(t.far.median) < 2 && kMatters.of(t.changed.median) == 1;
  const std::vector<double> changes = values_of(f, &Faithful::permuted);
  const auto changed =
      std::count_if(changes.begin(), changes.end(), [](double x) { return kMatters.of(x) == 1; });
  std::string text = fmt::format(
      "{} {} (Kendall's τ: median {:.2f}, mean {:.2f}; 1 is the same order, 0 no relation). {} "
      "(total variation: median {:.2f}, mean {:.2f}, from 0 to 1; {:.0f} % change by 0.1 or more). "
      "{} (Jensen–Shannon: median {:.2f}, mean {:.2f}, at most {:.2f}).",
      believe ? "The attention weights may be read as an explanation of these outputs."
              : "Do not read the attention weights as the reason for these outputs.",
      kAgrees(t.tau.median), t.tau.median, t.tau.mean, kMatters(t.changed.median), t.changed.median,
      t.changed.mean,
      100.0 * static_cast<double>(changed) /
          static_cast<double>(std::max<size_t>(changes.size(), 1)),
      kOthers(t.far.median), kFarthest * t.far.median, kFarthest * t.far.mean, kFarthest);
  if (!differ.empty()) {
    text +=
        fmt::format(" Median and mean disagree on {}: the outputs are not alike, see the table.",
                    fmt::join(differ, " and "));
  }
  return text;
}

report::Table table_of(const FaithfulFound& f) {
  report::Table table{{"", "mean", "median", "10 %", "90 %", "what it is"}, {}};
  const auto add = [&](const std::string& title, const std::vector<double>& v, const char* how) {
    std::vector<std::string>& row = table.rows.emplace_back();
    row.push_back(title);
    for (const double x : {mean_of(v), quantile(v, 0.5), quantile(v, 0.1), quantile(v, 0.9)}) {
      row.push_back(std::isnan(x) ? "–" : fmt::format("{:.3f}", x));
    }
    row.emplace_back(how);
  };
  for (const Row& row : kRows) add(row.title, values_of(f, row.number), row.how);
  if (!f.seeds.empty()) add("distance, seeds", f.seeds, "of the weights of runs with other seeds");
  return table;
}

report::Table implicit_of(const FaithfulFound& f) {
  report::Table table{{"runs without attention", "τ by output", "τ in all", "outputs"}, {}};
  std::vector<double> by_output, in_all;
  size_t run = 0;
  for (const FaithfulFound::Implicit& one : f.implicit) {
    ++run;
    if (one.by_output.empty()) continue;
    by_output.push_back(mean_of(one.by_output));
    in_all.push_back(mean_of(one.in_all));
    table.rows.push_back({fmt::format("beside, {}", run), fmt::format("{:.3f}", by_output.back()),
                          fmt::format("{:.3f}", in_all.back()),
                          std::to_string(one.by_output.size())});
  }
  if (by_output.size() > 1) {
    table.rows.push_back(
        {"mean", shown(interval_of(by_output), 3), shown(interval_of(in_all), 3), ""});
  }
  return table;
}

namespace {

// How many of all lie in each tenth of the range.
report::Bars histogram(const FaithfulFound& f, const std::vector<const char*>& names, double low,
                       double high, const std::string& x) {
  constexpr size_t kBins = 10;
  report::Bars bars{.x = x, .y = "share of outputs, %", .groups = {}, .series = {}, .values = {}};
  for (size_t b = 0; b < kBins; ++b) {
    bars.groups.push_back(fmt::format(
        "{:.2f}",
        low + (high - low) * (static_cast<double>(b) + 0.5) / static_cast<double>(kBins)));
  }
  const auto add = [&](const std::string& title, const std::vector<double>& values) {
    std::vector<double> counts(kBins, 0);
    for (const double v : values) {
      const double place = (v - low) / (high - low) * static_cast<double>(kBins);
      counts[static_cast<size_t>(std::clamp(place, 0.0, static_cast<double>(kBins) - 1))] +=
          100.0 / static_cast<double>(values.size());
    }
    bars.series.push_back(title);
    bars.values.push_back(std::move(counts));
  };
  for (const char* name : names) {
    for (const Row& row : kRows) {
      if (std::string(row.name) == name) add(row.title, values_of(f, row.number));
    }
  }
  if (x.starts_with("distance") && !f.seeds.empty()) add("distance, seeds", f.seeds);
  return bars;
}

}  // namespace

report::Page page_of(const std::string& name, const FaithfulFound& f) {
  report::Page page{
      .title = "Is the attention an explanation?",
      .subtitle = fmt::format("{}: {} outputs of {} inputs", name, f.each.size(), f.inputs),
      .headline = {},
      .sections = {}};
  for (const Row& row : kRows) {
    const Middle x = middle_of(values_of(f, row.number));
    page.headline.emplace_back(row.title, fmt::format("{:.2f} (mean {:.2f})", x.median, x.mean));
  }
  page.sections.push_back({"Verdict", {report::Text{verdict(f)}, table_of(f)}});
  page.sections.push_back(
      {"Does it agree?",
       {report::Text{"Kendall's τ between the order of the weights and the order of what moves the "
                     "output: 1 is the same order, 0 none in common."},
        histogram(f, {"tau_gradient", "tau_left_out"}, -1, 1, "Kendall τ")}});
  if (const report::Table implicit = implicit_of(f); !implicit.rows.empty()) {
    page.sections.push_back(
        {"Where does a model without attention look?",
         {report::Text{"Kendall's τ between the weights here and the Jacobian of a model that has "
                       "no attention, where both wrote the same."},
          implicit}});
  }
  if (const report::Table pointing = table_of(f.pointing); !pointing.rows.empty()) {
    page.sections.push_back({"Does it point at what it names?",
                             {report::Text{"Words that name a thing whose place in the picture is "
                                           "known: whether the place of the largest value lies "
                                           "in its box, and whether occlusion says the same."},
                              pointing}});
  }
  page.sections.push_back(
      {"What do other weights change?",
       {report::Text{"Total variation between the output and that of other weights: 0 nothing, 1 "
                     "all of it."},
        histogram(f, {"permuted", "uniform"}, 0, 1, "change of the output")}});
  page.sections.push_back(
      {"How far can weights go?",
       {report::Text{"Jensen–Shannon distance from its own weights, at most log 2 = 0.69: of those "
                     "that an adversary found for the same output, and of uniform ones."},
        histogram(f, {"adversarial", "uniform_distance"}, 0, kFarthest,
                  "distance of the weights")}});
  return page;
}

nlohmann::ordered_json to_json(const FaithfulFound& f) {
  nlohmann::ordered_json scores = nlohmann::ordered_json::object();
  for (const auto& [name, value] : scores_of(f)) {
    scores[name] = std::isnan(value) ? nlohmann::ordered_json() : nlohmann::ordered_json(value);
  }
  nlohmann::ordered_json implicit = nlohmann::ordered_json::array();
  for (const FaithfulFound::Implicit& one : f.implicit) {
    if (one.by_output.empty()) continue;
    implicit.push_back({{"by_output", mean_of(one.by_output)}, {"in_all", mean_of(one.in_all)}});
  }
  nlohmann::ordered_json medians = nlohmann::ordered_json::object();
  for (const Row& row : kRows) {
    const double value = quantile(values_of(f, row.number), 0.5);
    medians[row.name] =
        std::isnan(value) ? nlohmann::ordered_json() : nlohmann::ordered_json(value);
  }
  nlohmann::ordered_json j = {{"inputs", f.inputs},
                              {"outputs", f.each.size()},
                              {"scores", scores},
                              {"medians", medians},
                              {"verdict", verdict(f)}};
  if (!implicit.empty()) j["implicit"] = implicit;
  if (!f.pointing.ways.empty()) j["pointing"] = to_json(f.pointing);
  return j;
}

}  // namespace fovea::tasks
