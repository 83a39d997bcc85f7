#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "explorer/answers.h"
#include "report/heatmap.h"
#include "report/packed.h"
#include "tasks/model_graph.h"
#include "tasks/one_by_one.h"
#include "tests/errors.h"
#include "tests/explorer/here.h"
#include "tests/io/files.h"
#include "tests/tasks/small.h"

// Held-out inputs one by one, and what a model is made of, of every task.
namespace fovea::explorer {
namespace {

using test::error_of;
using test::Folder;
using test::has;

class OfEveryTask : public testing::TestWithParam<const tasks::Task*> {
 protected:
  OfEveryTask() {
    train_run(task(), tasks::RunFolder(folder_ / "run"),
              *config_from(task(), small_training(task(), 2)), tasks::Existing::refuse, {});
  }
  const tasks::Task& task() const { return *GetParam(); }
  Json ask(const std::string& method, const std::string& path, const Json& body = {}) {
    Training training(folder_ / "more");
    Runs runs({(folder_ / "").string()});
    Request r{.method = method, .path = "/api/runs/run/" + path};
    if (!body.is_null()) r.body = body.dump();
    return Json::parse(answer(r, caller, runs, training).body);
  }
  Here caller;

 private:
  Folder folder_;
};

TEST_P(OfEveryTask, InputsComeOneByOne) {
  const Json table = ask("POST", "data", Json::object());
  ASSERT_FALSE(table.contains("error")) << table;
  ASSERT_FALSE(table["rows"].empty());
  const bool texts = task().name == "lm";
  EXPECT_EQ(table["about"], texts ? "texts" : task().scored ? "classes" : "answers");
  for (const Json& row : table["rows"]) {
    ASSERT_EQ(row.size(), table["columns"].size());
    EXPECT_GE(row[3].get<double>(), 0) << row;
    EXPECT_LE(row[texts ? 4 : 3].get<double>(), 1) << row;  // a loss has no end
    EXPECT_FALSE(row[2].get<std::string>().empty()) << row;
  }
  EXPECT_TRUE(has(caller.sent, "\"done\""));
  const Json alone = ask("POST", "data", {{"most", 1}})["rows"];
  ASSERT_EQ(alone.size(), 1u);
  Json first = table["rows"][0];
  // Several are read at a time: of other shapes the last bits of a product are others.
  for (size_t i = 0; i < first.size(); ++i) {
    if (!first[i].is_number_float()) continue;
    EXPECT_NEAR(alone[0][i].get<double>(), first[i].get<double>(), 1e-6);
    first[i] = alone[0][i];
  }
  EXPECT_EQ(alone[0], first);
  EXPECT_TRUE(ask("POST", "data", {{"most", 0}}).contains("error"));
  // A row opens as what it is about.
  const std::string input = ask("POST", "input", {{"row", 0}})["input"];
  EXPECT_TRUE(input.starts_with(table["rows"][0][0].get<std::string>())) << input;
  EXPECT_TRUE(ask("POST", "input", {{"row", 9999}}).contains("error"));
}

TEST_P(OfEveryTask, AModelIsAGraphOfItsParts) {
  const Json model = ask("GET", "model");
  ASSERT_FALSE(model.contains("error")) << model;
  std::set<std::string> names, read;
  std::string first;
  for (const Json& part : model["parts"]) {
    EXPECT_TRUE(names.insert(part["name"]).second) << part;
    EXPECT_FALSE(part["title"].get<std::string>().empty());
    EXPECT_FALSE(part["about"].get<std::string>().empty()) << "known by its name: " << part["name"];
    for (const Json& t : part["tensors"]) {
      if (first.empty()) first = t["name"];
    }
    for (const Json& r : part["reads"]) read.insert(r.get<std::string>());
  }
  for (const std::string& r : read) EXPECT_TRUE(names.contains(r)) << r;
  EXPECT_TRUE(names.contains("output"));
  // What nobody reads: the output, and what serves training alone or goes back into the picture.
  for (const std::string& name : names) {
    const bool ends = name == "output" || name == "aim" || name == "baseline";
    EXPECT_EQ(read.contains(name), !ends) << name;
  }
  const Json weights = ask("POST", "tensor", {{"name", first}});
  EXPECT_EQ(report::unpacked(weights["picture"]).get<report::Heatmap>().title, first);
  EXPECT_TRUE(ask("POST", "tensor", {{"name", "../config.json"}}).contains("error"));
}

INSTANTIATE_TEST_SUITE_P(Tasks, OfEveryTask, testing::ValuesIn(tasks::task_table()),
                         [](const auto& x) { return x.param->name; });

TEST(WeightsSeen, ALargeMatrixKeepsWhatIsLargest) {
  std::vector<float> all(400 * 300, 0.01f);
  all[5 * 300 + 7] = -3;
  const tasks::MatrixSeen seen = tasks::seen_of(Tensor::from(all, {400, 300}), 100);
  EXPECT_EQ(seen.rows, 400);
  ASSERT_EQ(seen.row_names.size(), 100u);
  ASSERT_EQ(seen.weights.size(), 10000u);
  EXPECT_EQ(seen.weights[1 * 100 + 2], -3.0f);
  EXPECT_EQ(seen.row_names[1], "4–7");
  EXPECT_EQ(seen.column_names[2], "6–8");
  EXPECT_EQ(seen.least, -3);
  EXPECT_NEAR(seen.norm, std::sqrt(9 + (400 * 300 - 1) * 1e-4), 1e-3);
  const tasks::MatrixSeen bias = tasks::seen_of(Tensor::from({1.0f, 2.0f}, {2}), 100);
  EXPECT_EQ(bias.rows, 1);
  EXPECT_EQ(bias.columns, 2);
}

}  // namespace
}  // namespace fovea::explorer
