#include "explorer/training.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "explorer/answers.h"
#include "io/base64.h"
#include "tests/errors.h"
#include "tests/explorer/here.h"
#include "tests/io/files.h"

// Trainings from the page: a queue, data of one's own, stop and go on.
namespace fovea::explorer {
namespace {

using test::error_of;
using test::Folder;
using test::has;
using State = Training::State;

const tasks::Given kSmall = {
    {"examples", "40"}, {"hidden", "4"}, {"embedding", "4"}, {"steps", "3"}};

struct Queue : testing::Test {
  Folder folder;
  Training training{folder / "runs"};
  Here caller;
  Runs runs{{made(folder / "runs").string()}};

  static std::filesystem::path made(const std::filesystem::path& path) {
    std::filesystem::create_directories(path);
    return path;
  }
  Response post(const std::string& path, const Json& body) {
    return answer({.method = "POST", .path = path, .body = body.dump()}, caller, runs, training);
  }
  Json ok(const std::string& path, const Json& body) {
    const Response r = post(path, body);
    EXPECT_EQ(r.status, 200) << r.body;
    return Json::parse(r.body);
  }
  Training::Job job(const std::string& run) const {
    for (const Training::Job& j : training.jobs()) {
      if (j.run == run) return j;
    }
    return {};
  }
  // Until it is so, ten seconds at most.
  // Two minutes: a training takes long under a sanitizer, beside others.
  bool becomes(const std::function<bool()>& holds) const {
    for (int i = 0; i < 24000 && !holds(); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return holds();
  }
  bool ends(const std::string& run, State state) const {
    return becomes([&] { return job(run).state == state; });
  }
};

std::string pairs() {
  std::string tsv;
  for (int i = 0; i < 200; ++i)
    tsv += "number " + std::to_string(i) + "\tn" + std::to_string(i) + "\n";
  return tsv;
}

TEST_F(Queue, OneAfterTheOtherUnderNamesOfTheirOwn) {
  const std::string first = training.begin({"documents", kSmall}).filename();
  const std::string second = training.begin({"documents", kSmall}).filename();
  EXPECT_EQ(first, "documents-reviews");
  EXPECT_EQ(second, "documents-reviews-2");
  EXPECT_TRUE(ends(second, State::finished)) << job(second).failure;
  EXPECT_EQ(job(first).state, State::finished);
  EXPECT_TRUE(std::filesystem::exists(folder / "runs/documents-reviews-2/results.json"));
}

TEST_F(Queue, WhatIsWrongWithSettingsIsSaidAtOnce) {
  EXPECT_TRUE(has(error_of([&] { training.begin({"documents", {{"hidden", "-1"}}}); }), "hidden"));
  EXPECT_TRUE(has(error_of([&] { training.begin({"document", {}}); }), "documents"));
  for (const char* name : {"data", "valid", "fingerprint", "no-such"}) {
    const Response r =
        post("/api/train", {{"task", "documents"}, {"settings", {{name, "/etc/passwd"}}}});
    EXPECT_EQ(r.status, 422) << name;
    EXPECT_TRUE(has(r.body, "no setting")) << r.body;
  }
  EXPECT_EQ(post("/api/train", {{"task", "documents"}, {"upload", 7}}).status, 422);
  EXPECT_EQ(post("/api/train/stop", {{"run", "documents-reviews"}}).status, 422);
  EXPECT_EQ(post("/api/train/resume", {{"run", "../runs"}}).status, 404);
  EXPECT_TRUE(training.jobs().empty());
}

TEST_F(Queue, AFailureIsToldAndTheNextBegins) {
  const Json sent = ok(
      "/api/uploads",
      {{"task", "translate"}, {"name", "bad.tsv"}, {"file", to_base64("no tab here\nnor here\n")}});
  const std::string bad =
      ok("/api/train", {{"task", "translate"}, {"upload", sent["number"]}})["run"];
  const std::string good = training.begin({"documents", kSmall}).filename();
  EXPECT_TRUE(ends(good, State::finished)) << job(good).failure;
  EXPECT_EQ(job(bad).state, State::failed);
  EXPECT_FALSE(job(bad).failure.empty());
  EXPECT_FALSE(std::filesystem::exists(folder / "runs" / bad)) << "nothing is left of it";
}

// The same as one that was never stopped, file by file.
TEST_F(Queue, StoppedAndGoneOnWithItIsTheRunThatNeverStopped) {
  const Json sent =
      ok("/api/uploads",
         {{"task", "translate"}, {"name", "my pairs.tsv"}, {"file", to_base64(pairs())}});
  EXPECT_EQ(sent["name"], "my_pairs.tsv");
  const Json settings = {
      {"hidden", 8},  {"embedding", 8},  {"src-unit", "characters"}, {"tgt-unit", "characters"},
      {"steps", 200}, {"save-every", 20}};
  const Json asked = {{"task", "translate"}, {"settings", settings}, {"upload", sent["number"]}};
  const std::string stopped = ok("/api/train", asked)["run"],
                    whole = ok("/api/train", asked)["run"];
  EXPECT_EQ(stopped, "translate-own-1");
  ASSERT_TRUE(becomes([&] { return job(stopped).step >= 20; })) << job(stopped).failure;
  ok("/api/train/stop", {{"run", stopped}});
  ASSERT_TRUE(ends(stopped, State::stopped));
  EXPECT_FALSE(runs.folder(stopped).is_finished());
  ok("/api/train/resume", {{"run", stopped}});
  ASSERT_TRUE(ends(stopped, State::finished)) << job(stopped).failure;
  EXPECT_EQ(job(whole).state, State::finished);
  for (const char* file : {"log.jsonl", "model.safetensors"}) {
    EXPECT_EQ(test::read_bytes(folder / "runs" / stopped / file),
              test::read_bytes(folder / "runs" / whole / file))
        << file;
  }
  EXPECT_EQ(post("/api/train/resume", {{"run", whole}, {"settings", {{"hidden", 9}}}}).status, 422);
  ok("/api/train/resume", {{"run", whole}, {"settings", {{"steps", "210"}}}});
  ASSERT_TRUE(ends(whole, State::finished)) << job(whole).failure;
  EXPECT_EQ(runs.folder(whole).results().finished.steps, 210);
}

TEST_F(Queue, OneThatWaitsIsTakenOut) {
  const std::string at_work = training.begin({"documents", {{"steps", "100000"}}}).filename();
  const std::string waits = training.begin({"documents", kSmall}).filename();
  EXPECT_TRUE(has(error_of([&] { training.stop("none"); }), "not being trained"));
  training.stop(waits);
  EXPECT_EQ(training.jobs().size(), 1u);
  training.stop(at_work);
  EXPECT_TRUE(ends(at_work, State::stopped)) << job(at_work).failure;
  EXPECT_FALSE(std::filesystem::exists(folder / "runs" / waits));
}

TEST(OwnFiles, AreKeptUnderNamesOfOurs) {
  const Folder folder;
  Uploads uploads(folder / "uploads");
  const tasks::Task& task = tasks::task("documents");
  const Uploads::File first = uploads.add(task, "../../etc/évil name.CSV", "label,text\na,b\n");
  EXPECT_TRUE(first.path.ends_with("/uploads/own-1.csv")) << first.path;
  EXPECT_EQ(test::read_bytes(first.path), "label,text\na,b\n");
  EXPECT_EQ(uploads.add(task, "again.csv", "label,text\na,b\n").number, 1) << "not kept twice";
  EXPECT_EQ(uploads.add(task, "more.jsonl.gz", "x").path, (folder / "uploads/own-2.jsonl.gz"));
  ASSERT_EQ(uploads.list().size(), 2u);
  EXPECT_EQ(uploads.list()[1].name, "more.jsonl.gz");
  EXPECT_EQ(uploads.at(2).bytes, 1u);
  for (const char* name : {"run.sh", "csv", "a.csv.", "a.csv/..", ""}) {
    EXPECT_TRUE(has(error_of([&] { uploads.add(task, name, "x"); }), "ends in .tsv")) << name;
  }
  EXPECT_TRUE(has(error_of([&] { uploads.add(task, "a.csv", ""); }), "empty"));
  EXPECT_TRUE(has(error_of([&] { uploads.add(tasks::task("image"), "a.csv", "x"); }), "folder"));
  EXPECT_TRUE(
      has(error_of([&] { uploads.add(task, "a.csv", std::string(Uploads::kMostBytes + 1, 'x')); }),
          "at most"));
  EXPECT_TRUE(has(error_of([&] { uploads.at(3); }), "no file 3"));
  EXPECT_EQ(uploads.list().size(), 2u);
}

// What a form is drawn from: every option of the command line that names no file.
TEST_F(Queue, ATaskSaysWhatCanBeSet) {
  const Response r =
      answer({.method = "GET", .path = "/api/tasks/documents"}, caller, runs, training);
  ASSERT_EQ(r.status, 200) << r.body;
  const Json task = Json::parse(r.body);
  std::map<std::string, Json> built_in, own;
  for (const auto& [into, name] : {std::pair{&built_in, "built_in"}, std::pair{&own, "own"}}) {
    for (const Json& group : task["settings"][name]) {
      EXPECT_FALSE(group["title"].get<std::string>().empty());
      EXPECT_FALSE(group["fields"].empty()) << group["title"];
      for (const Json& f : group["fields"]) (*into)[f["name"]] = f;
    }
  }
  EXPECT_EQ(built_in.at("rate")["kind"], "real");
  EXPECT_EQ(built_in.at("rate")["help"], "learning rate");
  EXPECT_EQ(built_in.at("rate")["high"], 100);
  EXPECT_EQ(built_in.at("optimizer")["choices"], (Json{"adam", "adamw", "sgd"}));
  EXPECT_NE(built_in.at("optimizer")["value"], own.at("optimizer")["value"]);
  EXPECT_FALSE(built_in.contains("data"));
  EXPECT_FALSE(built_in.contains("fingerprint"));
  EXPECT_FALSE(built_in.contains("from"));
  EXPECT_FALSE(built_in.contains("freeze")) << "of a folder that the page cannot name";
  EXPECT_EQ(answer({.method = "GET", .path = "/api/tasks/.."}, caller, runs, training).status, 422);
}

}  // namespace
}  // namespace fovea::explorer
