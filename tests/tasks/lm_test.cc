#include "tasks/lm/lm.h"

#include <gtest/gtest.h>

#include <chrono>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "fovea/ops.h"
#include "io/files.h"
#include "report/heatmap.h"
#include "tasks/train.h"
#include "tests/errors.h"
#include "tests/reduced.h"

namespace fovea::tasks::lm {
namespace {

using test::error_of;
using test::Folder;

// A model that knows nothing, of two characters and the end of a line.
LanguageModel blank(int64_t context, nn::Positions positions = nn::Positions::rotary) {
  LanguageModel m;
  m.tokenizer = text::Tokenizer::train({}, std::vector<std::string>{"ab"});
  m.config.context = context;
  m.config.network = {.target_vocabulary = m.tokenizer.size(), .blocks = 1, .depth = 4, .heads = 1};
  m.config.network.positions = positions;
  m.config.network.longest = context;
  m.model = models::transformer(m.config.network, 1);
  return m;
}

TEST(Lm, TalesAnswerTheirQuestions) {
  const std::vector<std::string> all = tales(300, 1);
  EXPECT_EQ(all, tales(300, 1));
  EXPECT_NE(all, tales(300, 2));
  for (const std::string& tale : all) {
    size_t asked = 0;
    for (size_t mark = tale.find("? "); mark != std::string::npos;
         mark = tale.find("? ", mark + 1)) {
      const std::string answer = tale.substr(mark + 2, tale.find('.', mark) - mark - 2);
      EXPECT_LT(tale.find(answer), tale.find('?')) << tale;
      ++asked;
    }
    EXPECT_GE(asked, 4u) << tale;
  }
}

// Answers by the tokens that follow a question, up to the full stop; after a line that is cut to
// the context, too.
TEST(Lm, AnswersAreCounted) {
  const std::vector<std::string> lines = {"a. b? a. b? b.", "no question.", "a? no end"};
  LanguageModel m = blank(100);
  m.tokenizer = text::Tokenizer::train({.unit = text::Unit::words}, lines);
  const std::vector<AnswerSpan> found = answers_in(*m.tokenizer.own(), lines[0]);
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].begin, 4);
  EXPECT_EQ(found[0].end, 6);
  EXPECT_EQ(found[1].end, 10);
  EXPECT_TRUE(answers_in(*m.tokenizer.own(), lines[1]).empty());
  EXPECT_TRUE(answers_in(*m.tokenizer.own(), lines[2]).empty());
  m.config.network.target_vocabulary = m.tokenizer.size();
  m.model = models::transformer(m.config.network, 1);
  EXPECT_EQ(right_answers(m, lines).questions, 2);
  m.config.context = 7;
  EXPECT_EQ(right_answers(m, lines).questions, 2);
  m.config.context = 6;
  EXPECT_EQ(right_answers(m, lines).questions, 1);
  EXPECT_EQ(right_answers(m, std::vector<std::string>{"no question."}).questions, 0);
}

// Each text by itself, whatever stands beside it: the mean loss of its tokens after the end of a
// line.
TEST(Lm, TextsAreForeseenOneByOne) {
  LanguageModel m = blank(100);
  m.config.train.batch_tokens = 300;  // three texts at once
  const std::vector<std::string> texts = {"abba", "b", "", "ab\nba", "aaaaaaaaaa"};
  const std::vector<Foreseen> all = foreseen(m, texts);
  ASSERT_EQ(all.size(), texts.size());
  for (size_t i = 0; i < texts.size(); ++i) {
    const Tokens own = encode_prompt(m.tokenizer, texts[i]);
    ASSERT_EQ(all[i].tokens, static_cast<int64_t>(own.size())) << texts[i];
    double loss = 0, most = -1;
    int64_t right = 0;
    std::string hardest;
    Tokens before = {text::kEnd};
    for (const int64_t id : own) {
      const auto T = static_cast<int64_t>(before.size());
      const Tensor states = models::decode_all(m.model, Tensor::from_ids(before, {1, T}));
      const std::vector<float> p = softmax(m.model.output(states.select(1, T - 1)), 1).to_vector();
      const double each = -std::log(static_cast<double>(p[static_cast<size_t>(id)]));
      right += std::max_element(p.begin(), p.end()) - p.begin() == id;
      if (each > most) most = each, hardest = id == text::kEnd ? "⏎" : m.tokenizer.token(id);
      loss += each;
      before.push_back(id);
    }
    const auto n = static_cast<double>(std::max<size_t>(own.size(), 1));
    EXPECT_NEAR(all[i].loss, loss / n, 1e-5) << texts[i];
    EXPECT_DOUBLE_EQ(all[i].accuracy, static_cast<double>(right) / n) << texts[i];
    EXPECT_EQ(all[i].hardest, hardest) << texts[i];
  }
  m.config.context = 4;  // of a longer one its end counts
  EXPECT_EQ(foreseen(m, texts)[4].tokens, 4);
}

