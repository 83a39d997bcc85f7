#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "core/random.h"
#include "fovea/error.h"
#include "fovea/io.h"
#include "tasks/train.h"
#include "tests/io/files.h"
#include "tests/reduced.h"
#include "tests/tasks/small.h"

// A training of any task that is stopped and goes on is the training that never stopped. A task is
// tried for being in the table, with each of its choices in turn.
namespace fovea::tasks {
namespace {

using test::Folder;
using test::read_bytes;

constexpr int64_t kSteps = 4;

// What can be chosen: an option and a value of it.
using Choice = std::pair<std::string, std::string>;

class Choices final : public Fields {
 public:
  std::vector<Choice> all;

  void group(const std::string&) override {}
  void integer(const std::string&, int64_t&, const std::string&, Range) override {}
  void real(const std::string&, double&, const std::string&, Range) override {}
  void text(const std::string&, std::string&, const std::string&) override {}
  void flag(const std::string& name, bool& x, const std::string&) override {
    all.emplace_back(name, x ? "false" : "true");
  }
  void choice(const std::string& name, std::string& x, const std::string&,
              const std::vector<std::string>& values) override {
    for (const std::string& value : values) {
      if (value != x) all.emplace_back(name, value);
    }
  }
};

// Every part of a run that does not tell the time.
std::string what_is_left(const RunFolder& run) {
  std::string all;
  for (const char* file : {"config.json", "log.jsonl", "model.safetensors", "looks.json"}) {
    all += read_bytes(run / file);
  }
  for (const auto& [name, tensor] : load_safetensors(run / "state.safetensors")) {
    all += fmt::format("{} {}", name, to_string(tensor.shape()));
    if (tensor.dtype() != DType::f32) continue;
    const std::vector<float> values = tensor.to_vector();
    all.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
  }
  return all;
}

class EveryTaskResumed : public testing::TestWithParam<const Task*> {
 protected:
  const Task& task() const { return *GetParam(); }

  Given small() const { return small_training(task(), kSteps); }

  // Trained without a stop; false where the choice does not go with the others.
  bool train_whole(const RunFolder& run, const Given& typed) const {
    try {
      train_run(task(), run, *config_from(task(), typed), Existing::refuse, {});
      return true;
    } catch (const Error&) {
      return false;
    }
  }

  void train_in_parts(const RunFolder& run, const Given& typed, int64_t first) const {
    std::atomic<bool> stop = false;
    const Watching until_first{
        .progress = [&](const train::Progress& p) { stop = p.step >= first; }, .stop = &stop};
    const Trained t =
        train_run(task(), run, *config_from(task(), typed), Existing::refuse, until_first);
    ASSERT_EQ(t.finished.why, train::Ended::interrupted);
    ASSERT_EQ(t.finished.steps, first);
    train_run(task(), run, *run.config_of(task()), Existing::go_on, {});
  }

  std::vector<Choice> choices() const {
    Choices found;
    config_from(task(), {})->visit(found);
    return found.all;
  }

  void expect_resumed_alike(const Given& more, uint64_t draw) const {
    Given typed = small();
    for (const auto& choice : more) typed[choice.first] = choice.second;
    const Folder folder;
    const RunFolder whole(folder / "whole"), parts(folder / "parts");
    if (!train_whole(whole, typed)) return;
    const auto first = 1 + static_cast<int64_t>(mix64(draw) % (kSteps - 1));
    std::string options;
    for (const auto& choice : more) {
      options += fmt::format(" --{} {}", choice.first, choice.second);
    }
    SCOPED_TRACE(fmt::format("{}{}, stopped at step {}", task().name, options, first));
    train_in_parts(parts, typed, first);
    EXPECT_TRUE(what_is_left(parts) == what_is_left(whole));
  }
};

// Another model, or hard attention.
bool decides_model(const Choice& c) {
  return c.first == "model" || c.first == "context" || c.second == "sample";
}

class EveryTask : public EveryTaskResumed {};

TEST_P(EveryTask, GoesOnAsIfItHadNeverStopped) {
  const Folder folder;
  ASSERT_TRUE(train_whole(RunFolder(folder / "default"), small()));
  expect_resumed_alike({}, 0);
  const std::vector<Choice> all = choices();
  for (size_t i = 0; i < all.size(); ++i) {
    if (decides_model(all[i]) || i % 16 == 0) expect_resumed_alike({all[i]}, i + 1);
  }
}

// All at once that draws or keeps something from step to step, where a task has it.
TEST_P(EveryTask, GoesOnWithAllThatDrawsAtOnce) {
  const Given draws = {{"dropout", "0.2"},
                       {"word-dropout", "0.2"},
                       {"doubly", "0.1"},
                       {"average", "0.9"},
                       {"attention-rate", "3"}};
  Numbers numbers;
  task().config()->visit(numbers);
  Given typed;
  for (const auto& number : draws) {
    if (numbers.names.contains(number.first)) typed.insert(number);
  }
  const std::vector<Choice> all = choices();
  const Choice sampled{"weighting", "sample"};
  if (std::find(all.begin(), all.end(), sampled) != all.end()) typed.insert(sampled);
  const Folder folder;
  Given whole = small();
  whole.insert(typed.begin(), typed.end());
  ASSERT_TRUE(train_whole(RunFolder(folder / "all"), whole));
  expect_resumed_alike(typed, 7);
}

// Its scores were those of other weights.
TEST(ResumedRun, ThatWasFinishedIsNotWhenItIsStopped) {
  const Task& task = tasks::task("translate");
  const Folder folder;
  const RunFolder run(folder / "run");
  train_run(task, run, *config_from(task, small_training(task, 2)), Existing::refuse, {});
  ASSERT_TRUE(run.is_finished());
  std::atomic<bool> stop = false;
  const Watching watching{.progress = [&](const train::Progress& p) { stop = p.step >= 3; },
                          .stop = &stop};
  const auto config = run.config_of(task);
  change_limits(task, *config, {{"steps", "50"}});
  const Trained t = train_run(task, run, *config, Existing::go_on, watching);
  ASSERT_EQ(t.finished.why, train::Ended::interrupted);
  EXPECT_FALSE(run.is_finished());
  EXPECT_FALSE(std::filesystem::exists(run / kReportPage));
  train_run(task, run, *run.config_of(task), Existing::go_on, {});
  EXPECT_EQ(run.results().finished.steps, 50);
}

INSTANTIATE_TEST_SUITE_P(Tasks, EveryTask, testing::ValuesIn(task_table()),
                         [](const auto& task) { return task.param->name; });

class EveryTaskSlow : public EveryTaskResumed {};

TEST_P(EveryTaskSlow, GoesOnWithEveryChoiceAsIfItHadNeverStopped) {
  const std::vector<Choice> all = choices();
  for (size_t i = 0; i < all.size(); i += test::reduced() ? 7 : 1) {
    expect_resumed_alike({all[i]}, i + 1);
  }
}

INSTANTIATE_TEST_SUITE_P(Tasks, EveryTaskSlow, testing::ValuesIn(task_table()),
                         [](const auto& task) { return task.param->name; });

}  // namespace
}  // namespace fovea::tasks
