#include "explorer/runs.h"

#include <gtest/gtest.h>

#include <atomic>
#include <nlohmann/json.hpp>
#include <thread>

#include "fovea/error.h"
#include "fovea/runtime.h"
#include "tasks/explain.h"
#include "tasks/train.h"
#include "tests/io/files.h"
#include "tests/tasks/small.h"

// One opened model, and many who ask it at once.
namespace fovea::explorer {
namespace {

constexpr size_t kAskers = 16;

class OpenedOnce : public testing::TestWithParam<const tasks::Task*> {
 protected:
  OpenedOnce() {
    const tasks::RunFolder run(folder_ / "run");
    train_run(task(), run, *config_from(task(), small_training(task(), 2)), tasks::Existing::refuse,
              {});
  }
  const tasks::Task& task() const { return *GetParam(); }
  Runs runs() const { return Runs({(folder_ / "").string()}); }

  // What can be asked about an input, as text: an answer, where it looked, and what moved it.
  static std::string told(const Runs::Opened& opened, const tasks::Input& input) {
    std::string all;
    const auto found = opened.run->predict({&input, 1}, *opened.task->predict_settings(),
                                           {.maps = tasks::Maps::keep});
    for (const tasks::Prediction& p : found.front()) all += p.text + std::to_string(p.score);
    const std::optional<tasks::Inside> inside = opened.run->inside(input);
    if (!inside) return all;
    for (const tasks::By by : {tasks::By::attention, tasks::By::saliency, tasks::By::jacobian}) {
      try {
        all += tasks::to_json(*inside, tasks::explain(*inside, {.by = {by}})).dump();
      } catch (const Error& error) {
        all += error.what();  // of a model that has no such answer
      }
    }
    return all;
  }

 private:
  test::Folder folder_;
};

TEST_P(OpenedOnce, AnswersManyAtOnceAsItAnswersOne) {
  Runs all = runs();
  const Runs::Opened alone = Runs(runs()).open("run");
  const std::vector<tasks::Example> examples = alone.run->examples(4);
  ASSERT_FALSE(examples.empty());
  std::vector<std::string> expected;
  for (const tasks::Example& e : examples) expected.push_back(told(alone, e.input));

  std::vector<std::string> answers(kAskers);
  std::vector<const tasks::Run*> asked(kAskers);
  std::vector<std::thread> askers;
  for (size_t i = 0; i < kAskers; ++i) {
    askers.emplace_back([&, i] {
      const Runs::Opened opened = all.open("run");
      asked[i] = opened.run.get();
      answers[i] = told(opened, examples[i % examples.size()].input);
    });
  }
  for (std::thread& t : askers) t.join();
  for (size_t i = 0; i < kAskers; ++i) {
    EXPECT_EQ(answers[i], expected[i % examples.size()]) << i;
    EXPECT_EQ(asked[i], asked.front());
  }
}

// In bytes of tensors: what is opened takes what its weights take, whoever holds it.
TEST_P(OpenedOnce, TakesTheMemoryOfOneModel) {
  const int64_t before = memory_in_use();
  Runs all = runs();
  std::vector<Runs::Opened> holders;
  for (size_t i = 0; i < kAskers; ++i) holders.push_back(all.open("run"));
  const auto numbers = static_cast<double>(holders.front().run->weights());
  EXPECT_LE(static_cast<double>(memory_in_use() - before), 2 * 4 * numbers + 65536);
}

INSTANTIATE_TEST_SUITE_P(Tasks, OpenedOnce, testing::ValuesIn(tasks::task_table()),
                         [](const auto& x) { return x.param->name; });

}  // namespace
}  // namespace fovea::explorer
