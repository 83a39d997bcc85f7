// Blocks taken apart: lens, heads, patching and contrasts, of folders that others trained and of
// runs of ours.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "errors.h"
#include "fovea/io.h"
#include "fovea/ops.h"
#include "report/word_map.h"
#include "tasks/asking.h"
#include "tasks/explain.h"
#include "tasks/inside_blocks.h"
#include "tasks/opened/writes.h"
#include "tasks/run_folder.h"
#include "tests/checkpoints/golden.h"
#include "where.h"

namespace fovea::tasks {
namespace {

namespace fs = std::filesystem;
using test::error_of;
using test::has;

fs::path checkpoint_tests() { return fs::path(test::source_dir()) / "tests/checkpoints"; }

// A folder of tests/checkpoints/golden, opened.
struct OpenedFolder {
  explicit OpenedFolder(const std::string& name)
      : folder(checkpoint_tests() / "golden" / name), run(folder.task().open(folder)) {}
  Inside inside(const std::string& text) const { return run->inside(Text{text}).value(); }
  RunFolder folder;
  std::unique_ptr<const Run> run;
};

// A run that was never trained, with the weights of its seed.
std::unique_ptr<Run> fresh_run(const std::string& of, Given options) {
  options.insert(
      {{"examples", "60"}, {"seed", "3"}, {"blocks", "2"}, {"query-depth", "8"}, {"heads", "2"}});
  const Task& t = task(of);
  return t.begin(*config_from(t, options), nullptr);
}

std::vector<int64_t> all_outputs(const Inside& in) {
  std::vector<int64_t> all;
  for (size_t t = 0; t < in.outputs.size(); ++t) all.push_back(static_cast<int64_t>(t));
  return all;
}

double largest_difference(const Tensor& a, const Tensor& b) {
  const std::vector<float> x = a.contiguous().to_vector(), y = b.contiguous().to_vector();
  double most = x.size() == y.size() ? 0 : INFINITY;
  for (size_t i = 0; i < std::min(x.size(), y.size()); ++i) {
    most = std::max(most, std::abs(static_cast<double>(x[i]) - static_cast<double>(y[i])));
  }
  return most;
}

// ---- Every architecture ------------------------------------------------------------------------

class InsideEach : public testing::TestWithParam<const char*> {
 protected:
  bool fills() const { return std::string(GetParam()).ends_with("fills"); }
  // Words in another order are as many tokens.
  std::string text() const {
    return fills() ? "the old [MASK] came back" : "the old ship came back";
  }
  std::string other() const {
    return fills() ? "the back [MASK] came old" : "the old back came ship";
  }
  OpenedFolder o{GetParam()};
};

// What the last block says is what the model says: p and rank of its answer, and the answer itself.
TEST_P(InsideEach, TheLensOfTheLastBlockIsTheModel) {
  const NoGrad off;
  const Inside in = o.inside(text());
  const std::vector<int64_t> outputs = in.side_by_side ? std::vector<int64_t>{0} : all_outputs(in);
  const Lens lens = lens_of(in, {outputs, 3});
  ASSERT_EQ(lens.cells.size(), lens.blocks.size() * outputs.size());
  const Tensor states = in.states(in.x.unsqueeze(0), {});
  each_log_p(in, states, outputs, [&](size_t i, std::span<const float> log_p) {
    const auto best = std::max_element(log_p.begin(), log_p.end());
    const Lens::Cell& last = lens.cells[(lens.blocks.size() - 1) * outputs.size() + i];
    EXPECT_EQ(last.top.front(), best - log_p.begin());
    EXPECT_EQ(lens.answers[i], last.top.front());
    EXPECT_EQ(last.rank, 1);
    EXPECT_NEAR(last.p_answer, std::exp(static_cast<double>(*best)), 1e-5);
  });
  for (const Lens::Cell& cell : lens.cells) {
    ASSERT_EQ(cell.top.size(), 3u);
    EXPECT_GE(cell.p[0], cell.p[1]);
    EXPECT_GE(cell.rank, 1);
    EXPECT_TRUE(std::isfinite(cell.p_answer));
  }
}

// All rows that go into the first block make the other text's output, none of them the input's own.
TEST_P(InsideEach, PatchingAllRowsIsTheOtherText) {
  const NoGrad off;
  const Inside in = o.inside(text()), beside = o.inside(other());
  ASSERT_EQ(in.x.shape(), beside.x.shape());
  const auto own = rows_of_blocks(in, in.x), others = rows_of_blocks(in, beside.x);
  std::vector<int64_t> all;
  for (int64_t t = 0; t < own[0].before.size(1); ++t) all.push_back(t);
  const Tensor patched_all = patched(in, own, others, {0, {all, {}}});  // two passes side by side
  const Tensor x = in.states(in.x.unsqueeze(0), {}), y = in.states(beside.x.unsqueeze(0), {});
  EXPECT_GT(largest_difference(x, y), 1e-2);
  EXPECT_LT(largest_difference(patched_all.slice(0, 0, 1), y), 1e-4);
  EXPECT_LT(largest_difference(patched_all.slice(0, 1, 2), x), 1e-4);
  for (size_t b = 0; b < own.size(); ++b) {  // the same text changes nothing, at any block
    EXPECT_LT(largest_difference(patched(in, own, own, {b, {all}}), x), 1e-4) << own[b].name;
  }
}

TEST_P(InsideEach, EveryWayHasAnAnswer) {
  const Inside in = o.inside(text()), beside = o.inside(other());
  const std::vector<By> answered = ways_for(in);
  for (const By by : {By::lens, By::heads, By::patching}) {
    EXPECT_EQ(std::ranges::count(answered, by), 1) << name_of(by);
  }
  Explaining how = asking({By::lens, By::heads, By::patching});
  how.beside = &beside;
  const std::vector<Explanation> all = explain(in, how);
  const std::vector<BlockRows> rows = rows_of_blocks(in, in.x);
  const bool translator = stack_of(rows.front().name) != stack_of(rows.back().name);
  EXPECT_EQ(all.size(), translator ? 4u : 3u);
  for (const Explanation& e : all) {
    EXPECT_FALSE(e.map.weights.empty()) << name_of(e.by);
    for (const float w : e.map.weights) EXPECT_TRUE(std::isfinite(w)) << name_of(e.by);
    EXPECT_FALSE(e.of_outputs);
  }
  for (const report::Picture& p : pictures_of(in, all)) {
    EXPECT_FALSE(to_text(p, report::Ink::plain).empty());
    EXPECT_FALSE(report::to_svg({p}).empty());
    EXPECT_FALSE(report::to_csv({p}).empty());
  }
  EXPECT_EQ(to_json(in, all).at("maps").size(), all.size());
}

// A against B is the negative of B against A, by every way that has a sign, and as long by the
// rest.
TEST_P(InsideEach, AContrastIsAntisymmetric) {
  const Inside in = o.inside(text());
  const int64_t output = in.side_by_side ? 0 : static_cast<int64_t>(in.outputs.size()) - 1;
  const Contrast ab{output, target_of(in, output),
                    target_of(in, output) == 7 ? 8
                    : in.side_by_side          ? 1
                                               : 7};
  const Inside one = contrasted(in, ab), two = contrasted(in, {ab.output, ab.b, ab.a});
  for (const By by : {By::jacobian, By::jacobian_signed, By::saliency_input,
                      By::saliency_integrated, By::saliency_smoothed, By::occlusion}) {
    const std::vector<float> a = explain(one, asking({by})).front().map.weights,
                             b = explain(two, asking({by})).front().map.weights;
    const bool is_signed = by != By::jacobian && by != By::saliency_smoothed;
    float size = 0;
    for (size_t i = 0; i < a.size(); ++i) {
      EXPECT_NEAR(a[i], is_signed ? -b[i] : b[i], 1e-4f * (1 + std::abs(a[i]))) << name_of(by);
      size += std::abs(a[i]);
    }
    // A norm of the inputs takes no notice of what is added to all of a vector's numbers.
    EXPECT_TRUE(size > 1e-4f || by == By::jacobian_signed) << name_of(by);
  }
}

INSTANTIATE_TEST_SUITE_P(All, InsideEach, testing::ValuesIn(checkpoints::test::golden_of_texts()),
                         [](const auto& one) { return std::string(one.param); });

TEST(Inside, PicturesHaveBlocksToo) {
  for (const char* name : {"vit", "deit"}) {
    const OpenedFolder o(name);
    const auto picture = [](int step) {
      image::Image i{.height = 12, .width = 12, .channels = 3, .pixels = {}};
      for (int n = 0; n < 12 * 12 * 3; ++n)
        i.pixels.push_back(static_cast<float>(n * step % 7) / 6);
      return GivenImage{i, "own.png"};
    };
    const Inside in = o.run->inside(picture(1)).value(), other = o.run->inside(picture(3)).value();
    Explaining how = asking({By::lens, By::heads, By::patching});
    how.beside = &other;
    const std::vector<Explanation> all = explain(in, how);
    ASSERT_EQ(all.size(), 3u);
    EXPECT_EQ(all[0].words.back(), in.outputs[in.shown]);
    EXPECT_EQ(all[2].map.columns.size(), in.inputs.size() + (name[0] == 'd' ? 2 : 1));
    EXPECT_EQ(pictures_of(in, all).size(), 3u);
  }
}

// ---- Against transformers ----------------------------------------------------------------------

// tests/checkpoints/make_inside.py: the same by hooks of PyTorch.
TEST(Inside, Gpt2IsTakenApartAsByTransformers) {
  const NoGrad off;
  const Tensors expected = load_safetensors(checkpoint_tests() / "inside_gpt2.safetensors");
  const opened::Opened o = opened::load_opened(RunFolder(checkpoint_tests() / "golden/gpt2"));
  const Inside in = opened::inside_text(o, expected.at("ids").to_ids(), "a"),
               other = opened::inside_text(o, expected.at("other").to_ids(), "b");
  const std::vector<int64_t> outputs = all_outputs(in);
  const auto V = expected.at("lens").size(2);
  const Lens lens = lens_of(in, {outputs, V});
  ASSERT_EQ(static_cast<int64_t>(lens.blocks.size()), expected.at("lens").size(0));
  const Tensor p = softmax(expected.at("lens"));
  for (size_t i = 0; i < lens.cells.size(); ++i) {
    const Tensor row = p.reshape({-1, V}).select(0, static_cast<int64_t>(i));
    const std::vector<float> right = row.contiguous().to_vector();
    for (size_t k = 0; k < lens.cells[i].top.size(); ++k) {
      EXPECT_NEAR(lens.cells[i].p[k], right[static_cast<size_t>(lens.cells[i].top[k])], 1e-4);
    }
  }
  std::vector<int64_t> known(outputs.begin(), outputs.end() - 1);
  const std::vector<float> lost = expected.at("lost").to_vector();
  const std::vector<HeadFound> heads = heads_of(in, question_of(in, known));
  ASSERT_EQ(heads.size(), lost.size());
  for (size_t i = 0; i < lost.size(); ++i) EXPECT_NEAR(heads[i].lost, lost[i], 1e-4) << i;

  const auto own = rows_of_blocks(in, in.x), others = rows_of_blocks(in, other.x);
  const auto L = static_cast<int64_t>(outputs.size());
  for (size_t b = 0; b < own.size(); ++b) {
    Patch patch{.block = b, .rows = {}};
    for (int64_t t = 0; t < L; ++t) patch.rows.push_back({t});
    const Tensor logits = in.said(patched(in, own, others, patch).select(1, L - 1));
    EXPECT_LT(largest_difference(logits, expected.at("patched").select(0, static_cast<int64_t>(b))),
              1e-4);
  }
}

// ---- Runs of ours ------------------------------------------------------------------------------

TEST(Inside, RunsOfOursHaveAnAnswerOrOneLine) {
  struct Case {
    const char *task, *input, *other;
    Given options;
    std::vector<By> ways;
    const char* why;  // the others have none
  };
  const Given small = {{"embedding", "6"}, {"hidden", "7"}};
  const std::vector<By> all = {By::lens, By::heads, By::patching};
  const std::vector<Case> cases = {
      {"lm", "Ada sells hats.", "Bela sells hats.", {{"context", "32"}}, all, ""},
      {"lm",
       "Ada sells",
       "Bela sells",
       {{"context", "32"}, {"linear", "true"}},
       {By::lens, By::patching},
       "linear attention"},
      {"translate", "3 May 2021", "4 May 2021", {{"model", "transformer"}}, all, ""},
      {"translate", "3 May 2021", "4 May 2021", small, {}, "this model has none"},
      {"documents",
       "The film is dull.",
       "The film is fun.",
       {{"model", "transformer"}},
       {By::heads},
       "a look at all of them"},
      {"documents", "The film is dull.", "The film is fun.", small, {}, "this model has none"}};
  for (const Case& c : cases) {
    const auto run = fresh_run(c.task, c.options);
    const Inside in = run->inside(Text{c.input}).value(),
                 other = run->inside(Text{c.other}).value();
    const std::vector<By> answered = ways_for(in);
    for (const By by : all) {
      Explaining how = asking({by});
      how.beside = &other;
      const bool can = std::ranges::count(c.ways, by) == 1;
      EXPECT_EQ(std::ranges::count(answered, by) == 1, can) << c.task << " " << name_of(by);
      if (can) {
        EXPECT_EQ(error_of([&] { explain(in, how); }), "no error") << c.task << name_of(by);
      } else {
        EXPECT_TRUE(has(error_of([&] { explain(in, how); }), c.why)) << c.task << name_of(by);
      }
    }
  }
}

TEST(Inside, WhatCannotBeAskedIsRefusedInALine) {
  const OpenedFolder o("gpt2");
  const Inside in = o.inside("the old ship"), longer = o.inside("the old ship came back");
  Explaining how = asking({By::patching});
  EXPECT_TRUE(has(error_of([&] { explain(in, how); }), "--beside"));
  how.beside = &longer;
  EXPECT_TRUE(has(error_of([&] { explain(in, how); }), "both need as many"));
  how.beside = &in;
  EXPECT_TRUE(has(error_of([&] { explain(in, how); }), "nothing to follow"));
  const auto against = [&](const std::string& output, const std::string& b, By by) {
    Explaining asked = asking({by});
    asked.output = output, asked.against = b;
    return error_of([&] { explain(in, asked); });
  };
  EXPECT_TRUE(has(against("", "antidisestablishment", By::jacobian), "no token is called"));
  EXPECT_TRUE(has(against("99", "a", By::jacobian), "must be in 1 …"));
  EXPECT_TRUE(has(against("", in.outputs.back(), By::jacobian), "name another"));
  EXPECT_TRUE(has(against("", "a", By::attention), "the same for every output"));
  EXPECT_EQ(against("", "a", By::lens), "no error");
  const OpenedFolder tells("bert_tells");
  const Inside classes = tells.inside("the old ship");
  Explaining asked = asking({By::occlusion});
  asked.output = "good", asked.against = "bad";
  EXPECT_EQ(explain(classes, asked).front().map.rows.front(), "good rather than bad");
  asked.against = "purple";
  EXPECT_TRUE(has(error_of([&] { explain(classes, asked); }), "none of the 3 classes"));
}

// What is typed is a token with or without a space before it.
TEST(Inside, TokensAreNamedAsTheyAreShown) {
  EXPECT_TRUE(is_named("␣is", "is"));
  EXPECT_TRUE(is_named("␣is", " is"));
  EXPECT_TRUE(is_named("▁is", "␣is"));
  EXPECT_TRUE(is_named("is", "is"));
  EXPECT_FALSE(is_named("is", " is"));
  EXPECT_FALSE(is_named("␣this", "is"));
}

// ---- Heads -------------------------------------------------------------------------------------

TEST(Inside, AHeadThatSaysNothingLosesNothing) {
  const auto run = fresh_run("lm", {{"context", "32"}});
  Tensor out =
      run->tensors().at("decoder.1.self.out.weight");  // [W, H·d]: the second head's columns
  const Inside before = run->inside(Text{"Ada has a hat."}).value();
  const Question q = question_of(before, all_outputs(before));
  EXPECT_NE(heads_of(before, q).back().lost, 0.0);
  {
    const NoGrad off;
    out.slice(1, out.size(1) / 2, out.size(1)).fill_(0);
  }
  const Inside in = run->inside(Text{"Ada has a hat."}).value();
  EXPECT_EQ(heads_of(in, question_of(in, all_outputs(in))).back().lost, 0.0);
}

// Weights that are drawn by hand.
TEST(Inside, PatternsHaveNames) {
  constexpr int64_t L = 8;
  const std::vector<int64_t> tokens = {1, 2, 3, 4, 1, 2, 3, 4};
  const auto head = [&](const auto& looks_at) {
    std::vector<float> w(static_cast<size_t>(L * L), 0.0f);
    for (int64_t i = 0; i < L; ++i) w[static_cast<size_t>(i * L + looks_at(i))] = 1.0f;
    return pattern_of(w, L, tokens);
  };
  const HeadPattern previous = head([](int64_t i) { return std::max<int64_t>(i - 1, 0); }),
                    own = head([](int64_t i) { return i; }),
                    first = head([](int64_t) { return 0; }),
                    duplicate = head([](int64_t i) { return i < 4 ? 0 : i - 4; }),
                    induction = head([](int64_t i) { return i < 4 ? 0 : i - 3; });
  EXPECT_STREQ(name_of(previous, {}), "previous");
  EXPECT_STREQ(name_of(own, {}), "own");
  EXPECT_STREQ(name_of(first, {}), "first");
  EXPECT_STREQ(name_of({}, duplicate), "duplicate");
  EXPECT_STREQ(name_of({}, induction), "induction");
  EXPECT_DOUBLE_EQ(previous.previous, 1.0);
  EXPECT_DOUBLE_EQ(induction.induction, 1.0);
  EXPECT_DOUBLE_EQ(induction.duplicate, 0.0);
  EXPECT_DOUBLE_EQ(duplicate.duplicate, 1.0);
  EXPECT_STREQ(name_of(pattern_of(std::vector<float>(64, 0.125f), L), {}), "diffuse");
}

}  // namespace
}  // namespace fovea::tasks
