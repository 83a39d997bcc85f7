#include "tasks/reproduce.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "io/json.h"
#include "tasks/page.h"
#include "tests/errors.h"
#include "tests/io/files.h"

namespace fovea::tasks {
namespace {

namespace fs = std::filesystem;
using test::error_of;
using test::Folder;
using test::has;
using test::read_bytes;
using test::write_bytes;

// Two rows of a few steps each. `data` changes a setting, so that a test can do so.
std::vector<Trial> trials(const std::string& data) {
  Given options = {{"examples", "120"}, {"hidden", "8"},          {"embedding", "4"},
                   {"steps", "4"},      {"valid-sentences", "2"}, {"batch-tokens", "256"}};
  if (!data.empty()) options["hidden"] = data;
  std::vector<Trial> all;
  for (const char* context : {"fixed", "attention"}) {
    options["context"] = context;
    all.push_back({context, "translate", options});
  }
  return all;
}

report::Page page(const std::vector<Outcome>& all) {
  report::Page p{.title = "A paper"};
  report::Table table{{"row", "loss"}, {}};
  for (const char* row : {"fixed", "attention"}) {
    table.rows.push_back({row, shown(over_seeds(all, row, "loss"))});
  }
  p.sections.push_back({"Rows", {table}});
  return p;
}

const Paper kPaper = {"some1999", "A title", "about it", 2, trials, page};

std::vector<fs::file_time_type> times_of(const fs::path& out) {
  std::vector<fs::file_time_type> times;
  for (const char* run : {"fixed-1", "fixed-2", "attention-1", "attention-2"}) {
    times.push_back(fs::last_write_time(out / run / "results.json"));
  }
  return times;
}

TEST(Reproduce, TrainsARunForEachRowAndSeedOnce) {
  const Folder folder;
  const fs::path out = folder / "out";
  std::vector<std::string> said;
  const Watching watching{.say = [&](const std::string& line) { said.push_back(line); }};
  const Reproduced r = reproduce(kPaper, out, {}, watching);
  EXPECT_FALSE(r.interrupted);
  ASSERT_EQ(r.outcomes.size(), 4u);
  EXPECT_EQ(r.outcomes[1].trial.name, "fixed");
  EXPECT_EQ(r.outcomes[1].seed, 2u);
  EXPECT_NE(score_of(r.outcomes[0].test.scores, "loss"),
            score_of(r.outcomes[1].test.scores, "loss"));
  EXPECT_EQ(said.front(), "fixed-1: 1 of 4");
  EXPECT_EQ(read_json(out / "fixed-2" / "config.json")["seed"], 2);
  EXPECT_EQ(read_json(out / "fixed-2" / "config.json")["context"], "fixed");
  const auto results = read_json(out / "results.json");
  EXPECT_EQ(results["paper"], "some1999");
  EXPECT_EQ(results["trials"].size(), 4u);
  EXPECT_EQ(results["trials"][3]["name"], "attention-2");
  EXPECT_EQ(results["trials"][3]["task"], "translate");
  const std::string html = read_bytes(out / "report.html");
  const auto& rows = std::get<report::Table>(r.page.sections[0].blocks[0]).rows;
  for (const auto& row : rows) EXPECT_TRUE(has(html, row[1])) << row[1];

  // Trained already: nothing is trained again, and the same comes out.
  const auto before = times_of(out);
  const Reproduced again = reproduce(kPaper, out, {}, {});
  EXPECT_EQ(times_of(out), before);
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(again.outcomes[i].test.scores, r.outcomes[i].test.scores);
  }
  EXPECT_EQ(read_bytes(out / "report.html"), html);
}

TEST(Reproduce, GoesOnWhereItWasStopped) {
  const Folder folder;
  const Reproduced whole = reproduce(kPaper, folder / "whole", {.seeds = 1}, {});
  const fs::path out = folder / "out";
  std::atomic<bool> stop = false;
  int runs = 0;
  const Watching until_second{.say =
                                  [&](const std::string& line) {
                                    if (has(line, " of ")) stop = ++runs == 2;
                                  },
                              .stop = &stop};
  const Reproduced part = reproduce(kPaper, out, {.seeds = 1}, until_second);
  EXPECT_TRUE(part.interrupted);
  EXPECT_EQ(part.outcomes.size(), 1u);
  EXPECT_FALSE(fs::exists(out / "report.html"));
  EXPECT_TRUE(fs::exists(out / "attention-1" / "config.json"));  // begun
  const Reproduced rest = reproduce(kPaper, out, {.seeds = 1}, {});
  ASSERT_EQ(rest.outcomes.size(), 2u);
  EXPECT_EQ(rest.outcomes[1].test.scores, whole.outcomes[1].test.scores);
}

TEST(Reproduce, OtherSettingsAreTrainedAnew) {
  const Folder folder;
  reproduce(kPaper, folder / "out", {.seeds = 1}, {});
  const auto hidden = [&] {
    return read_json(folder / "out" / "fixed-1" / "config.json")["hidden"];
  };
  EXPECT_EQ(hidden(), 8);
  reproduce(kPaper, folder / "out", {.data = "6", .seeds = 1}, {});
  EXPECT_EQ(hidden(), 6);
}

// What a finished run found is not what the data that are there now would give.
TEST(Reproduce, OtherDataAreTrainedAnew) {
  const Folder folder;
  Paper paper = kPaper;
  paper.trials = [](const std::string& data) {
    std::vector<Trial> all = trials("");
    for (Trial& trial : all) trial.options["tsv"] = data;
    return all;
  };
  const auto lines = [](int n) {
    std::string all;
    for (int i = 0; i < n; ++i) all += fmt::format("{0} apples\t{0} pommes\n", i);
    return all;
  };
  const std::string data = (folder / "pairs.tsv").string();
  const auto fingerprint = [&] {
    reproduce(paper, folder / "out", {.data = data, .seeds = 1}, {});
    return read_json(folder / "out" / "fixed-1" / "config.json")["fingerprint"];
  };
  write_bytes(data, lines(60));
  const auto first = fingerprint();
  EXPECT_EQ(fingerprint(), first);
  write_bytes(data, lines(70));
  EXPECT_NE(fingerprint(), first);
}

TEST(Reproduce, EffortMultipliesTheTraining) {
  const Folder folder;
  reproduce(kPaper, folder / "out", {.seeds = 1, .effort = 2.5}, {});
  EXPECT_EQ(read_json(folder / "out" / "fixed-1" / "results.json")["steps"], 10);
  reproduce(kPaper, folder / "little", {.seeds = 1, .effort = 0.01}, {});
  EXPECT_EQ(read_json(folder / "little" / "fixed-1" / "results.json")["steps"], 1);
}

// ---- A paper that trains nothing

std::vector<Outcome> measure(uint64_t seed, const ShareDone& done) {
  done(0.5);
  std::vector<Outcome> all;
  for (const char* row : {"fixed", "attention"}) {
    all.push_back({.trial = {.name = row},
                   .seed = seed,
                   .test = {.count = 1, .unit = "models", .scores = {{"loss", double(seed)}}}});
  }
  return all;
}

const Paper kMeasured = {.name = "some2000",
                         .title = "A title",
                         .about = "about it",
                         .seeds = 3,
                         .page = page,
                         .measure = measure};

TEST(Reproduce, MeasuresEverySeed) {
  const Folder folder;
  const fs::path out = folder / "a" / "b";
  std::vector<std::string> said;
  const Reproduced r = reproduce(kMeasured, out, {},
                                 {.say = [&](const std::string& line) { said.push_back(line); }});
  EXPECT_FALSE(r.interrupted);
  ASSERT_EQ(r.outcomes.size(), 6u);
  EXPECT_EQ(r.outcomes[5].seed, 3u);
  EXPECT_EQ(said, (std::vector<std::string>{"seed 1 of 3", "seed 2 of 3", "seed 3 of 3"}));
  const auto results = read_json(out / "results.json");
  EXPECT_EQ(results["paper"], "some2000");
  EXPECT_EQ(results["trials"][5]["name"], "attention-3");
  EXPECT_EQ(results["trials"][5]["test"]["scores"]["loss"], 3.0);
  EXPECT_TRUE(has(read_bytes(out / "report.html"), "2.00 ± 2.48"));
  EXPECT_EQ(reproduce(kMeasured, out, {.seeds = 1}, {}).outcomes.size(), 2u);  // once more
}

TEST(Reproduce, AMeasurementStops) {
  const Folder folder;
  std::atomic<bool> stop = true;
  const Reproduced r = reproduce(kMeasured, folder / "out", {}, {.stop = &stop});
  EXPECT_TRUE(r.interrupted);
  EXPECT_FALSE(fs::exists(folder / "out" / "results.json"));
}

TEST(Reproduce, AMeasurementTakesNoDataAndNoEffort) {
  const Folder folder;
  const auto complaint = [&](const ReproduceOptions& options) {
    return error_of([&] { reproduce(kMeasured, folder / "out", options, {}); });
  };
  EXPECT_TRUE(has(complaint({.data = "mine.tsv"}), "some2000 trains nothing"));
  EXPECT_TRUE(has(complaint({.effort = 2}), "--effort"));
  EXPECT_EQ(folder.files(), 0);
  write_bytes(folder / "file", "");
  EXPECT_TRUE(has(error_of([&] { reproduce(kMeasured, folder / "file" / "out", {}, {}); }), "out"));
}

TEST(Reproduce, ATrialOfNoTaskOrWithNoSuchOptionIsRefused) {
  const Folder folder;
  Paper wrong = kPaper;
  wrong.trials = [](const std::string&) -> std::vector<Trial> { return {{"a", "transalte", {}}}; };
  EXPECT_TRUE(has(error_of([&] { reproduce(wrong, folder / "out", {}, {}); }),
                  "did you mean \"translate\""));
  wrong.trials = [](const std::string&) -> std::vector<Trial> {
    return {{"a", "translate", {{"hiden", "3"}}}};
  };
  EXPECT_TRUE(has(error_of([&] { reproduce(wrong, folder / "out", {}, {}); }), "--hiden"));
}

// Every paper there is: its trials are of tasks there are, with options they have, and its page
// stands for any outcome of theirs.
TEST(Papers, AreMadeOfTrialsThatCanBeTyped) {
  EXPECT_GE(paper_table().size(), 2u);
  for (const Paper* p : paper_table()) {
    SCOPED_TRACE(p->name);
    EXPECT_EQ(&paper(p->name), p);
    EXPECT_NE(p->trials == nullptr, p->measure == nullptr);
    if (p->trials == nullptr) continue;
    for (const std::string& data : {std::string(), std::string("mine")}) {
      std::vector<Outcome> outcomes;
      for (const Trial& trial : p->trials(data)) {
        const Task& of = task(trial.task);
        const auto config = config_from(of, trial.options);
        EXPECT_EQ(config->data_name() == "mine", !data.empty()) << trial.name;
        for (uint64_t s = 1; s <= 2; ++s) {
          Outcome o{.trial = trial, .seed = s};
          o.test = {.count = 2, .unit = "sentences"};
          for (const Measure& m : of.measures) o.test.scores.emplace_back(m.name, 60.0 + double(s));
          o.test.breakdowns = {
              {"length",
               {{Between{1, 4}, 1, {{"bleu", 41.5}}}, {Between{5, 9}, 1, {{"bleu", 7.25}}}}}};
          outcomes.push_back(o);
        }
      }
      const report::Page made = p->page(outcomes);
      ASSERT_FALSE(made.sections.empty());
      EXPECT_TRUE(has(report::to_html(made), "61.50 ± 6.35"));
    }
  }
  EXPECT_TRUE(has(error_of([] { paper("luong2016"); }), "did you mean \"luong2015\""));
}

// Of what its measure gives, whose rows its page must know.
TEST(Papers, Dong2021StandsBesideThePublished) {
  std::vector<Outcome> outcomes;
  for (const char* row : {"attention alone", "+ MLP", "+ skip", "+ skip + MLP"}) {
    for (const char* norm : {"", ", no layer norm"}) {
      for (uint64_t s = 1; s <= 2; ++s) {
        Outcome o{.trial = {.name = std::string(row) + norm}, .seed = s};
        Breakdown& by = o.test.breakdowns.emplace_back(Breakdown{"layer", {}});
        for (int layer = 0; layer <= 12; ++layer) {
          const double residual = *row == 'a' ? 0.25 + 0.002 * double(s) : 0.5;
          by.parts.push_back({std::to_string(layer), 8, {{"residual", residual}}});
        }
        outcomes.push_back(o);
      }
    }
  }
  const report::Page made = paper("dong2021").page(outcomes);
  const auto& table = std::get<report::Table>(made.sections.at(0).blocks.at(1));
  using Row = std::vector<std::string>;
  EXPECT_EQ(table.header, (Row{"relative residual at layer", "0", "1", "2", "6", "12"}));
  ASSERT_EQ(table.rows.size(), 12u);
  EXPECT_EQ(table.rows[0],
            (Row{"attention alone, the paper", "0.612", "0.018", "0.000", "0.000", "0.000"}));
  EXPECT_EQ(table.rows[1][5], "0.253 ± 0.013");
  EXPECT_EQ(table.rows[2][0], "  here, no layer norm");
  EXPECT_EQ(table.rows[10][1], "0.500 ± 0.000");
  EXPECT_FALSE(report::to_html(made).empty());
}

TEST(Papers, IntervalsAreStudents) {
  const Interval i = interval_of({1, 2, 3});
  EXPECT_DOUBLE_EQ(i.mean, 2);
  EXPECT_NEAR(i.half, 4.303 / std::sqrt(3.0), 1e-12);
  EXPECT_EQ(shown(interval_of({1.5})), "1.50");
  EXPECT_EQ(shown(interval_of({})), "");
  EXPECT_EQ(shown(interval_of({1, 3})), "2.00 ± 12.71");
}

// ---- Runs side by side
// -----------------------------------------------------------------------------

TEST(Compare, RunsStandInOneTable) {
  const Folder folder;
  reproduce(kPaper, folder / "out", {.seeds = 1}, {});
  const RunFolder fixed(folder / "out" / "fixed-1"), soft(folder / "out" / "attention-1" / "");
  const report::Page p = compare_page({fixed, soft});
  const auto& table = std::get<report::Table>(p.sections.at(0).blocks.at(0));
  EXPECT_EQ(table.header, (std::vector<std::string>{"run", "attention", "perplexity", "BLEU",
                                                    "chrF", "exact match", "seen", "minutes"}));
  ASSERT_EQ(table.rows.size(), 2u);
  EXPECT_EQ(table.rows[0][0], "fixed-1");
  EXPECT_EQ(table.rows[0][1], "none, a fixed context");
  EXPECT_EQ(table.rows[1][0], "attention-1");
  EXPECT_EQ(table.rows[1][1], "global additive, softmax");
  EXPECT_EQ(table.rows[1][3], fmt::format("{:.2f}", score_of(soft.results().test.scores, "bleu")));
  EXPECT_EQ(table.rows[1][6], fmt::format("{:.0f} tokens", soft.results().finished.seen));
  EXPECT_GT(soft.results().finished.seen, 0);
  const auto& bars = std::get<report::Bars>(p.sections.at(1).blocks.at(0));
  EXPECT_EQ(p.sections[1].heading, "BLEU by length");
  EXPECT_EQ(bars.series, (std::vector<std::string>{"fixed-1", "attention-1"}));
  EXPECT_EQ(bars.groups.size(), fixed.results().test.breakdowns[0].parts.size());
}

TEST(Compare, UnfinishedRunsAreNamed) {
  const Folder folder;
  fs::create_directory(folder / "run");
  write_bytes(folder / "run" / "config.json", "{\"task\": \"translate\"}");
  EXPECT_TRUE(has(error_of([&] { compare_page({RunFolder(folder / "run")}); }), "is not finished"));
}

}  // namespace
}  // namespace fovea::tasks