TEST(Lm, ATextIsReadInPiecesOfAboutALine) {
  LmConfig c;
  const std::vector<std::string> lines = {"a tale", "", "another", std::string(300, 'x')};
  EXPECT_EQ(texts_in(c, lines), (std::vector<std::string>{"a tale", "another", lines[3]}));
  c.data.file = "book.txt";
  EXPECT_EQ(texts_in(c, lines), (std::vector<std::string>{"a tale\n\nanother", lines[3]}));
  EXPECT_TRUE(texts_in(c, std::vector<std::string>{"", ""}).empty());
}

TEST(Lm, LinesEndWithAToken) {
  const std::vector<std::string> lines = {"ab", "", "b"};
  const auto t = text::Tokenizer::train({}, lines);
  const Tokens ids = encode(t, lines);
  EXPECT_EQ(std::count(ids.begin(), ids.end(), text::kEnd), 3);
  EXPECT_EQ(encode_prompt(t, "ab\n\nb"), Tokens(ids.begin(), ids.end() - 1));
  EXPECT_TRUE(encode_prompt(t, "").empty());
  EXPECT_EQ(encode_prompt(t, "\n"), Tokens{text::kEnd});
  EXPECT_EQ(encode_prompt(t, "\xff"), Tokens{text::kUnknown});
}

TEST(Lm, TextIsHeldOutFromItsEnd) {
  const Folder folder;
  std::string text;
  for (int i = 0; i < 100; ++i) text += "line " + std::to_string(1000 + i) + "\n";
  test::write_bytes(folder / "a.txt", text);
  LmConfig c;
  c.data.file = folder / "a.txt";
  c.data.test_share = 0.2;
  const LmSets sets = load_data(c);
  EXPECT_EQ(sets.train.size(), 70u);
  EXPECT_EQ(sets.valid.size(), 10u);
  EXPECT_EQ(sets.valid.front(), "line 1070");
  EXPECT_EQ(sets.test.back(), "line 1099");
  test::write_bytes(folder / "a.txt", "one line");
  EXPECT_NE(error_of([&] { load_data(c); }).find("too few"), std::string::npos);
}

// text8 is one line.
TEST(Lm, ATextOfOneLineIsHeldOutToo) {
  const Folder folder;
  std::string words;
  for (int i = 0; i < 5000; ++i) words += "word" + std::to_string(i) + " ";
  test::write_bytes(folder / "a.txt", words);
  LmConfig c;
  c.data.file = folder / "a.txt";
  c.data.test_share = 0.2;
  const LmSets sets = load_data(c);
  size_t bytes[3] = {0, 0, 0}, at = 0;
  std::string joined;
  for (const auto* set : {&sets.train, &sets.valid, &sets.test}) {
    for (const std::string& line : *set) {
      bytes[at] += line.size() + 1;
      joined += line + ' ';
    }
    ++at;
  }
  joined.pop_back();
  EXPECT_EQ(joined, words);
  EXPECT_NEAR(static_cast<double>(bytes[0]), 0.7 * static_cast<double>(words.size()), 1000);
  EXPECT_NEAR(static_cast<double>(bytes[2]), 0.2 * static_cast<double>(words.size()), 1000);
}

TEST(Lm, EveryTokenButTheFirstIsScoredOnce) {
  const std::vector<std::string> lines = {"abba", "ba", "abab"};  // 13 tokens
  for (const int64_t context : {1, 5, 12, 100}) {
    LanguageModel m = blank(context);
    m.config.train.batch_tokens = 10;
    const NoGrad off;
    Tensor(m.model.target.table).fill_(0.0f);  // all logits are 0
    const Evaluation e = evaluate(m, lines);
    EXPECT_EQ(e.count, 12);
    EXPECT_NEAR(score_of(e.scores, "loss"), std::log(6.0), 1e-5);
    EXPECT_NEAR(score_of(e.scores, "bits"), 12 * std::log2(6.0) / 13, 1e-5);
    int64_t places = 0;
    for (const ScoredPart& part : e.breakdowns.front().parts) places += part.count;
    EXPECT_EQ(places, 12);
  }
}

TEST(Lm, WritesPieceByPieceAndGoesOnPastItsContext) {
  const LanguageModel m = blank(8);
  PredictSettings how;
  how.length = 50;
  for (const std::string prompt : {"", "a", "abbaabbaabbaabba", "a\nb", "x\xff"}) {
    std::string pieces;
    int calls = 0;
    const Prediction p =
        write_on(m, prompt, how, {.maps = Maps::keep, .piece = [&](std::string_view piece) {
                                    pieces += piece;
                                    ++calls;
                                  }});
    EXPECT_EQ(pieces, p.text + "\n");
    EXPECT_TRUE(p.text.starts_with(prompt));
    EXPECT_EQ(p.text.size(), prompt.size() + 50);
    EXPECT_GT(calls, 50);
    EXPECT_EQ(p.text, write_on(m, prompt, how, {}).text);
    ASSERT_EQ(p.pictures.size(), 1u);
    EXPECT_FALSE(p.pictures[0].get<report::Heatmap>().weights.empty());
  }
  const std::string first = write_on(m, "a", how, {}).text;
  how.seed = 1;
  EXPECT_NE(write_on(m, "a", how, {}).text, first);
}

