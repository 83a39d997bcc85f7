#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "fovea/error.h"
#include "fovea/nn.h"
#include "fovea/ops.h"
#include "fovea/text.h"
#include "tasks/draw.h"
#include "tasks/run_of.h"

// A task that the library does not have, in one folder: which of these numbers is the largest? The
// model looks at one of them: a_i = softmax_i(u·tanh(w x_i + b)), loss −log a_largest.
namespace fovea::tasks {
namespace largest {
namespace {

using Numbers = std::vector<int64_t>;
constexpr int64_t kBelow = 100;

std::vector<Measure> measures() {
  return {
      {"exact", "right"},
      {.name = "loss", .title = "loss", .better = Better::lower, .digits = 3, .leading = false}};
}

struct Config final : TaskConfig {
  std::string file;  // numbers, a line for an example
  int64_t examples = 600, count = 5, width = 8;

  Config() {
    train.epochs = 6;
    train.schedule.rate = 0.05f;
    train.batch_examples = 20;
  }
  void visit(Fields& f) override {
    f.group("Data and model");
    f.file("file", file, "numbers, a line for an example");
    f.integer("examples", examples, "how many are made up", {20, 1e6});
    f.integer("count", count, "numbers of each of these", {2, 100});
    f.integer("width", width, "of the layer that judges a number", {1, 1000});
    visit_training(f, measures());
  }
  std::string data_name() const override {
    return file.empty() ? "numbers" : std::filesystem::path(file).stem().string();
  }
  std::string model() const override { return fmt::format("one layer of {}", width); }
  std::string attention() const override { return "over the numbers, softmax"; }
};

struct EvaluateSettings final : Settings {
  void visit(Fields&) override {}
};
struct PredictSettings final : Settings {
  int64_t best = 1;
  void visit(Fields& f) override {
    f.group("Output");
    f.integer("best", best, "print this many", {1, 100});
  }
};

Numbers numbers_in(const std::string& line) {
  Numbers numbers;
  const char* at = line.data();
  const char* end = at + line.size();
  while (at != end) {
    if (*at == ' ') {
      ++at;
      continue;
    }
    const auto [next, error] = std::from_chars(at, end, numbers.emplace_back());
    if (error != std::errc()) throw Error("largest", "'" + line + "' is no list of numbers");
    at = next;
  }
  if (numbers.empty()) throw Error("largest", "there are no numbers in '" + line + "'");
  return numbers;
}

int64_t place_of_largest(const Numbers& x) {
  return std::max_element(x.begin(), x.end()) - x.begin();
}

struct Data {
  std::vector<Numbers> train, valid, test;
  std::string fingerprint;
};

Data read_data(const Config& c) {
  std::vector<Numbers> all;
  if (c.file.empty()) {
    for (int64_t i = 0; i < c.examples; ++i) {
      Draw draw(c.train.seed, static_cast<uint64_t>(i), 99);
      Numbers& x = all.emplace_back();
      for (int64_t n = 0; n < c.count; ++n) x.push_back(draw.below(kBelow));
    }
  } else {
    for (const std::string& line : text::read_lines(c.file)) all.push_back(numbers_in(line));
  }
  uint64_t hash = 1;
  Data d;
  for (size_t i = 0; i < all.size(); ++i) {
    for (const int64_t x : all[i]) hash = mix64(hash ^ static_cast<uint64_t>(x));
    (i % 10 == 0 ? d.test : i % 10 == 1 ? d.valid : d.train).push_back(all[i]);
  }
  d.fingerprint = fmt::format("{:016x}", hash);
  return d;
}

struct Network {
  nn::Weights weights;
  nn::Linear in, out;

  Network(int64_t width, nn::Weights from)
      : weights(std::move(from)),
        in(nn::linear(weights, "in", 1, width)),
        out(nn::linear(weights, "out", width, 1, nn::WithBias::no)) {}

  Tensor scores(const Numbers& numbers) const {  // [n]
    const auto n = static_cast<int64_t>(numbers.size());
    std::vector<float> x;
    for (const int64_t i : numbers) {
      x.push_back(static_cast<float>(i) / static_cast<float>(kBelow) - 0.5f);
    }
    return out(tanh(in(Tensor::from(x, {n, 1})))).reshape({n});
  }
  Tensor loss(const Numbers& numbers) const {  // [1]
    const auto n = static_cast<int64_t>(numbers.size());
    return cross_entropy(scores(numbers).reshape({1, n}),
                         Tensor::from_ids(Numbers{place_of_largest(numbers)}, {1}));
  }
};

struct Model {
  Config config;
  Network model;
};
Model load(const RunFolder& folder) {
  const Config c = config_as<Config>(folder, task(folder.task().name));
  return {c, load_model(folder, [&](nn::Weights w) { return Network(c.width, std::move(w)); })};
}

std::string line_of(const Numbers& x) { return fmt::format("{}", fmt::join(x, " ")); }

class LargestRun final : public RunOf<Model, Data, EvaluateSettings, PredictSettings> {
 public:
  using RunOf::RunOf;

