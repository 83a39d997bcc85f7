#include "tasks/translate/translate.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "fovea/io.h"
#include "fovea/runtime.h"
#include "io/json.h"
#include "report/heatmap.h"
#include "tasks/page.h"
#include "tasks/train.h"
#include "tests/errors.h"
#include "tests/io/files.h"

namespace fovea::tasks::translation {
namespace {

namespace fs = std::filesystem;
using test::error_of;
using test::Folder;
using test::has;
using test::read_bytes;
using test::write_bytes;

Trained train_translate(const fs::path& run, TranslateConfig config, const Watching& w) {
  const RunFolder folder(run);
  return train_run(task_translate, folder, config,
                   folder.holds_run() ? Existing::go_on : Existing::refuse, w);
}
TranslateConfig saved_config(const fs::path& run) {
  return dynamic_cast<const TranslateConfig&>(*RunFolder(run).config());
}

// The page's section of this heading holds this; an example of a page is what a reader sees.
const report::Section& section(const report::Page& page, const std::string& heading) {
  for (const report::Section& s : page.sections) {
    if (s.heading == heading) return s;
  }
  ADD_FAILURE() << "no section " << heading;
  static const report::Section none;
  return none;
}
template <class Block>
const Block* block_of(const report::Section& s) {
  for (const auto& b : s.blocks) {
    if (const auto* found = std::get_if<Block>(&b)) return found;
  }
  return nullptr;
}

// Two short epochs over a few dates, with everything on that draws random numbers.
TranslateConfig tiny() {
  TranslateConfig c = defaults_for({.examples = 240});
  c.network.embedding = 8;
  c.network.hidden = 16;
  c.loss.dropout = 0.1f;
  c.train.epochs = 2;
  c.train.batch_tokens = 700;
  c.train.validate_every = 4;
  c.train.average = 0.9f;
  c.valid_sentences = 5;
  return c;
}

Trained train_until(const fs::path& run, const TranslateConfig& config, int64_t reports) {
  std::atomic<bool> stop = false;
  const Watching watching{
      .say = {}, .progress = [&](const train::Progress&) { stop = --reports <= 0; }, .stop = &stop};
  return train_translate(run, config, watching);
}

void expect_same_files(const fs::path& a, const fs::path& b) {
  for (const char* name : {"config.json", "source.vocab", "target.vocab", "log.jsonl",
                           "model.safetensors", "looks.json"}) {
    EXPECT_FALSE(read_bytes(a / name).empty()) << name;
    EXPECT_TRUE(read_bytes(a / name) == read_bytes(b / name)) << name << " differs";
  }
}

TEST(Translate, ARunIsAFolderThatLoadsBack) {
  const Folder folder;
  const fs::path run = folder / "run";
  std::vector<std::string> said;
  const Watching watching{.say = [&](const std::string& line) { said.push_back(line); }};
  const Trained trained = train_translate(run, tiny(), watching);
  EXPECT_EQ(trained.finished.epochs, 2);
  ASSERT_FALSE(said.empty());
  EXPECT_TRUE(has(said.front(), "pairs to train")) << said.front();
  for (const char* name : {"config.json", "source.vocab", "target.vocab", "model.safetensors",
                           "log.jsonl", "state.safetensors", "results.json", "report.html"}) {
    EXPECT_GT(fs::file_size(run / name), 0u) << name;
  }
  const auto results = read_json(run / "results.json");
  EXPECT_EQ(results["test"]["sentences"], trained.test.count);
  EXPECT_EQ(results["steps"], trained.finished.steps);
  for (const auto& [name, value] : trained.test.scores) {
    EXPECT_EQ(results["test"]["scores"][name].get<double>(), value) << name;
  }

  const Translator t = load_translator(RunFolder(run));
  EXPECT_EQ(t.config.network.hidden, 16);
  const TranslateSets sets = load_data(t.config.data, t.config.train.seed);
  EXPECT_EQ(sets.fingerprint, t.config.fingerprint);
  const Evaluation again = evaluate(t, sets.pairs.test, {});
  EXPECT_EQ(again.scores, trained.test.scores);  // the weights kept are those that were judged
}

TEST(Translate, IsAFunctionOfTheModelAndTheLine) {
  const Folder folder;
  train_translate(folder / "run", tiny(), {});
  const Translator t = load_translator(RunFolder(folder / "run"));
  const std::vector<std::string> lines = {"3 May 1979", "le 14 juillet 1989", "", "12/24/2001",
                                          "漢字 2000"};
  const models::DecodeConfig how{.beam = 3, .n_best = 3};
  const auto first = translate(t, lines, how), second = translate(t, lines, how);
  models::DecodeConfig looking = how;
  looking.weights = true;
  const auto looked = translate(t, lines, looking);
  ASSERT_EQ(first.size(), lines.size());
  for (size_t i = 0; i < lines.size(); ++i) {
    ASSERT_EQ(first[i].size(), 3u);
    const auto alone = translate(t, std::span(&lines[i], 1), how).front();
    for (size_t n = 0; n < 3; ++n) {
      EXPECT_EQ(first[i][n].text, second[i][n].text);
      EXPECT_EQ(first[i][n].score, second[i][n].score);
      EXPECT_EQ(first[i][n].text, looked[i][n].text);
      EXPECT_EQ(first[i][n].text, alone[n].text);
      EXPECT_NEAR(first[i][n].score, alone[n].score, 1e-5);
      EXPECT_TRUE(first[i][n].pictures.empty());
      ASSERT_EQ(looked[i][n].pictures.size(), 1u);
      const auto& map = looked[i][n].pictures.front().get<report::Heatmap>();
      EXPECT_EQ(map.weights.size(), map.rows.size() * map.columns.size());
      EXPECT_EQ(map.columns.size(), text::characters(lines[i]).size() + 1);
    }
  }
  EXPECT_TRUE(translate(t, {}, how).empty());
  std::vector<double> shares;
  translate(t, lines, how, [&](double share) { shares.push_back(share); });
  EXPECT_EQ(shares.back(), 1.0);
}

TEST(Translate, GoesOnFromAPrefix) {
  const Folder folder;
  for (const char* kind : {"recurrent", "transformer"}) {
    const Given typed{{"examples", "120"}, {"model", kind}, {"steps", "2"},
                      {"hidden", "16"},    {"blocks", "1"}, {"seed", "1"}};
    const RunFolder run(folder / kind);
    train_run(task_translate, run, *config_from(task_translate, typed), Existing::refuse, {});
    const auto opened = task_translate.open(run);
    PredictSettings how;
    how.prefix = "1999-0";
    for (const int64_t beam : {1, 4}) {
      how.decode.beam = beam;
      const Input line = Text{"3 May 1979"};
      const Prediction best =
          opened->predict(std::span(&line, 1), how, {.maps = Maps::keep}).front().front();
      EXPECT_TRUE(best.text.starts_with("1999-0")) << best.text;
      ASSERT_EQ(best.pictures.size(), 1u);
      EXPECT_EQ(best.pictures[0].get<report::Heatmap>().rows[3], "9");
    }
    how.prefix = "1999漢";
    const Input line = Text{"3 May 1979"};
    EXPECT_TRUE(has(error_of([&] { opened->predict(std::span(&line, 1), how); }), "漢"));
  }
}

TEST(Translate, AnInterruptedRunGoesOnAsIfItNeverStopped) {
  const Folder folder;
  train_translate(folder / "whole", tiny(), {});
  const fs::path once = folder / "once", often = folder / "often";
  EXPECT_EQ(train_until(once, tiny(), 2).finished.why, train::Ended::interrupted);
  EXPECT_FALSE(fs::exists(once / "results.json"));
  EXPECT_EQ(train_translate(once, saved_config(once), {}).finished.why, train::Ended::finished);
  expect_same_files(once, folder / "whole");

  int64_t stops = 0;
  train::Ended why = train_until(often, tiny(), 1).finished.why;
  for (; why == train::Ended::interrupted; ++stops) {
    why = train_until(often, saved_config(often), 1).finished.why;
  }
  EXPECT_GE(stops, 2);
  expect_same_files(often, folder / "whole");
}

TEST(Translate, AConfigRepeatsItsRun) {
  const Folder folder;
  const int before = threads();
  train_translate(folder / "first", tiny(), {});
  set_threads(before == 1 ? 3 : 1);
  train_translate(folder / "again", saved_config(folder / "first"), {});
  set_threads(before);
  expect_same_files(folder / "again", folder / "first");
  TranslateConfig other = saved_config(folder / "first");
  other.train.seed = 2;
  other.fingerprint.clear();
  train_translate(folder / "other", other, {});
  EXPECT_TRUE(read_bytes(folder / "other" / "model.safetensors") !=
              read_bytes(folder / "first" / "model.safetensors"));
}

// What the page of a run must show: the scores as they are, an example for each held-out source
// with what was expected of it, where the model looked unless it does not look, and its settings.
void expect_page(const report::Page& page, const TranslateConfig& c, const Evaluation& test) {
  const bool looks = c.network.context == models::Context::attention;
  EXPECT_TRUE(has(page.subtitle, c.attention())) << page.subtitle;
  const auto* scores = block_of<report::Table>(section(page, "Scores"));
  ASSERT_NE(scores, nullptr);
  ASSERT_EQ(scores->rows.size(), test.scores.size());
  for (size_t i = 0; i < test.scores.size(); ++i) {
    const Measure* m = find_measure(measures(), test.scores[i].first);
    ASSERT_NE(m, nullptr) << test.scores[i].first;
    EXPECT_EQ(scores->rows[i],
              (std::vector<std::string>{m->title, shown(*m, test.scores[i].second)}));
  }
  const auto* bars = block_of<report::Bars>(section(page, "Scores by length"));
  ASSERT_NE(bars, nullptr);
  EXPECT_EQ(bars->groups.size(), test.breakdowns.front().parts.size());
  EXPECT_EQ(bars->series, (std::vector<std::string>{"BLEU", "chrF", "exact match"}));
  const report::Section& examples = section(page, "Examples");
  const auto* table = block_of<report::Table>(examples);
  ASSERT_NE(table, nullptr);
  EXPECT_EQ(table->rows.size(), std::min<size_t>(12, static_cast<size_t>(test.count)));
  const auto* gallery = block_of<report::Pictures>(examples);
  ASSERT_EQ(gallery != nullptr, looks);
  if (looks) {
    ASSERT_EQ(gallery->items.size(), table->rows.size());
    for (size_t i = 0; i < table->rows.size(); ++i) {
      const auto& map = gallery->items[i].get<report::Heatmap>();
      EXPECT_EQ(map.title, table->rows[i][0] + " → " + table->rows[i][1]);
      EXPECT_FALSE(map.weights.empty());
    }
  }
  const auto* settings = block_of<report::Table>(section(page, "Settings"));
  ASSERT_NE(settings, nullptr);
  const std::vector<std::string> hidden = {"hidden", std::to_string(c.network.hidden)};
  EXPECT_EQ(std::count(settings->rows.begin(), settings->rows.end(), hidden), 1);
}

TEST(Translate, EveryKindOfModelTrains) {
  const Folder folder;
  const auto trains = [&](const std::string& name,
                          const std::function<void(TranslateConfig&)>& set) {
    SCOPED_TRACE(name);
    TranslateConfig c = tiny();
    c.data.examples = 120;
    c.train.epochs = 0;
    c.train.steps = 3;
    set(c);
    const Trained t = train_translate(folder / name, c, {});
    EXPECT_EQ(t.finished.steps, 3);
    const RunFolder run(folder / name);
    EXPECT_EQ(load_translator(run).config.network.weighting, c.network.weighting);
    expect_page(page_of(run), c, t.test);
    EXPECT_EQ(report::to_html(page_of(run)), read_bytes(run / "report.html"));
  };
  trains("hard", [](TranslateConfig& c) { c.network.weighting = "sample"; });
  trains("fixed", [](TranslateConfig& c) { c.network.context = models::Context::fixed; });
  trains("local", [](TranslateConfig& c) {
    c.network.order = models::Order::luong;
    c.network.input_feeding = true;
    c.network.locality = models::Locality::local_p;
    c.network.cell = nn::Cell::lstm;
    c.network.layers = 2;
    c.beam = 3;
  });
  trains("location", [](TranslateConfig& c) { c.network.score = "location"; });
  trains("words", [](TranslateConfig& c) {
    c.data.builtin = "phrases";
    c.source.unit = c.target.unit = text::Unit::words;
  });
  trains("subwords", [](TranslateConfig& c) {
    c.data.builtin = "phrases";
    c.source.unit = c.target.unit = text::Unit::subwords;
    c.source.size = c.target.size = 90;
    c.data.swap = true;
  });
}

// ---- The user's files ---------------------------------------------------------------------------

std::string pairs_as_tsv(const std::string& last) {
  std::string tsv;
  for (int i = 0; i < 60; ++i)
    tsv += std::to_string(i) + " apples\tpommes " + std::to_string(i) + "\n";
  return tsv + "one more\t" + last + "\n";
}

TranslateConfig of_file(const fs::path& tsv) {
  TranslateConfig c = tiny();
  c.data.tsv = tsv.string();
  c.data.valid_share = c.data.test_share = 0.15;
  c.train.validate_every = 1;  // so that the first step is reported, however fast the machine
  return c;
}

TEST(Translate, ChangedDataAreNoticed) {
  const Folder folder;
  const fs::path run = folder / "run", tsv = folder / "pairs.tsv";
  write_bytes(tsv, pairs_as_tsv("encore"));
  EXPECT_EQ(train_until(run, of_file(tsv), 1).finished.why, train::Ended::interrupted);
  const std::string state = read_bytes(run / "state.safetensors");
  write_bytes(tsv, pairs_as_tsv("encora"));
  for (const TranslateConfig& config : {saved_config(run), of_file(tsv)}) {
    const std::string message = error_of([&] { train_translate(run, config, {}); });
    EXPECT_TRUE(has(message, "the data changed")) << message;
  }
  EXPECT_EQ(read_bytes(run / "state.safetensors"), state);
  write_bytes(tsv, pairs_as_tsv("encore"));
  EXPECT_EQ(train_translate(run, saved_config(run), {}).finished.why, train::Ended::finished);
}

// The report is made of what is in memory: the files it would have to read again are gone.
TEST(Translate, TheEndOfATrainingReadsNothingAgain) {
  const Folder folder;
  const fs::path run = folder / "run", tsv = folder / "pairs.tsv";
  write_bytes(tsv, pairs_as_tsv("encore"));
  const auto remove = [&](const train::Progress&) {
    for (const fs::path& file : {tsv, run / "source.vocab", run / "target.vocab"}) fs::remove(file);
  };
  const Trained trained = train_translate(run, of_file(tsv), {.progress = remove});
  EXPECT_FALSE(fs::exists(tsv));
  EXPECT_GT(trained.test.count, 0);
  EXPECT_TRUE(has(read_bytes(run / "report.html"), "apples → "));
}

TEST(Translate, WhatFailsBeforeItsFirstStepLeavesNoRun) {
  const Folder folder;
  write_bytes(folder / "pairs.tsv", pairs_as_tsv("encore"));
  TranslateConfig c = of_file(folder / "pairs.tsv");
  c.data.longest = 1;
  EXPECT_TRUE(has(error_of([&] { train_translate(folder / "run", c, {}); }), "--longest"));
  EXPECT_FALSE(fs::exists(folder / "run"));
}

TEST(Translate, ValidationKnowsEveryTranslationOfASource) {
  const Folder folder;
  std::string pairs, valid_pairs;
  for (int i = 0; i < 30; ++i) {
    const std::string learnt = fmt::format("{0} apples\tpommes {0}\n", i);
    pairs += learnt;
    valid_pairs += fmt::format("{} apples\tdes pommes\n", i) + learnt;
  }
  write_bytes(folder / "pairs.tsv", pairs);
  write_bytes(folder / "valid.tsv", valid_pairs);
  TranslateConfig c = of_file(folder / "pairs.tsv");
  c.data.valid = c.data.test = (folder / "valid.tsv").string();
  c.valid_sentences = 30;
  c.target.unit = text::Unit::words;
  c.train.validate_every = 50;
  c.train.epochs = 200;
  c.train.schedule.warmup = 2;
  train_translate(folder / "run", c, {});
  const auto results = read_json(folder / "run" / "results.json");
  const auto &valid = results["valid"], &test = results["test"]["scores"];
  EXPECT_LT(valid["token_error"].get<double>(), 90.0);  // it has learnt something to compare
  for (const char* score : {"bleu", "chrf", "exact", "token_error"}) {
    EXPECT_EQ(valid[score], test[score]) << score;
  }
}

TEST(Translate, VocabulariesLeftByNoRunAreMadeAnew) {
  const Folder folder;
  const fs::path run = folder / "run", tsv = folder / "pairs.tsv";
  write_bytes(tsv, pairs_as_tsv("encore"));
  fs::create_directory(run);
  const std::vector<std::string> other = {"xyz"};
  text::Tokenizer::train({}, other).save(run / "source.vocab");
  EXPECT_TRUE(has(error_of([&] { train_translate(run, of_file(tsv), {}); }), "holds source.vocab"));
  write_bytes(run / "log.jsonl", "");  // as a beginning that was killed leaves it
  train_translate(run, of_file(tsv), {});
  EXPECT_GT(load_translator(RunFolder(run)).source.size(), 10);
}

TEST(Translate, WhatCannotBeTrainedIsSaid) {
  const Folder folder;
  const fs::path tsv = folder / "pairs.tsv";
  write_bytes(tsv, pairs_as_tsv("encore"));
  const auto message = [&](const std::function<void(TranslateConfig&)>& set) {
    TranslateConfig c = of_file(tsv);
    set(c);
    return error_of([&] { train_translate(folder / "run", c, {}); });
  };
  EXPECT_TRUE(has(message([](auto& c) { c.data.tsv = "/nowhere/pairs.tsv"; }), "pairs.tsv"));
  EXPECT_TRUE(has(message([](auto& c) { c.data.source = "a.txt"; }), "not both"));
  EXPECT_TRUE(has(message([](auto& c) { c.data.tsv.clear(), c.data.target = "a.txt"; }), "--tgt"));
  EXPECT_TRUE(has(message([](auto& c) { c.data.valid_share = 0; }), "--valid-share"));
  EXPECT_TRUE(has(message([](auto& c) { c.data.longest = 1; }), "--longest"));
  EXPECT_TRUE(
      has(message([](auto& c) { c.watch = "bleu", c.valid_sentences = 0; }), "--valid-sentences"));
  EXPECT_TRUE(has(message([](auto& c) { c.network.input_feeding = true; }), "luong"));
  EXPECT_TRUE(has(message([](auto& c) { c.train.epochs = 0; }), "epochs"));
}

TEST(Translate, SidesAreSwapped) {
  const Folder folder;
  const fs::path tsv = folder / "pairs.tsv";
  write_bytes(tsv, pairs_as_tsv("encore"));
  TranslateData data{.tsv = tsv.string()};
  const text::Pair there = load_data(data, 1).pairs.train.front();
  data.swap = true;
  bool found = false;
  const TranslateSets back = load_data(data, 1);
  for (const auto* set : {&back.pairs.train, &back.pairs.valid, &back.pairs.test}) {
    for (const text::Pair& p : *set) found |= p.source == there.target && p.target == there.source;
  }
  EXPECT_TRUE(found);
}

// ---- Files that do not belong together ----------------------------------------------------------

void train_a_step(const fs::path& run) {
  TranslateConfig c = tiny();
  c.train.epochs = 0;
  c.train.steps = 1;
  train_translate(run, c, {});
}

TEST(Translate, SizesThatTheWeightsDoNotHaveTakeNoMemory) {
  const Folder folder;
  const fs::path run = folder / "run";
  train_a_step(run);
  const auto json = read_json(run / "config.json");
  const auto message = [&](const std::string& field, const nlohmann::ordered_json& value) {
    auto changed = json;
    changed[field] = value;
    write_json(run / "config.json", changed);
    reset_memory_peak();
    const int64_t before = memory_in_use();
    const std::string said = error_of([&] { load_translator(RunFolder(run)); });
    EXPECT_LT(memory_peak() - before, 4 << 20) << field;
    return said;
  };
  EXPECT_TRUE(has(message("hidden", 16384), "model.safetensors: decoder.0.bias_hh is ["));
  EXPECT_TRUE(has(message("embedding", 16384), "decoder.0.weight_ih is ["));
  EXPECT_TRUE(has(message("layers", 64), "decoder.1.bias_hh is missing"));
  EXPECT_TRUE(has(message("layers", 1000000000), "layers must be"));
  EXPECT_TRUE(has(message("cell", "lstm"), "decoder.0.bias_hh is ["));
  EXPECT_TRUE(has(message("score", "dot"), "keys.weight"));
  EXPECT_TRUE(has(message("order", "luong"), "expected ["));
  EXPECT_EQ(message("hidden", 16), "no error");
  fs::remove(run / "model.safetensors");
  EXPECT_TRUE(has(error_of([&] { load_translator(RunFolder(run)); }), "model.safetensors"));
}

TEST(Translate, ReportsOfDamagedRunsAreRefused) {
  const Folder folder;
  const fs::path run = folder / "run";
  train_a_step(run);
  for (const char* damaged : {"{}", "[]", "{\"test\": 3}", "{\"test\": {\"sentences\": \"x\"}}"}) {
    write_bytes(run / "results.json", damaged);
    EXPECT_TRUE(has(error_of([&] { page_of(RunFolder(run)); }), "results.json")) << damaged;
  }
}

// ---- Unknown words ------------------------------------------------------------------------------

// Whatever it reads, it writes the unknown word and looks at one place: all weights are 0 but a
// bias of the state, one row of the location score, and the output's bias.
Translator unknowing(text::Unit unit, int64_t looks_at) {
  Translator t;
  const std::vector<std::string> lines = {"a b c d"};
  t.config.source.unit = t.config.target.unit = unit;
  t.source = text::Tokenizer::train({.unit = unit}, lines);
  t.target = text::Tokenizer::train({.unit = unit}, lines);
  models::Seq2SeqConfig& c = t.config.network;
  c = {.source_vocabulary = t.source.size(), .target_vocabulary = t.target.size()};
  c.embedding = c.hidden = 2;
  c.score = "location";
  c.longest_source = 40;
  models::Seq2Seq model = models::seq2seq(c, 1);
  const NoGrad off;
  for (const auto& [name, w] : model.weights.all()) Tensor(w).fill_(0.0f);
  Tensor(model.initial[0].bias).fill_(5.0f);
  Tensor(model.look.score.at("w_loc")).select(0, looks_at).fill_(200.0f);
  Tensor(model.output.bias).mutable_data<float>()[text::kUnknown] = 9.0f;
  t.model = std::move(model);
  return t;
}

TEST(Translate, AnUnknownWordIsCopiedFromWhereItLooked) {
  const std::vector<std::string> lines = {"Agatha met Poirot in Cairo"};
  for (const bool weights : {false, true}) {
    const models::DecodeConfig how{.longest = 2, .weights = weights};
    const auto text = [&](text::Unit unit, int64_t place) {
      return translate(unknowing(unit, place), lines, how).front().front().text;
    };
    EXPECT_EQ(text(text::Unit::words, 0), "Agatha Agatha");
    EXPECT_EQ(text(text::Unit::words, 2), "Poirot Poirot");
    EXPECT_EQ(text(text::Unit::words, 4), "Cairo Cairo");
    EXPECT_EQ(text(text::Unit::words, 5), "⁇ ⁇");  // the source's end is no word
    EXPECT_EQ(text(text::Unit::characters, 11), "PP");
  }
  const auto one =
      translate(unknowing(text::Unit::words, 2), lines, {.longest = 2, .weights = true});
  const auto& map = one.front().front().pictures.front().get<report::Heatmap>();
  EXPECT_EQ(map.rows, (std::vector<std::string>{"Poirot", "Poirot"}));
  EXPECT_EQ(map.columns.size(), 6u);
  EXPECT_NEAR(map.weights[2], 1.0f, 1e-5);
}

// ---- Scores -------------------------------------------------------------------------------------

TEST(Translate, EvaluationCountsSourcesOnceAndByLength) {
  const Translator t = unknowing(text::Unit::words, 0);
  std::vector<text::Pair> pairs;
  std::string line;
  for (int n = 1; n <= 8; ++n) {
    line += (n > 1 ? " w" : "w") + std::to_string(n);
    pairs.push_back({line, "x"});
    pairs.push_back({line, "w1"});
  }
  const Evaluation e = evaluate(t, pairs, {.longest = 1});
  EXPECT_EQ(e.count, 8);
  EXPECT_EQ(score_of(e.scores, "exact"), 100.0);  // any of a source's targets will do
  int64_t sentences = 0, next = 1;
  ASSERT_EQ(e.breakdowns.size(), 1u);
  EXPECT_EQ(e.breakdowns[0].by, "length");
  for (const ScoredPart& part : e.breakdowns[0].parts) {
    const auto& between = std::get<Between>(part.what);
    EXPECT_EQ(between.low, next);
    next = between.high + 1;
    sentences += part.count;
    EXPECT_EQ(score_of(part.scores, "exact"), 100.0);
  }
  EXPECT_EQ(next, 9);
  EXPECT_EQ(sentences, 8);
  EXPECT_GE(e.breakdowns[0].parts.size(), 4u);
  EXPECT_NE(error_of([&] { evaluate(t, {}, {}); }), "no error");
}

}  // namespace
}  // namespace fovea::tasks::translation
