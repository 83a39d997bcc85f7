#include "tasks/documents/documents.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <map>
#include <set>

#include "report/shaded_text.h"
#include "tasks/documents/reviews.h"
#include "tasks/page.h"
#include "tasks/train.h"
#include "tests/errors.h"
#include "tests/io/files.h"

namespace fovea::tasks::classification {
namespace {

using test::error_of;
using test::Folder;
using test::has;
using test::read_bytes;
using test::write_bytes;

// ---- Texts -------------------------------------------------------------------------------------

TEST(Reading, TakesATextApart) {
  const SplitDocument a = taken_apart("The film isn't bad , really. I liked it!", {});
  using Words = std::vector<std::string>;
  EXPECT_EQ(a.sentences, (std::vector<Words>{{"The", "film", "isn't", "bad", ",", "really", "."},
                                             {"I", "liked", "it", "!"}}));
  EXPECT_EQ(a.cut, 0);
  EXPECT_EQ(a.dropped, 0);
}

TEST(Reading, MarksAloneBelongToWhatWasSaid) {
  EXPECT_EQ(taken_apart("Why ?\n?\n! )\nYes", {}).sentences.size(), 2u);
  EXPECT_EQ(taken_apart("?\nYes", {}).sentences.size(), 2u);
}

TEST(Reading, CutsLongSentencesAndSaysWhatItDrops) {
  const SplitDocument a =
      taken_apart("a b c d e f g\nh\ni j\nk", {.longest_sentence = 3, .most_sentences = 4});
  ASSERT_EQ(a.sentences.size(), 4u);
  EXPECT_EQ(a.cut, 1);
  size_t words = 0;
  for (const auto& s : a.sentences) {
    EXPECT_LE(s.size(), 3u);
    words += s.size();
  }
  EXPECT_EQ(words, 8u);
  EXPECT_EQ(a.dropped, 3);
}

TEST(Reading, OfNothingIsOneUnknownWord) {
  const SplitDocument a = taken_apart(" \n ", {});
  ASSERT_EQ(a.sentences.size(), 1u);
  const Known known = known_of(std::vector<text::Labelled>{{"a", "x"}, {"b", "y"}}, {});
  EXPECT_EQ(known.ids_of(a), (models::DocumentIds{{text::kUnknown}}));
}

TEST(Known, WordsAreInSmallLettersTheMostFrequentFirst) {
  const Known known =
      known_of(std::vector<text::Labelled>{{"b", "Yes yes no"}, {"a", "YES No never"}},
               {.vocabulary = text::kFirst + 2});
  EXPECT_EQ(known.classes, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(known.words->size(), text::kFirst + 2);
  EXPECT_EQ(known.ids_of(taken_apart("yEs NO never", {})),
            (models::DocumentIds{{text::kFirst, text::kFirst + 1, text::kUnknown}}));
  EXPECT_EQ(known.class_of("b"), 1);
  EXPECT_EQ(known.class_of("c"), -1);
}

// ---- Sets --------------------------------------------------------------------------------------

std::vector<text::Labelled> numbered(int n) {
  std::vector<text::Labelled> all;
  for (int i = 0; i < n; ++i) all.push_back({i % 3 == 0 ? "a" : "b", "text " + std::to_string(i)});
  return all;
}

TEST(Split, KeepsTheSharesOfEachClass) {
  DocumentsData d{.valid_share = 0.1, .test_share = 0.2};
  const Documents s = split(numbered(300), d, 5);
  const auto count = [](const std::vector<text::Labelled>& set, const char* label) {
    return std::count_if(set.begin(), set.end(), [&](const auto& x) { return x.label == label; });
  };
  EXPECT_EQ(count(s.test, "a"), 20);
  EXPECT_EQ(count(s.test, "b"), 40);
  EXPECT_EQ(count(s.valid, "a"), 10);
  EXPECT_EQ(count(s.valid, "b"), 20);
  EXPECT_EQ(s.train.size(), 210u);
  const Documents again = split(numbered(300), d, 5), other = split(numbered(300), d, 6);
  EXPECT_EQ(again.test[0].text, s.test[0].text);
  EXPECT_FALSE(std::equal(other.test.begin(), other.test.end(), s.test.begin(), s.test.end(),
                          [](const auto& a, const auto& b) { return a.text == b.text; }));
}

TEST(Split, FoldsAreAllOfTheData) {
  std::multiset<std::string> seen;
  for (int64_t k = 1; k <= 5; ++k) {
    const Documents s = split(numbered(100), {.valid_share = 0.1, .folds = 5, .fold = k}, 1);
    EXPECT_NEAR(static_cast<double>(s.test.size()), 20, 1);
    EXPECT_EQ(s.valid.size(), 10u);
    EXPECT_EQ(s.train.size() + s.valid.size() + s.test.size(), 100u);
    for (const auto& x : s.test) seen.insert(x.text);
    // Which fold it is does not depend on the seed, but the seed may say it.
    const Documents by_seed = split(numbered(100), {.folds = 5}, static_cast<uint64_t>(k));
    EXPECT_EQ(by_seed.test[0].text, s.test[0].text) << k;
  }
  EXPECT_EQ(seen.size(), 100u);
  EXPECT_EQ(std::set<std::string>(seen.begin(), seen.end()).size(), 100u);
  EXPECT_TRUE(has(error_of([] { split(numbered(9), {.folds = 3, .fold = 4}, 1); }), "--fold 4"));
  EXPECT_TRUE(has(error_of([] { split(numbered(9), {.folds = 1}, 1); }), "--folds"));
}

TEST(Split, EqualTextsStayTogether) {
  std::vector<text::Labelled> all = numbered(60);
  const std::vector<text::Labelled> copy = all;
  all.insert(all.end(), copy.begin(), copy.end());
  const Documents s = split(all, {.valid_share = 0.2, .test_share = 0.2}, 3);
  std::set<std::string> train, held;
  for (const auto& x : s.train) train.insert(x.text);
  for (const auto& x : s.valid) held.insert(x.text);
  for (const auto& x : s.test) held.insert(x.text);
  for (const std::string& text : held) EXPECT_FALSE(train.contains(text)) << text;
}

TEST(Data, ThatCannotBeLearntFromIsRefused) {
  const Folder folder;
  const auto error = [&](const std::string& bytes, DocumentsData d = {}) {
    write_bytes(folder / "d.tsv", bytes);
    d.data = folder / "d.tsv";
    return error_of([&] { load_data(d, 1); });
  };
  EXPECT_TRUE(has(error("a\tx\na\ty\n"), "all 2 documents to train with are of one class, 'a'"));
  std::string swapped, fine;
  for (int i = 0; i < 40; ++i) {
    swapped += fmt::format("some text {}\tpos\n", i);
    fine += fmt::format("{}\tsome text {}\n", i % 2, i);
  }
  EXPECT_TRUE(has(error(swapped),
                  "is that column the text? A TSV file has the label first, or a "
                  "first line that names its columns, text<TAB>label"));
  EXPECT_EQ(error("text\tlabel\n" + swapped + "one more\tneg\n" + "and more\tneg\n"), "no error");
  EXPECT_TRUE(has(error(fine, {.valid_share = 0}), "a larger --valid-share"));
  std::string equal;
  for (int i = 0; i < 40; ++i) equal += i % 2 == 0 ? "a\tgood\n" : "b\tbad\n";
  EXPECT_TRUE(
      has(error(equal), "40 documents have 2 different texts, and equal ones stay together"));
  EXPECT_EQ(error(fine), "no error");
}

// ---- Reviews -----------------------------------------------------------------------------------

TEST(Reviews, AreAFunctionOfSeedAndNumber) {
  EXPECT_EQ(write_review(3, 7).document.text, write_review(3, 7).document.text);
  EXPECT_NE(write_review(3, 7).document.text, write_review(3, 8).document.text);
  EXPECT_NE(write_review(3, 7).document.text, write_review(4, 7).document.text);
}

// The splitter finds the sentences that the grammar wrote, and no single word gives the class away.
TEST(Reviews, AreSentencesOfWhichAFewDecide) {
  std::map<std::string, std::map<std::string, int>> counts;
  for (uint64_t i = 0; i < 2000; ++i) {
    const Review r = write_review(1, i);
    const SplitDocument apart = taken_apart(r.document.text, {});
    ASSERT_EQ(apart.sentences.size(), r.decides.size()) << r.document.text;
    const auto deciding = std::count(r.decides.begin(), r.decides.end(), true);
    EXPECT_GE(deciding, 1);
    EXPECT_LE(deciding, 2);
    std::set<std::string> words;
    for (const auto& s : apart.sentences) words.insert(s.begin(), s.end());
    for (const std::string& w : words) ++counts[w][r.document.label];
  }
  for (const auto& [word, by] : counts) {
    const int positive = by.contains("positive") ? by.at("positive") : 0;
    const int negative = by.contains("negative") ? by.at("negative") : 0;
    if (positive + negative < 100) continue;
    const double share = static_cast<double>(positive) / (positive + negative);
    EXPECT_GT(share, 0.2) << word;
    EXPECT_LT(share, 0.8) << word;
  }
}

// ---- Scores ------------------------------------------------------------------------------------

Graded graded(const std::vector<std::pair<int64_t, int64_t>>& true_and_said, size_t classes) {
  Graded g;
  for (const auto& [is, said] : true_and_said) {
    g.classes.push_back(is);
    Judgement j;
    j.probabilities.assign(classes, 0.1f);
    j.probabilities[static_cast<size_t>(said)] = 0.7f;
    g.judged.push_back(j);
  }
  return g;
}

TEST(Scores, AreByClassAndInWhole) {
  // Of class 0 two of three are right, of class 1 one of one, of class 2 none of two.
  const Graded g = graded({{0, 0}, {0, 0}, {0, 1}, {1, 1}, {2, 1}, {2, 0}}, 4);
  const Evaluation e = evaluation_of(g, {"a", "b", "c", "d"});
  EXPECT_EQ(e.count, 6);
  EXPECT_NEAR(score_of(e.scores, "accuracy"), 50, 1e-9);
  // F1: 2·2/(3+3), 2·1/(3+1), 0; class d has no documents.
  EXPECT_NEAR(score_of(e.scores, "macro_f1"), 100 * (4.0 / 6 + 0.5 + 0) / 3, 1e-9);
  EXPECT_NEAR(score_of(e.scores, "loss"), -(3 * std::log(0.7) + 3 * std::log(0.1)) / 6, 1e-6);
  const Breakdown* by = find_breakdown(e, "class");
  ASSERT_TRUE(by);
  EXPECT_NEAR(score_of(by->parts[1].scores, "precision"), 100.0 / 3, 1e-9);
  EXPECT_NEAR(score_of(by->parts[1].scores, "recall"), 100, 1e-9);
  EXPECT_NEAR(score_of(by->parts[3].scores, "f1"), 0, 1e-9);
  EXPECT_EQ(by->parts[0].count, 3);
  const Breakdown* confusion = find_breakdown(e, "confusion");
  ASSERT_TRUE(confusion);
  EXPECT_EQ(score_of(confusion->parts[2].scores, "a"), 1);
  EXPECT_EQ(score_of(confusion->parts[0].scores, "b"), 1);
}

// ---- Trained -----------------------------------------------------------------------------------

DocumentsConfig small() {
  const auto c = config_from(task_documents, {{"examples", "2400"}});
  return dynamic_cast<const DocumentsConfig&>(*c);
}

RunFolder trained(const Folder& folder, DocumentsConfig config) {
  const RunFolder at(folder / "run");
  train_run(task_documents, at, config, Existing::refuse, {});
  return at;
}

// One run for all tests that only read it.
const RunFolder& trained_run() {
  static const Folder folder;
  static const RunFolder run = trained(folder, small());
  return run;
}

// Where it does not matter what it learned.
const RunFolder& hardly_trained_run() {
  static const Folder folder;
  static const RunFolder run = [] {
    DocumentsConfig config = small();
    config.train.steps = 2;
    return trained(folder, config);
  }();
  return run;
}

TEST(DocumentsRun, LearnsTheReviews) {
  const Trained t = trained_run().results();
  EXPECT_EQ(t.test.unit, "documents");
  EXPECT_GE(score_of(t.test.scores, "accuracy"), 90);  // of six seeds, the worst: 97
}

// Attention is judged: most of it lies on the sentences that decide, of which there are few.
TEST(DocumentsRun, LooksAtTheSentencesThatDecide) {
  const Classifier c = load_classifier(trained_run());
  std::vector<models::DocumentIds> ids;
  std::vector<Review> reviews;
  for (uint64_t i = 0; i < 100; ++i) {
    reviews.push_back(write_review(99, i));
    ids.push_back(c.known.ids_of(taken_apart(reviews.back().document.text, c.config.reading)));
  }
  double on_deciding = 0, right = 0;
  const auto judged = judge(c, ids, Maps::keep);
  for (size_t i = 0; i < reviews.size(); ++i) {
    double sum = 0;
    for (size_t s = 0; s < reviews[i].decides.size(); ++s) {
      const double weight = static_cast<double>(judged[i].looked.sentences[s]);
      sum += weight;
      if (reviews[i].decides[s]) on_deciding += weight;
      double words = 0;
      for (const float w : judged[i].looked.words[s]) words += static_cast<double>(w);
      EXPECT_NEAR(words, 1, 1e-5);
    }
    EXPECT_NEAR(sum, 1, 1e-5);
    right +=
        c.known.classes[static_cast<size_t>(judged[i].likeliest())] == reviews[i].document.label;
  }
  // Of six seeds, the worst: 95 and 0.81. Weights that are all the same come to 0.21.
  EXPECT_GE(right, 88);
  EXPECT_GE(on_deciding / 100, 0.6);
}

TEST(DocumentsRun, PredictsAClassWithItsProbability) {
  const auto run = task_documents.open(trained_run());
  PredictSettings how;
  how.n_best = 5;
  const std::vector<Input> inputs = {Text{"The film is superb. The hotel was awful."},
                                     Text{"The hotel was superb. The film is awful."}, Text{}};
  const auto all = run->predict(inputs, how, {.maps = Maps::keep});
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[0][0].text, "positive");
  EXPECT_EQ(all[1][0].text, "negative");
  ASSERT_EQ(all[0].size(), 2u);
  EXPECT_NEAR(all[0][0].score + all[0][1].score, 1, 1e-5);
  ASSERT_EQ(all[0][0].pictures.size(), 1u);
  const auto& shaded = all[0][0].pictures[0].get<report::ShadedText>();
  ASSERT_EQ(shaded.lines.size(), 2u);
  EXPECT_EQ(shaded.lines[0].words, (std::vector<std::string>{"The", "film", "is", "superb", "."}));
  EXPECT_GT(shaded.lines[0].weight, shaded.lines[1].weight);
  EXPECT_TRUE(run->predict(inputs, how)[0][0].pictures.empty());
}

TEST(DocumentsRun, ThePageShowsTextsWordsAndClasses) {
  const report::Page page = page_of(trained_run());
  const auto section = [&](const std::string& heading) -> const report::Section& {
    for (const report::Section& s : page.sections) {
      if (s.heading == heading) return s;
    }
    ADD_FAILURE() << heading;
    return page.sections.front();
  };
  const auto& shaded = std::get<report::Pictures>(section("Examples").blocks.back());
  EXPECT_EQ(shaded.items.size(), 8u);
  const auto& classes = std::get<report::Table>(section("By class").blocks[0]);
  EXPECT_EQ(classes.header,
            (std::vector<std::string>{"class", "documents", "precision", "recall", "f1"}));
  const auto& confusion = std::get<report::Table>(section("By confusion").blocks[0]);
  EXPECT_EQ(confusion.rows.size(), 2u);
  const auto& words = section("Most attended words");
  ASSERT_EQ(words.blocks.size(), 3u);
  std::string negative;
  for (const auto& row : std::get<report::Table>(words.blocks[1]).rows) negative += row[0] + " ";
  EXPECT_TRUE(has(negative, "awful") || has(negative, "dull") || has(negative, "boring"))
      << negative;
  // What is everywhere does not lead, however much it draws.
  for (size_t k = 1; k <= 2; ++k) {
    double before = 1e9;
    for (const auto& row : std::get<report::Table>(words.blocks[k]).rows) {
      // Shares in %, to a hundredth: the least and the most that the ratio can be.
      const double share = std::stod(row[1]) + 0.02, elsewhere = std::stod(row[2]) + 0.02;
      EXPECT_LE((share - 0.005) / (elsewhere + 0.005), before) << row[0];
      before = (share + 0.005) / (elsewhere - 0.005);
      EXPECT_GT(before, 1.0) << row[0];
    }
  }
}

TEST(DocumentsRun, OfWordsAloneIsFlatAndWorksToo) {
  const Folder folder;
  for (const char* model : {"flat", "mean"}) {
    auto c = config_from(task_documents, {{"examples", "200"}, {"epochs", "1"}, {"model", model}});
    const RunFolder run(folder / model);
    train_run(task_documents, run, *c, Existing::refuse, {});
    const auto opened = task_documents.open(run);
    const std::vector<Input> inputs = {Text{"The film is superb. It rained."}, Text{"One."}};
    const auto all = opened->predict(inputs, PredictSettings(), {.maps = Maps::keep});
    if (std::string(model) == "mean") {
      EXPECT_TRUE(all[0][0].pictures.empty());
      continue;
    }
    float sum = 0;
    for (const auto& line : all[0][0].pictures[0].get<report::ShadedText>().lines)
      sum += line.weight;
    EXPECT_NEAR(sum, 1, 1e-5f);
  }
}

TEST(DocumentsRun, RefusesAClassItDoesNotKnow) {
  const Folder folder;
  write_bytes(folder / "d.tsv", "neutral\tIt rained.\n");
  const auto run = task_documents.open(hardly_trained_run());
  EXPECT_TRUE(has(error_of([&] { run->evaluate({.file = folder / "d.tsv"}, EvaluateSettings()); }),
                  "the class 'neutral' was not in the training; there are negative, positive"));
}

TEST(DocumentsRun, RefusesADamagedFolder) {
  const Folder folder;
  std::filesystem::copy(hardly_trained_run().path(), folder / "run");
  const std::string words = folder / "run/words.json", good = read_bytes(words);
  for (const std::string& bad :
       {std::string("{"), std::string("{}"), std::string("{\"classes\":[1]}"),
        std::string("{\"classes\":[\"a\",\"a\"],\"words\":[\"x\"]}"),
        std::string("{\"classes\":[\"a\",\"b\"],\"words\":[\"x\",\"x\"]}")}) {
    write_bytes(words, bad);
    EXPECT_NE(error_of([&] { load_classifier(RunFolder(folder / "run")); }), "no error") << bad;
  }
  write_bytes(words, "{\"classes\":[\"a\",\"b\"],\"words\":[\"x\"]}");
  EXPECT_TRUE(has(error_of([&] { load_classifier(RunFolder(folder / "run")); }),
                  "model.safetensors: words.embedding.weight is ["));
}

TEST(Documents, SomeSentencesAreLeftOutInTraining) {
  models::DocumentIds document;
  for (int64_t i = 0; i < 1000; ++i) document.push_back({i});
  EXPECT_EQ(thinned(document, 0.0, 1), document);
  const models::DocumentIds kept = thinned(document, 0.3, 1);
  EXPECT_NEAR(static_cast<double>(kept.size()), 700.0, 60.0);
  EXPECT_TRUE(std::is_sorted(kept.begin(), kept.end()));
  EXPECT_EQ(thinned(document, 0.3, 1), kept);
  EXPECT_NE(thinned(document, 0.3, 2), kept);
  for (uint64_t seed = 0; seed < 50; ++seed)
    EXPECT_EQ(thinned({{7}, {8}}, 0.95, seed).empty(), false);
}

}  // namespace
}  // namespace fovea::tasks::classification