  train::Learner learner(const Watching&) const override {
    train::Learner l;
    l.parameters = network().weights.all();
    l.lengths.assign(sets().train.size(), model().config.count);
    l.loss = [this](std::span<const int64_t> examples, uint64_t) {
      Tensor sum = Tensor::scalar(0);
      for (const int64_t i : examples) {
        sum = sum + network().loss(sets().train[static_cast<size_t>(i)]);
      }
      const auto n = static_cast<double>(examples.size());
      return train::StepLoss{sum / static_cast<float>(n), sum.item(), n};
    };
    l.validate = [this] { return judge(sets().valid).scores; };
    l.unit = "lists";
    l.watch = model().config.watch;
    l.higher_is_better = find_measure(measures(), l.watch)->better == Better::higher;
    return l;
  }
  Evaluation score_held_out(const ShareDone&) const override { return judge(sets().test); }

  Evaluation evaluate_as(const Judged& what, const EvaluateSettings&,
                         const ShareDone& done) const override {
    Data other;
    if (!what.file.empty()) {
      for (const std::string& line : text::read_lines(what.file)) {
        other.test.push_back(numbers_in(line));
      }
    }
    const Data& d = what.file.empty() ? sets() : other;
    if (done) done(1);
    return judge(what.set == Set::train ? d.train : what.set == Set::valid ? d.valid : d.test);
  }

  std::vector<Predictions> predict_as(std::span<const Input> inputs, const PredictSettings& how,
                                      const Predicting& p) const override {
    const NoGrad off;
    const auto wanted = static_cast<size_t>(how.best);
    std::vector<Predictions> all;
    for (const std::string& line : texts_of(inputs)) {
      const Numbers x = numbers_in(line);
      const std::vector<float> a = softmax(network().scores(x)).to_vector();
      Predictions& some = all.emplace_back();
      for (size_t i = 0; i < x.size(); ++i) {
        some.push_back({.text = std::to_string(x[i]), .score = std::log(a[i])});
      }
      std::stable_sort(some.begin(), some.end(),
                       [](const auto& one, const auto& other) { return one.score > other.score; });
      some.resize(std::min(wanted, some.size()));
      if (p.maps == Maps::none) continue;
      std::vector<std::string> labels;
      for (const int64_t i : x) labels.push_back(std::to_string(i));
      some[0].pictures.push_back(report::picture_kind("ranking").unpack(
          {{"title", line}, {"labels", labels}, {"weights", a}}));
    }
    return all;
  }

  std::vector<Example> examples(size_t n) const override {
    std::vector<Example> some;
    for (const Numbers& x : sets().test) {
      if (some.size() < n)
        some.push_back({Text{line_of(x)}, std::to_string(*std::ranges::max_element(x))});
    }
    return some;
  }

  std::vector<report::Section> sections() const override {
    const NoGrad off;
    Numbers all(kBelow);
    for (int64_t i = 0; i < kBelow; ++i) all[static_cast<size_t>(i)] = i;
    report::Curve curve{"score", {}};
    const std::vector<float> scores = network().scores(all).to_vector();
    for (size_t i = 0; i < scores.size(); ++i) {
      curve.points.emplace_back(static_cast<double>(i), scores[i]);
    }
    return {{"What a number is worth",
             {report::Chart{.x = "number", .y = "score", .curves = {curve}}}}};
  }

 private:
  Evaluation judge(const std::vector<Numbers>& set) const {
    if (set.empty()) throw Error("evaluate", "there is nothing to judge");
    const NoGrad off;
    double right[2] = {}, loss = 0;
    int64_t count[2] = {};
    for (const Numbers& x : set) {
      const size_t late = 2 * place_of_largest(x) >= static_cast<int64_t>(x.size());
      const bool found = argmax(network().scores(x), 0).to_ids()[0] == place_of_largest(x);
      loss += static_cast<double>(network().loss(x).item());
      right[late] += found ? 100 : 0;
      ++count[late];
    }
    const auto n = static_cast<double>(set.size());
    Evaluation e{.count = static_cast<int64_t>(set.size()), .unit = "lists"};
    e.scores = {{"loss", loss / n}, {"exact", (right[0] + right[1]) / n}};
    Breakdown b{.by = "place"};
    const char* names[] = {"in the first half", "in the second half"};
    for (size_t i = 0; i < 2; ++i) {
      if (count[i] == 0) continue;
      b.parts.push_back(
          {names[i], count[i], {{"exact", right[i] / static_cast<double>(count[i])}}});
    }
    e.breakdowns = {b};
    return e;
  }

  Data read_sets() const override { return read_data(model().config); }
  const Network& network() const { return model().model; }
};

std::unique_ptr<Run> begin(const Config& c, const RunFolder*) {
  return std::make_unique<LargestRun>(Model{c, Network(c.width, c.train.seed)}, read_data(c));
}

}  // namespace
}  // namespace largest

extern const Task task_largest = {
    .name = "largest",
    .title = "The largest number",
    .about = "Which of these numbers is the largest? A model that looks at one of them",
    .examples =
        "  fovea train largest\n"
        "  fovea predict runs/largest-numbers --show \"3 14 15 92\"",
    .demo = "The model reads numbers and looks at the largest.",
    .data_field = "file",
    .data_about = "Numbers, a line for an example",
    .takes = Takes::text,
    .measures = largest::measures(),
    .config = make<largest::Config, TaskConfig>,
    .evaluate_settings = make<largest::EvaluateSettings>,
    .predict_settings = make<largest::PredictSettings>,
    .begin = begin_as<largest::Config, largest::begin>,
    .open = open_as<largest::LargestRun, largest::load>,
};

}  // namespace fovea::tasks