// Whoever looks at it cuts the text to what it can read.
TEST(Lm, EveryKindOfPositionsWithASmallContext) {
  using nn::Positions;
  PredictSettings how;
  how.length = 5;
  for (const Positions positions : {Positions::none, Positions::sinusoidal, Positions::learned,
                                    Positions::rotary, Positions::alibi, Positions::t5}) {
    for (const int64_t context : {1, 2, 3, 16}) {
      const LanguageModel m = blank(context, positions);
      for (const std::string prompt : {"", "a", "abbaabbaabbaabbaabba"}) {
        SCOPED_TRACE(std::string(name_of(positions)) + std::to_string(context) + prompt);
        const Prediction p = write_on(m, prompt, how, {.maps = Maps::keep});
        const auto& map = p.pictures.at(0).get<report::Heatmap>();
        ASSERT_EQ(map.weights.size(), map.rows.size() * map.columns.size());
        for (size_t row = 0; row < map.rows.size(); ++row) {
          const auto begin = map.weights.begin() + static_cast<ptrdiff_t>(row * map.columns.size());
          EXPECT_NEAR(
              std::accumulate(begin, begin + static_cast<ptrdiff_t>(map.columns.size()), 0.0), 1.0,
              1e-5);
        }
        if (prompt.empty()) continue;
        const Inside in = inside(m, prompt);
        EXPECT_EQ(in.inputs.size(), std::min(prompt.size(), static_cast<size_t>(context)));
        EXPECT_EQ(in.attention().front().weights({}).size(2),
                  static_cast<int64_t>(in.inputs.size()));
      }
    }
  }
}

// As long as its tokens take, not as their square does.
TEST(Lm, LongPromptsAreReadOnce) {
  const LanguageModel m = blank(8);
  PredictSettings how;
  how.length = 1500;  // past where a line's beginning is forgotten
  const std::string prompt(200000, 'a');
  std::string pieces;
  const auto began = std::chrono::steady_clock::now();
  const Prediction p =
      write_on(m, prompt, how, {.piece = [&](std::string_view piece) { pieces += piece; }});
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(60));
  EXPECT_EQ(pieces, p.text + "\n");
  EXPECT_EQ(p.text.size(), prompt.size() + 1500);
}

TEST(Lm, LearnsTalesAndGoesOnWithThem) {
  const Folder folder;
  const auto config = [](const std::string& steps) {
    return config_from(task_lm, {{"examples", "400"},
                                 {"query-depth", "32"},
                                 {"heads", "2"},
                                 {"blocks", "1"},
                                 {"context", "48"},
                                 {"rate", "0.01"},
                                 {"warmup", "10"},
                                 {"decay", "constant"},
                                 {"steps", steps},
                                 {"batch-tokens", "512"},
                                 {"validate-every", "40"},
                                 {"dropout", "0.1"},
                                 {"positions", "alibi"}});
  };
  const RunFolder whole(folder / "whole"), parts(folder / "parts");
  const Trained t = train_run(task_lm, whole, *config("120"), Existing::refuse, {});
  EXPECT_LT(score_of(t.test.scores, "loss"), 2.0);
  EXPECT_GT(score_of(t.test.scores, "loss"), 0.1);
  train_run(task_lm, parts, *config("50"), Existing::refuse, {});
  train_run(task_lm, parts, *config("120"), Existing::go_on, {});
  EXPECT_EQ(test::read_bytes(whole / "model.safetensors"),
            test::read_bytes(parts / "model.safetensors"));
  const auto opened = task_lm.open(whole);
  const Evaluation again = opened->evaluate({}, *task_lm.evaluate_settings());
  EXPECT_EQ(score_of(again.scores, "loss"), score_of(t.test.scores, "loss"));
  EXPECT_EQ(opened->examples(5).size(), 5u);
}

// It learns to look back: chance among all names and deeds would answer one question in hundreds,
// chance among those of the tale one in five. Over five seeds: 92 % and more.
TEST(Lm, LearnsToAnswer) {
  if (test::reduced()) GTEST_SKIP() << "twenty seconds of training take minutes under sanitizers";
  const Folder folder;
  const auto config = config_from(task_lm, {{"decay", "constant"}, {"steps", "840"}});
  const Trained t = train_run(task_lm, RunFolder(folder / "run"), *config, Existing::refuse, {});
  EXPECT_GT(score_of(t.test.scores, "answered"), 60);
}

}  // namespace
}  // namespace fovea::tasks::lm
