#include "explorer/answers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "core/allocator.h"
#include "explorer/explorer.h"
#include "io/base64.h"
#include "report/heatmap.h"
#include "report/packed.h"
#include "report/shaded_text.h"
#include "tasks/train.h"
#include "tests/errors.h"
#include "tests/explorer/here.h"
#include "tests/io/files.h"

namespace fovea::explorer {
namespace {

using test::error_of;
using test::Folder;
using test::has;

// A folder with a run that has hardly been trained.
const Folder& trained_to_write() {
  static const Folder folder;
  static const bool once = [] {
    const tasks::Task& task = tasks::task("translate");
    const tasks::Given typed{{"builtin", "dates"}, {"examples", "60"}, {"hidden", "8"},
                             {"embedding", "8"},   {"steps", "3"},     {"seed", "1"}};
    train_run(task, tasks::RunFolder(folder / "dates"), *tasks::config_from(task, typed),
              tasks::Existing::refuse, {});
    const tasks::Given blocks{{"builtin", "dates"},  {"examples", "60"}, {"model", "transformer"},
                              {"query-depth", "16"}, {"heads", "2"},     {"blocks", "2"},
                              {"steps", "3"},        {"seed", "1"}};
    train_run(task, tasks::RunFolder(folder / "heads"), *tasks::config_from(task, blocks),
              tasks::Existing::refuse, {});
    return true;
  }();
  EXPECT_TRUE(once);
  return folder;
}

struct Answers : testing::Test {
  Runs runs{{(trained_to_write() / "").string()}};
  Training training{trained_to_write() / "more"};
  Here caller;

