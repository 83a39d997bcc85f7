// Every verb on every architecture, through the tasks of folders that others trained.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "errors.h"
#include "fovea/io.h"
#include "fovea/ops.h"
#include "tasks/explain.h"
#include "tasks/faithful.h"
#include "tasks/opened/opened.h"
#include "tasks/rank.h"
#include "tasks/run_folder.h"
#include "tests/checkpoints/golden.h"
#include "where.h"

namespace fovea::tasks {
namespace {

namespace fs = std::filesystem;
using test::error_of;
using test::has;

fs::path golden_model(const std::string& name) {
  return fs::path(test::source_dir()) / "tests/checkpoints/golden" / name;
}

struct OpenedGolden {
  explicit OpenedGolden(const std::string& name)
      : folder(golden_model(name)), task(folder.task()), run(task.open(folder)) {}
  std::vector<Predictions> predict(const std::string& text, const Given& typed = {},
                                   const Predicting& how = {}) const {
    const auto settings = task.predict_settings();
    from_options(typed, *settings);
    const std::vector<Input> inputs = {Text{text}};
    return run->predict(inputs, *settings, how);
  }
  Evaluation evaluate(const std::string& file, const Given& typed = {}) const {
    const auto settings = task.evaluate_settings();
    from_options(typed, *settings);
    return run->evaluate({.file = file}, *settings);
  }
  RunFolder folder;
  const Task& task;
  std::unique_ptr<const Run> run;
};

// A file of a test's own; gone with it.
struct OwnFile {
  explicit OwnFile(const std::string& text)
      : path(
            (fs::temp_directory_path() / ("fovea-opened-" + std::to_string(::getpid()))).string()) {
    std::ofstream(path) << text;
  }
  ~OwnFile() { fs::remove(path); }
  std::string path;
};

class OpenedTexts : public testing::TestWithParam<const char*> {
 protected:
  std::string text() const {
    const std::string name = GetParam();
    return name.ends_with("fills") ? "the old [MASK] came back" : "the old ship came back";
  }
};

TEST_P(OpenedTexts, PredictsExplainsAndRanks) {
  const OpenedGolden o(GetParam());
  EXPECT_TRUE(o.folder.is_checkpoint());
  EXPECT_TRUE(o.folder.holds_run());
  const std::vector<Predictions> said = o.predict(text(), {}, {.maps = Maps::keep});
  ASSERT_EQ(said.size(), 1u);
  ASSERT_FALSE(said[0].empty());
  const std::string name = GetParam();
  EXPECT_TRUE(name == "marian" || !said[0][0].text.empty());  // most of its ids have no piece
  EXPECT_FALSE(said[0][0].pictures.empty());

  const std::optional<Inside> inside = o.run->inside(Text{text()});
  ASSERT_TRUE(inside);
  Explaining how;
  how.by = {By::attention, By::rollout, By::jacobian, By::saliency_input, By::occlusion};
  for (const Explanation& e : explain(*inside, how)) {
    EXPECT_FALSE(e.map.weights.empty()) << name_of(e.by);
    for (const float w : e.map.weights) EXPECT_TRUE(std::isfinite(w)) << name_of(e.by);
  }
  // What is computed an output a row is what all outputs are.
  if (inside->log_odds_each) {
    const NoGrad off;
    const int64_t T = static_cast<int64_t>(inside->outputs.size());
    const std::vector<float> all = inside->log_odds(inside->x.unsqueeze(0)).to_vector();
    for (int64_t t = 0; t < T; ++t) {
      const std::vector<int64_t> which{t};
      const float own = inside->log_odds_each(inside->x.unsqueeze(0), which).to_vector()[0];
      EXPECT_NEAR(own, all[static_cast<size_t>(t)], 1e-4);
    }
  }
  const auto curves = rank_run(*o.run, 3);
  EXPECT_FALSE(curves.empty());
  EXPECT_FALSE(o.run->examples(3).empty());
}

TEST_P(OpenedTexts, FaithfulHasAnAnswerOrOneLine) {
  const OpenedGolden o(GetParam());
  FaithfulSettings s;
  s.inputs = 1, s.permutations = 2, s.steps = 3;
  const auto measure = [&] { measure_faithful(*o.run, {}, {}, s); };
  const std::string name = GetParam();
  if (name == "marian" || name.starts_with("t5")) {
    measure();
  } else {
    EXPECT_TRUE(has(error_of(measure), "no look at the input")) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(All, OpenedTexts, testing::ValuesIn(checkpoints::test::golden_of_texts()),
                         [](const auto& one) { return std::string(one.param); });

TEST(Opened, LogitsAreThoseOfTheModel) {
  const OpenedGolden gpt2("gpt2"), tells("bert_tells"), fills("bert_fills");
  const Tensors decoder = gpt2.run->logits(Text{"the old ship"}).value();
  const int64_t T = decoder.at("ids").numel();
  EXPECT_EQ(decoder.at("logits").shape(), (Shape{T, 61}));
  EXPECT_EQ(tells.run->logits(Text{"the old ship"}).value().at("logits").shape(), (Shape{3}));
  const Tensors masked = fills.run->logits(Text{"the old ship"}).value();
  EXPECT_EQ(masked.at("logits").shape(), (Shape{masked.at("ids").numel(), 61}));
}

TEST(Opened, WritingIsGreedyUnlessSomethingElseIsSaid) {
  const OpenedGolden o("gpt2");
  const std::string text = "the old ship";
  const Prediction greedy = o.predict(text, {{"length", "20"}})[0][0];
  EXPECT_TRUE(greedy.text.starts_with(text));
  std::string pieces;
  Predicting how;
  how.piece = [&](std::string_view piece) { pieces += piece; };
  EXPECT_EQ(o.predict(text, {{"length", "20"}}, how)[0][0].text + "\n", pieces);
  EXPECT_EQ(o.predict(text, {{"length", "20"}, {"temperature", "0"}})[0][0].text, greedy.text);
  const Given drawn = {{"length", "20"}, {"temperature", "2"}, {"seed", "5"}};
  EXPECT_EQ(o.predict(text, drawn)[0][0].text, o.predict(text, drawn)[0][0].text);
  EXPECT_GE(o.predict(text, {{"length", "6"}, {"beam", "4"}})[0][0].score,
            o.predict(text, {{"length", "6"}})[0][0].score - 1e-6);
  EXPECT_TRUE(has(error_of([&] {
                    o.predict(text, {{"beam", "2"}, {"temperature", "1"}});
                  }),
                  "--beam 1 or"));
  std::string longer;
  while (longer.size() < 4000) longer += "quick brown fox jumps ";
  EXPECT_TRUE(has(error_of([&] { o.predict(longer); }), "the model reads 64"));
}

TEST(Opened, MasksAreFilledAndClassesNamed) {
  const OpenedGolden fills("bert_fills"), tells("bert_tells");
  EXPECT_TRUE(has(error_of([&] { fills.predict("the old ship"); }), "[MASK]"));
  const Predictions best = fills.predict("the [MASK] ship [MASK]", {{"n-best", "4"}})[0];
  ASSERT_EQ(best.size(), 4u);
  EXPECT_GE(best[0].score, best[1].score);
  EXPECT_EQ(fills.predict("the [MASK] ship")[0].size(), 5u);  // one seldom wants a single guess
  const Predictions classes = tells.predict("the old ship", {{"n-best", "3"}})[0];
  double sum = 0;
  for (const Prediction& p : classes) sum += p.score;
  EXPECT_NEAR(sum, 1.0, 1e-5);
}

TEST(Opened, PicturesAreSeen) {
  const OpenedGolden o("vit");
  image::Image picture{.height = 20, .width = 30, .channels = 3, .pixels = {}};
  for (int i = 0; i < 20 * 30 * 3; ++i) picture.pixels.push_back(static_cast<float>(i % 7) / 6.0f);
  const std::vector<Input> inputs = {GivenImage{picture, "own.png"}};
  const auto settings = o.task.predict_settings();
  const auto said = o.run->predict(inputs, *settings, {.maps = Maps::keep});
  EXPECT_TRUE(said[0][0].text.starts_with("LABEL_"));
  EXPECT_FALSE(said[0][0].pictures.empty());
  Explaining how;
  how.by = {By::attention, By::rollout, By::saliency, By::occlusion};
  EXPECT_EQ(explain(o.run->inside(inputs[0]).value(), how).size(), 4u);
}

void expect_only_looks(const OpenedGolden& o, const Input& input) {
  const auto settings = o.task.predict_settings();
  const std::vector<Input> inputs = {input};
  EXPECT_TRUE(has(error_of([&] { o.run->predict(inputs, *settings); }), "has no output"));
  const auto said = o.run->predict(inputs, *settings, {.maps = Maps::keep});
  EXPECT_TRUE(has(said.at(0).at(0).text, "has no output"));
  EXPECT_FALSE(said[0][0].pictures.empty());
  EXPECT_TRUE(has(error_of([&] { o.evaluate("file"); }), "has no output"));
  EXPECT_FALSE(o.run->logits(input).has_value());
  const Inside inside = o.run->inside(input).value();
  EXPECT_EQ(ways_for(inside), (std::vector<By>{By::attention, By::rollout}));
  for (const By by : ways()) {
    const auto ask = [&] { return explain(inside, {.by = {by}}); };
    if (by == By::attention || by == By::rollout) {
      const Explanation e = ask().at(0);
      const size_t n = e.map.columns.size();
      ASSERT_EQ(e.map.weights.size(), e.map.rows.size() * n);
      double sum = 0;
      for (size_t i = 0; i < n; ++i) sum += static_cast<double>(e.map.weights[i]);
      EXPECT_GT(sum, 0.1);
      EXPECT_LT(sum, 1 + 1e-5);  // of a picture without the rows before its places
    } else {
      EXPECT_TRUE(has(error_of(ask), "this model has none")) << name_of(by);
    }
  }
}

TEST(Opened, EncodersByThemselvesShowWhereTheyLook) {
  const OpenedGolden reads("bert_reads"), views("vit_views");
  expect_only_looks(reads, Text{"the old ship came back"});
  EXPECT_FALSE(rank_run(*reads.run, 3).empty());
  EXPECT_FALSE(reads.run->examples(3).empty());
  EXPECT_TRUE(has(error_of([&] { measure_faithful(*reads.run, {}, {}, {}); }), "no look"));
  image::Image picture{.height = 12, .width = 12, .channels = 3, .pixels = {}};
  picture.pixels.assign(12 * 12 * 3, 0.3f);
  expect_only_looks(views, GivenImage{picture, "own.png"});
}

TEST(Opened, EvaluationsAreOfTheirKind) {
  const OpenedGolden gpt2("gpt2"), tells("bert_tells"), fills("bert_fills"), marian("marian");
  std::string text;
  for (int i = 0; i < 30; ++i) text += "the old ship came back to the harbour\n";
  const OwnFile file(text);
  const Evaluation whole = gpt2.evaluate(file.path, {{"context", "32"}, {"stride", "32"}});
  const Evaluation often = gpt2.evaluate(file.path, {{"context", "32"}, {"stride", "8"}});
  EXPECT_EQ(whole.count, often.count);
  EXPECT_GT(score_of(whole.scores, "perplexity"), 1.0);
  EXPECT_NE(score_of(whole.scores, "loss"), score_of(often.scores, "loss"));
  EXPECT_TRUE(has(error_of([&] { gpt2.evaluate(file.path, {{"context", "65"}}); }), "reads 64"));
  EXPECT_TRUE(has(error_of([&] { gpt2.evaluate(""); }), "name a text"));
  EXPECT_TRUE(has(error_of([&] { fills.evaluate(file.path); }), "nothing to score"));
  const OwnFile labelled("good\tthe old ship\nbad\tthe rain was over\n");
  EXPECT_EQ(tells.evaluate(labelled.path).count, 2);
  const OwnFile pairs("the old ship\tthe key\nthe rain\tthe house\n");
  EXPECT_EQ(marian.evaluate(pairs.path, {{"length", "8"}}).count, 2);
}

// What --weights sets, as it was afterwards.
struct KeptMeanwhile {
  explicit KeptMeanwhile(checkpoints::KeptAs kept) { checkpoints::set_default_kept(kept); }
  ~KeptMeanwhile() { checkpoints::set_default_kept(checkpoints::KeptAs::stored); }
};

TEST(Opened, EveryVerbTakesWeightsInFewerBits) {
  std::string text;
  for (int i = 0; i < 10; ++i) text += "the old ship came back to the harbour\n";
  const OwnFile file(text);
  const double stored = score_of(OpenedGolden("gpt2").evaluate(file.path).scores, "loss");
  for (const auto kept : {checkpoints::KeptAs::bf16, checkpoints::KeptAs::int8}) {
    const KeptMeanwhile as(kept);
    for (const char* name : {"gpt2", "bert_fills", "marian"}) {
      const OpenedGolden o(name);
      EXPECT_EQ(o.predict("the old [MASK] ship").size(), 1u) << name;
      const std::optional<Inside> inside = o.run->inside(Text{"the old [MASK] ship"});
      ASSERT_TRUE(inside);
      Explaining how;
      how.by = {By::attention, By::jacobian, By::occlusion};
      for (const Explanation& e : explain(*inside, how)) {
        for (const float w : e.map.weights) EXPECT_TRUE(std::isfinite(w)) << name_of(e.by);
      }
      EXPECT_FALSE(rank_run(*o.run, 3).empty());
    }
    const Evaluation e = OpenedGolden("gpt2").evaluate(file.path);
    // In 8 bits rows are rounded as weights are, where the processor multiplies such.
    const double off = kept == checkpoints::KeptAs::int8 ? 3e-2 : 2e-2;
    EXPECT_NEAR(score_of(e.scores, "loss"), stored, off);
    EXPECT_GT(score_of(e.scores, "weights_off"), 0.01);
    EXPECT_LT(score_of(e.scores, "weights_off"), 1.0);
  }
  EXPECT_TRUE(std::isnan(score_of(OpenedGolden("gpt2").evaluate(file.path).scores, "weights_off")));
}

TEST(Opened, IsSaidInLines) {
  const auto lines = described(golden_model("gemma3"));
  EXPECT_EQ(lines[0].second, "Gemma 3 (gemma3_text)");
  EXPECT_EQ(lines[1].second, "writes on");
  EXPECT_TRUE(has(lines.back().second, "BPE")) << lines.back().second;
  const RunFolder folder(golden_model("gpt2"));
  EXPECT_TRUE(folder.owns("model.safetensors"));
  EXPECT_FALSE(folder.owns("picture.svg"));
  EXPECT_TRUE(has(error_of([&] { folder.results(); }), "somebody else trained"));
  EXPECT_TRUE(has(error_of([&] { folder.task().open(folder)->learner({}); }), "--from"));
}

}  // namespace
}  // namespace fovea::tasks