  Response ask(const std::string& method, const std::string& path, const Json& body = {}) {
    Request r{.method = method, .path = path};
    if (!body.is_null()) r.body = body.dump();
    return answer(r, caller, runs, training);
  }
  Response post(const std::string& path, const std::string& body) {
    return answer({.method = "POST", .path = path, .body = body}, caller, runs, training);
  }
  Json json(const std::string& method, const std::string& path, const Json& body = {}) {
    const Response r = ask(method, path, body);
    EXPECT_EQ(r.status, 200) << r.body;
    return Json::parse(r.body);
  }
};

// As after a long text: what would be kept for another of the same length.
TEST_F(Answers, HundredsOfMegabytesAreNotKeptFromAnswerToAnswer) {
  const auto left_behind = [](int64_t bytes) {
    release_memory();
    { const auto block = allocate(static_cast<size_t>(bytes)); }
    EXPECT_GE(memory_kept(), bytes);
  };
  left_behind(int64_t{200} << 20);
  json("POST", "/api/runs/dates/predict", {{"input", "12 May 1999"}});
  EXPECT_LT(memory_kept(), int64_t{64} << 20);
  left_behind(int64_t{40} << 20);
  json("POST", "/api/runs/dates/predict", {{"input", "12 May 1999"}});
  EXPECT_GE(memory_kept(), int64_t{40} << 20) << "what is little serves the next answer";
}

TEST_F(Answers, RunsAreListedWithWhatTheyScored) {
  const Json all = json("GET", "/api/runs");
  ASSERT_EQ(all["runs"].size(), 2u);
  const Json& run = all["runs"][0];
  EXPECT_EQ(run["name"], "dates");
  EXPECT_EQ(run["task"], "translate");
  EXPECT_EQ(run["finished"], true);
  EXPECT_FALSE(run["scores"].empty());
  EXPECT_EQ(all["tasks"].size(), tasks::task_table().size());
  EXPECT_EQ(all["training"]["running"], false);
}

TEST_F(Answers, ARunSaysWhatCanBeAskedOfIt) {
  const Json run = json("GET", "/api/runs/dates");
  EXPECT_FALSE(run["examples"].empty());
  EXPECT_TRUE(run["options"].contains("beam"));
  const Json log = json("GET", "/api/runs/dates/log");
  EXPECT_EQ(log["charts"][0]["y"], "loss");
  EXPECT_FALSE(log["charts"][0]["curves"][0]["points"].empty());
}

TEST_F(Answers, PredictionsComeWithTheirWeights) {
  const std::string input = json("GET", "/api/runs/dates")["examples"][0]["input"];
  const Json answer =
      json("POST", "/api/runs/dates/predict", {{"input", input}, {"settings", {{"beam", 1}}}});
  const Json& best = answer["predictions"][0];
  ASSERT_EQ(best["pictures"].size(), 1u);
  const report::Picture picture = report::unpacked(best["pictures"][0]);
  const auto& map = picture.get<report::Heatmap>();
  EXPECT_EQ(map.weights.size(), map.rows.size() * map.columns.size());
  float sum = 0;
  for (size_t j = 0; j < map.columns.size(); ++j) sum += map.weights[j];
  EXPECT_NEAR(sum, 1.0f, 1e-4f);
  // The same as the program's own.
  const Runs::Opened opened = runs.open("dates");
  const auto own =
      opened.run->predict(std::vector<tasks::Input>{tasks::Text{input}},
                          *opened.task->predict_settings(), {.maps = tasks::Maps::keep});
  EXPECT_EQ(best["text"], own[0][0].text);
  EXPECT_EQ(map.weights, own[0][0].pictures[0].get<report::Heatmap>().weights);
}

TEST_F(Answers, WhatIsWrongIsSaidInOneLine) {
  EXPECT_EQ(ask("GET", "/api/runs/none").status, 404);
  EXPECT_EQ(ask("GET", "/api/runs/..").status, 404);
  EXPECT_EQ(ask("GET", "/api/runs/../dates").status, 404);
  EXPECT_EQ(ask("GET", std::string("/api/runs/dates\0", 16)).status, 404);
  EXPECT_EQ(ask("GET", "/api/elsewhere").status, 404);
  EXPECT_EQ(ask("POST", "/api/runs/dates/predict").status, 422);
  EXPECT_EQ(ask("POST", "/api/runs/dates/predict", {{"input", 7}}).status, 400);
  for (const Json& beam : {Json(-1), Json(1e18), Json("many"), Json(2.5)}) {
    const Response r =
        ask("POST", "/api/runs/dates/predict", {{"input", "x"}, {"settings", {{"beam", beam}}}});
    EXPECT_EQ(r.status, 422) << beam;
    EXPECT_TRUE(has(r.body, "beam")) << r.body;
  }
  EXPECT_EQ(ask("POST", "/api/train", {{"task", "juggling"}}).status, 422);
}

TEST_F(Answers, DeepRequestsAndFilesAreRefused) {
  const std::string deep = std::string(100000, '[') + std::string(100000, ']');
  for (const std::string& body :
       {"{\"pictures\":" + deep + "}", "{\"input\":\"x\",\"settings\":{\"beam\":" + deep + "}}"}) {
    for (const char* path : {"/api/draw/svg", "/api/runs/dates/predict", "/api/runs/dates/faithful",
                             "/api/runs/dates/hold", "/api/train"}) {
      const Response r = post(path, body);
      EXPECT_EQ(r.status, 422) << path;
      EXPECT_TRUE(has(r.body, "the request is nested too deeply")) << r.body.substr(0, 100);
    }
  }
  const Folder folder;
  std::filesystem::copy(trained_to_write() / "dates", folder / "dates");
  test::write_bytes(folder / "dates" / "looks.json", "{\"input\":\"x\",\"looks\":" + deep + "}");
  Runs others({(folder / "").string()});
  const Response r =
      answer({.method = "GET", .path = "/api/runs/dates/looks"}, caller, others, training);
  EXPECT_EQ(r.status, 422);
  EXPECT_TRUE(has(r.body, "looks.json is nested too deeply")) << r.body.substr(0, 100);
}

TEST_F(Answers, HeadsAreSmallPicturesAndCanBeSwitchedOff) {
  EXPECT_EQ(json("GET", "/api/runs/dates")["heads"], false);
  const Json run = json("GET", "/api/runs/heads");
  EXPECT_EQ(run["heads"], true);
  EXPECT_EQ(run["blocks"], true);
  const std::string input = run["examples"][0]["input"];
  const Json layers = json("POST", "/api/runs/heads/heads", {{"input", input}})["layers"];
  ASSERT_EQ(layers.size(), 6u);  // two blocks that read; two that write, each with two looks
  for (const Json& layer : layers) {
    ASSERT_EQ(layer["heads"].size(), 2u);
    for (const Json& head : layer["heads"]) {
      const std::string bytes = from_base64(head["thumb"]["bytes"].get<std::string>());
      EXPECT_EQ(bytes.size(),
                head["thumb"]["rows"].get<size_t>() * head["thumb"]["columns"].get<size_t>());
      EXPECT_NE(bytes.find('\xff'), std::string::npos);  // the largest of all
      EXPECT_GE(head["entropy"], 0.0);
      EXPECT_LE(head["entropy"], 1.0 + 1e-6);
    }
  }
  const auto without = [&](const Json& off) {
    return json("POST", "/api/runs/heads/without", {{"input", input}, {"off", off}})["rows"];
  };
  for (const Json& row : without(Json::array())) {
    EXPECT_EQ(row["same"], true);
    EXPECT_EQ(row["before"], row["after"]);
  }
  const std::string first = layers[0]["name"];
  const Json rows = without({{{"layer", first}, {"head", 1}}, {{"layer", first}, {"head", 2}}});
  bool moved = false;
  for (const Json& row : rows) moved = moved || row["before"] != row["after"];
  EXPECT_TRUE(moved);
  EXPECT_EQ(ask("POST", "/api/runs/heads/without",
                {{"input", input}, {"off", {{{"layer", first}, {"head", 3}}}}})
                .status,
            422);
  EXPECT_EQ(ask("POST", "/api/runs/dates/heads", {{"input", input}}).status, 422);
}

TEST_F(Answers, ARunOffersOnlyWhatItCanAnswer) {
  const Json dates = json("GET", "/api/runs/dates"), heads = json("GET", "/api/runs/heads");
  const auto has_way = [](const Json& run, const char* way) {
    return std::find(run["ways"].begin(), run["ways"].end(), way) != run["ways"].end();
  };
  EXPECT_TRUE(has_way(dates, "attention") && has_way(dates, "integrated-gradients"));
  EXPECT_FALSE(has_way(dates, "rollout") || has_way(dates, "gradcam"));
  EXPECT_TRUE(has_way(heads, "rollout"));
  EXPECT_EQ(dates["look"], true);
  const std::string input = dates["examples"][0]["input"];
  for (const Json& way : dates["ways"]) {
    EXPECT_EQ(ask("POST", "/api/runs/dates/explain", {{"input", input}, {"by", {way}}}).status, 200)
        << way;
  }
}

TEST_F(Answers, BlocksAreTakenApart) {
  const std::string input = json("GET", "/api/runs/heads")["examples"][0]["input"];
  const auto asked = [&](const char* route, const char* way, const Json& more) {
    Json body = {{"input", input}, {"by", {way}}};
    body.update(more);
    return ask("POST", std::string("/api/runs/heads/") + route, body);
  };
  const Json lens =
      Json::parse(asked("explain", "lens", {{"from", 1}, {"count", 2}, {"top", 3}}).body);
  const Json& words = lens["pictures"][0];
  EXPECT_EQ(words["kind"], "word_map");
  EXPECT_EQ(words["columns"].size(), 2u);
  EXPECT_EQ(words["rows"], (Json{"embedding", "block 1", "block 2"}));
  EXPECT_EQ(words["words"].size(), 6u);
  EXPECT_EQ(lens["tables"][0]["rows"].size(), 6u);
  EXPECT_GT(lens["outputs"], 2);
  const Json last = Json::parse(asked("explain", "lens", {{"from", 1000000}, {"count", 9}}).body);
  EXPECT_EQ(last["pictures"][0]["columns"].size(), 1u);
  const Json heads = Json::parse(asked("inside", "heads", Json::object()).body);
  EXPECT_EQ(heads["pictures"][0]["rows"].size(), 6u);
  EXPECT_EQ(heads["tables"][0]["rows"].size(), 12u);
  std::string other = input;
  other.back() = other.back() == '1' ? '2' : '1';
  const Json patched = Json::parse(asked("inside", "patching", {{"beside", other}}).body);
  EXPECT_EQ(patched["pictures"].size(), 2u) << patched;  // what reads and what writes
  EXPECT_EQ(asked("inside", "patching", {{"beside", other + "1"}}).status, 422);
  EXPECT_EQ(asked("inside", "patching", Json::object()).status, 422);
  const Json why =
      Json::parse(asked("explain", "occlusion", {{"output", "1"}, {"against", "9"}}).body);
  EXPECT_EQ(why["pictures"][0]["rows"].size(), 1u) << why;
  for (const Json& way : json("GET", "/api/ways")) {
    EXPECT_EQ(way["inputs"] == false,
              way["name"] == "lens" || way["name"] == "heads" || way["name"] == "patching");
  }
}

TEST_F(Answers, AllWeightsOfALayerAndOneProductOfThem) {
  const std::string input = json("GET", "/api/runs/heads")["examples"][0]["input"];
  const Json layer =
      json("POST", "/api/runs/heads/weights", {{"input", input}, {"layer", "encoder.1.self"}});
  EXPECT_EQ(layer["title"], "Encoder layer 2, self-attention");
  EXPECT_EQ(layer["layers"][0]["name"], "encoder.0.self");
  const size_t rows = layer["rows"].size(), columns = layer["columns"].size();
  const std::vector<float> weights = report::weights_in(layer);
  ASSERT_EQ(weights.size(), 2 * rows * columns);
  const Json qk =
      json("POST", "/api/runs/heads/compare",
           {{"input", input}, {"layer", "encoder.1.self"}, {"head", 2}, {"row", 1}, {"column", 0}});
  EXPECT_FLOAT_EQ(qk["weight"].get<float>(), weights[rows * columns + columns]);
  EXPECT_EQ(qk["query"].size(), qk["key"].size());
  EXPECT_EQ(ask("POST", "/api/runs/heads/weights", {{"input", input}, {"layer", "x"}}).status, 422);
  EXPECT_EQ(ask("POST", "/api/runs/dates/compare",
                {{"input", input}, {"layer", "look"}, {"head", 1}, {"row", 0}, {"column", 0}})
                .status,
            422);
}

TEST_F(Answers, WhatTheModelDoesNotKnowIsToldWithTheAnswer) {
  const auto predicted = [&](const char* input) {
    return json("POST", "/api/runs/dates/predict", {{"input", input}});
  };
  EXPECT_FALSE(predicted("1 May").contains("read"));
  const Json read = predicted("1 漢 May")["read"];
  EXPECT_EQ(read["unknown"], Json::array({2}));
  EXPECT_EQ(read["pieces"][2], "漢");
  EXPECT_EQ(read["instead"], "⁇");
}

TEST(Runs, ThoseThatAreNamedStandInTheOrderGiven) {
  const auto path = [](const char* name) { return (trained_to_write() / name).string(); };
  Runs named({path("heads"), path("dates")});
  EXPECT_EQ(named.names(), (std::vector<std::string>{"heads", "dates"}));
  EXPECT_EQ(named.chosen(), named.names());
  Runs folder({path("")});
  EXPECT_EQ(folder.names(), (std::vector<std::string>{"dates", "heads"}));
  EXPECT_TRUE(folder.chosen().empty());
}

TEST_F(Answers, WhatTakesLongTellsHowFarItIs) {
  const Json found =
      json("POST", "/api/runs/dates/faithful", {{"inputs", 2}, {"steps", 2}, {"permutations", 2}});
  EXPECT_EQ(found["inputs"], 2);
  EXPECT_FALSE(found["verdict"].get<std::string>().empty());
  EXPECT_EQ(Json::parse(caller.sent.substr(0, caller.sent.find('\n'))).count("done"), 1u);
  const std::string input = found["each"][0]["input"];
  const Json best = json("POST", "/api/runs/dates/predict", {{"input", input}})["predictions"][0];
  EXPECT_EQ(found["each"][0]["output"], best["pictures"][0]["rows"][0]);  // what a dot opens
  EXPECT_EQ(ask("POST", "/api/runs/dates/faithful", {{"inputs", 0}}).status, 422);

  const Json ranked = json("POST", "/api/runs/heads/rank", {{"sequences", 2}});
  EXPECT_FALSE(ranked["charts"][0]["curves"].empty());
  EXPECT_EQ(ask("POST", "/api/runs/dates/rank", {{"sequences", 2}}).status, 422);
  caller.left = true;
  EXPECT_EQ(ask("POST", "/api/runs/dates/faithful", {{"inputs", 2}, {"steps", 2}}).status, 409);
}

TEST_F(Answers, AnExamplesWeightsAreKeptWhileItLearns) {
  const Json looks = json("GET", "/api/runs/dates/looks");
  ASSERT_FALSE(looks["looks"].empty());
  const report::Picture picture = report::unpacked(looks["looks"].back()["pictures"][0]);
  const auto& map = picture.get<report::Heatmap>();
  EXPECT_EQ(map.weights.size(), map.rows.size() * map.columns.size());
}

TEST_F(Answers, AQuestionNobodyWaitsForIsGivenUp) {
  caller.left = true;
  const Json question = {{"input", "12 May 1999"},
                         {"by", {"jacobian"}},
                         {"weights", "uniform"},
                         {"off", Json::array()}};
  for (const char* run : {"dates", "heads"}) {
    for (const char* what : {"predict", "explain", "hold", "heads", "without"}) {
      EXPECT_EQ(ask("POST", std::string("/api/runs/") + run + "/" + what, question).status, 409)
          << run << what;
    }
  }
}

// As when a client leaves while its text is read: what is asked first is answered, nothing more.
TEST_F(Answers, WorkIsGivenUpInTheMiddle) {
  struct Leaves final : Caller {
    bool gone() const override { return ++asked > 200; }
    void send(std::string_view) override {}
    mutable int asked = 0;
  } leaves;
  const Json question = {{"input", std::string(400, 'x')}};
  Request r{.method = "POST", .path = "/api/runs/dates/predict", .body = question.dump()};
  EXPECT_EQ(answer(r, leaves, runs, training).status, 409);
  EXPECT_LT(leaves.asked, 205);
}

TEST_F(Answers, LongTextsAreRefusedWithTheLimit) {
  EXPECT_EQ(json("GET", "/api/runs/dates")["most_text"], 16384);
  const Response r = ask("POST", "/api/runs/dates/predict", {{"input", std::string(60000, 'x')}});
  EXPECT_EQ(r.status, 422);
  EXPECT_TRUE(has(r.body, "60000 bytes, at most 16384")) << r.body;
  // Short enough to be read, but not to be drawn.
  const Response map = ask("POST", "/api/runs/dates/predict", {{"input", std::string(9000, 'x')}});
  EXPECT_EQ(map.status, 422);
  EXPECT_TRUE(has(map.body, "million weights")) << map.body;
}

TEST_F(Answers, PicturesAreDrawnAsTheCommandsDrawThem) {
  const report::Heatmap map{"a <b>", {"x", "\"y\""}, {"1", "2"}, {0.25f, 0.75f, 1.0f, 0.0f}};
  const Json body = {{"pictures", packed({map})}};
  EXPECT_EQ(ask("POST", "/api/draw/svg", body).body, report::to_svg({map}));
  EXPECT_TRUE(ask("POST", "/api/draw/png", body).body.starts_with("\x89PNG"));
  EXPECT_EQ(Json::parse(ask("POST", "/api/draw/json", body).body)[0],
            Json::parse(report::to_json(map)));
  EXPECT_TRUE(
      has(ask("POST", "/api/draw/csv", body).body, "\"a <b>\",\"\"\"y\"\"\",\"1\",1,2,1\r\n"));
  EXPECT_TRUE(has(ask("POST", "/api/draw/html", body).body, "</html>"));
  EXPECT_EQ(ask("POST", "/api/draw/gif", body).status, 404);
  EXPECT_EQ(ask("POST", "/api/draw/svg", {{"pictures", Json::array()}}).status, 422);
  Json torn = report::packed(map);
  torn["cells"] = to_base64("1234");
  EXPECT_EQ(ask("POST", "/api/draw/svg", {{"pictures", Json::array({torn})}}).status, 422);
  const report::ShadedText text{"t", {{0.5f, {"one", "two"}, {0.25f, 0.75f}}}};
  const Json shaded = {{"pictures", packed({text})}};
  EXPECT_EQ(ask("POST", "/api/draw/svg", shaded).body, report::to_svg({text}));
  EXPECT_TRUE(has(ask("POST", "/api/draw/csv", shaded).body, "two"));
}

// The others are listed all the same.
TEST_F(Answers, ARunThatCannotBeReadIsToldOf) {
  const Folder folder;
  namespace fs = std::filesystem;
  fs::copy(trained_to_write() / "dates", folder / "dates");
  fs::create_directory(folder / "loop");
  fs::create_symlink(folder / "loop/config.json", folder / "loop/config.json");
  Runs some({(folder / "").string()});
  const Response r = answer({.method = "GET", .path = "/api/runs"}, caller, some, training);
  ASSERT_EQ(r.status, 200) << r.body;
  const Json runs_there = Json::parse(r.body)["runs"];
  ASSERT_EQ(runs_there.size(), 2u);
  EXPECT_EQ(runs_there[0]["task"], "translate");
  EXPECT_TRUE(has(runs_there[1]["error"].get<std::string>(), "loop")) << r.body;
}

bool is_running(const Training& t) { return t.latest().state == Training::State::running; }

// Of `fovea serve RUN` too, which shows no folder.
TEST_F(Answers, ATrainingBegunFromThePageIsShown) {
  const Folder folder;
  Runs one({(trained_to_write() / "dates").string()});
  Training begun(folder / "root");
  const Response r =
      answer({.method = "POST", .path = "/api/train", .body = R"({"task":"documents"})"}, caller,
             one, begun);
  ASSERT_EQ(r.status, 200) << r.body;
  const std::string name = Json::parse(r.body)["run"];
  const auto is_listed = [&] {
    const std::vector<std::string> names = one.names();
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  for (int i = 0; i < 2000 && !is_listed() && is_running(begun); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  EXPECT_TRUE(is_listed());
  begun.stop();
  EXPECT_EQ(begun.latest().failure, "");
}

TEST_F(Answers, ARunIsOpenedOnceForAll) {
  const Runs::Opened first = runs.open("dates");
  EXPECT_EQ(runs.open("dates").run, first.run);
  namespace fs = std::filesystem;
  fs::last_write_time(trained_to_write() / "dates" / "model.safetensors",
                      fs::file_time_type::clock::now());
  EXPECT_NE(runs.open("dates").run, first.run);
}

TEST(Explorer, TheAddressHoldsAnyToken) {
  const Explorer explorer({.runs = {(trained_to_write() / "").string()},
                           .host = "0.0.0.0",
                           .port = 0,
                           .token = "a b;c&d+e#f\"g"});
  EXPECT_TRUE(explorer.address().ends_with("/?token=a%20b%3Bc%26d%2Be%23f%22g"))
      << explorer.address();
}

TEST(Explorer, OthersNeedAToken) {
  EXPECT_TRUE(has(
      error_of([] { Explorer({.runs = {(trained_to_write() / "").string()}, .host = "0.0.0.0"}); }),
      "--token"));
  EXPECT_TRUE(
      has(error_of([] { Explorer({.runs = {"/nowhere/at/all"}, .port = 0}); }), "no folder"));
}

}  // namespace
}  // namespace fovea::explorer
