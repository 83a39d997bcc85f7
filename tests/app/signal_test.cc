#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "app/process.h"
#include "tests/reduced.h"
#include "tests/tasks/small.h"

// Trainings told to stop at any moment, at the sizes at which large products run.
namespace fovea::test {
namespace {

using Clock = std::chrono::steady_clock;

double since(Clock::time_point t) {
  return std::chrono::duration<double>(Clock::now() - t).count();
}

std::vector<std::string> training(int hidden, const std::string& out) {
  return {"train",
          "translate",
          "--out",
          out,
          "--builtin",
          "phrases",
          "--examples",
          "300",
          "--src-unit",
          "words",
          "--tgt-unit",
          "words",
          "--embedding",
          "96",
          "--hidden",
          std::to_string(hidden),
          "--dropout",
          "0.1",
          "--batch-tokens",
          "256",
          "--steps",
          "8",
          "--validate-every",
          "3",
          "--save-every",
          "3"};
}

int signals_to_send() {
  const char* count = std::getenv("FOVEA_SIGNALS");
  return count != nullptr ? std::atoi(count) : reduced() ? 4 : 9;
}

struct Trial {
  int hidden, threads, number;
};
std::string threads(const Trial& t) { return "FOVEA_THREADS=" + std::to_string(t.threads); }

class SignalsSlow : public testing::Test {
 protected:
  void SetUp() override {
    for (const int hidden : {64, 192, 384}) {
      const Clock::time_point began = Clock::now();
      const std::string out = folder_ / ("whole" + std::to_string(hidden));
      const Process::Ended ended = Process(training(hidden, out)).wait();
      ASSERT_EQ(ended.code, 0) << ended.err;
      seconds_[hidden] = since(began);
      for (const char* file : {"model.safetensors", "log.jsonl"}) {
        whole_[hidden] += read_bytes(out + "/" + file);
      }
    }
  }

  // A run told to stop when it has trained for so many seconds.
  Process::Ended stopped(const Trial& t, const std::string& out, double after) const {
    const Process program(training(t.hidden, out), threads(t));
    const Clock::time_point began = Clock::now();
    while (!program.listens() && since(began) < 60) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    std::this_thread::sleep_for(std::chrono::duration<double>(after));
    program.send(t.number);
    return program.wait();
  }

  const Folder folder_;
  std::map<int, double> seconds_;
  std::map<int, std::string> whole_;
};

TEST_F(SignalsSlow, StopARunAtAnyMomentAndItGoesOnToTheSameWeights) {
  std::mt19937 random(17);
  for (int i = 0; i < signals_to_send(); ++i) {
    // Every width with every signal.
    const Trial t{std::vector{64, 192, 384}[static_cast<size_t>(i / 3 % 3)], 1 + i % 2,
                  std::vector{SIGINT, SIGTERM, SIGHUP}[static_cast<size_t>(i % 3)]};
    const std::string out = folder_ / "cut";
    double after = std::uniform_real_distribution<double>(0, 0.8 * seconds_[t.hidden])(random);
    Process::Ended first{};
    for (; first.code == 0; after /= 2) {  // a run that ended before was faster than the whole one
      std::filesystem::remove_all(out);
      first = stopped(t, out, after);
    }
    const std::string what = fmt::format("hidden {}, {} threads, signal {} after {:.3f} s",
                                         t.hidden, t.threads, t.number, 2 * after);
    ASSERT_EQ(first.code, 3) << what << '\n' << first.err;
    EXPECT_NE(first.err.find("--resume"), std::string::npos) << first.err;
    const Process::Ended rest =
        Process({"train", "translate", "--out", out, "--resume"}, threads(t)).wait();
    ASSERT_EQ(rest.code, 0) << what << '\n' << rest.err;
    ASSERT_EQ(read_bytes(out + "/model.safetensors") + read_bytes(out + "/log.jsonl"),
              whole_[t.hidden])
        << what;
  }
}

// ---- Every task in turn, told to stop or killed ------------------------------------------------

std::vector<std::string> small_run(const tasks::Task& task, const std::string& out) {
  std::vector<std::string> command = {"train", task.name, "--out", out};
  tasks::Given typed = tasks::small_training(task, 40);
  typed["save-every"] = "3";
  for (const auto& [name, value] : typed) command.insert(command.end(), {"--" + name, value});
  return command;
}
// Killed before there was a checkpoint, a training begins anew; otherwise it goes on.
Process::Ended taken_up(const tasks::Task& task, const std::string& out) {
  const bool begun = std::filesystem::exists(out + "/state.safetensors");
  std::vector<std::string> command =
      begun ? std::vector<std::string>{"train", task.name, "--out", out, "--resume"}
            : small_run(task, out);
  if (!begun) std::filesystem::remove_all(out);
  return Process(command).wait();
}

TEST(SignalsSlowOfTasks, EveryTaskGoesOnToTheSameWeights) {
  const Folder folder;
  std::mt19937 random(29);
  std::map<std::string, std::string> whole;
  std::map<std::string, double> seconds;
  for (const tasks::Task* task : tasks::task_table()) {
    const std::string out = folder / task->name;
    const Clock::time_point began = Clock::now();
    const Process::Ended ended = Process(small_run(*task, out)).wait();
    ASSERT_EQ(ended.code, 0) << ended.err;
    seconds[task->name] = since(began);
    whole[task->name] = trained_in(out);
  }
  const int kSignals[] = {SIGINT, SIGTERM, SIGKILL, SIGHUP, SIGKILL};
  const auto table = tasks::task_table();
  int resumed = 0;
  for (int i = 0; i < signals_to_send(); ++i) {
    const tasks::Task& task = *table[static_cast<size_t>(i) % table.size()];
    const int number = kSignals[static_cast<size_t>(i) % std::size(kSignals)];
    const double after = std::uniform_real_distribution<double>(0, seconds[task.name])(random);
    const std::string out = folder / "cut";
    std::filesystem::remove_all(out);
    const Process program(small_run(task, out));
    std::this_thread::sleep_for(std::chrono::duration<double>(after));
    program.send(number);
    const int code = program.wait().code;
    const std::string what = fmt::format("{}, signal {} after {:.3f} s of {:.3f}", task.name,
                                         number, after, seconds[task.name]);
    // It had ended, was stopped and saved, had not begun to listen, or was killed.
    EXPECT_TRUE(code == 0 || code == 3 || code == 128 + number) << what << ": code " << code;
    EXPECT_TRUE(code != 3 || std::filesystem::exists(out + "/state.safetensors")) << what;
    resumed += std::filesystem::exists(out + "/state.safetensors");
    const Process::Ended rest = taken_up(task, out);
    ASSERT_EQ(rest.code, 0) << what << '\n' << rest.err;
    ASSERT_EQ(trained_in(out), whole[task.name]) << what;
  }
  EXPECT_GE(4 * resumed, signals_to_send()) << "most began anew: too few were resumed";
}

// ---- The command that a stopped program prints --------------------------------------------------

std::string after(const std::string& text, const std::string& part) {
  const size_t at = text.find(part);
  return at == std::string::npos ? "" : text.substr(at + part.size());
}

// Its arguments, as a shell understands the line.
std::vector<std::string> printed_command(const std::string& err) {
  const Folder folder;
  const std::string line = after(err, "go on with: fovea ");
  EXPECT_FALSE(line.empty()) << err;
  const std::string list = "printf '%s\\n' " + line.substr(0, line.find('\n'));
  EXPECT_EQ(std::system((list + " >" + shell_quoted(folder / "words")).c_str()), 0) << list;
  std::vector<std::string> words;
  std::ifstream file(folder / "words");
  for (std::string word; std::getline(file, word);) words.push_back(word);
  return words;
}

void wait_until(const std::function<bool()>& done) {
  for (int i = 0; i < 6000 && !done(); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

class StoppedTraining : public testing::TestWithParam<const tasks::Task*> {};

TEST_P(StoppedTraining, GoesOnByTheCommandItPrints) {
  const Folder folder;
  const std::string out = folder / "a user's run";
  std::vector<std::string> command = {"train", GetParam()->name, "--out", out};
  for (const auto& [name, value] : tasks::small_training(*GetParam(), 1000000)) {
    command.insert(command.end(), {"--" + name, value});
  }
  const Process program(command);
  wait_until([&] { return !read_bytes(out + "/log.jsonl").empty(); });
  program.send(SIGINT);
  const Process::Ended ended = program.wait();
  ASSERT_EQ(ended.code, 3) << ended.err;
  const int64_t step = std::atoll(after(ended.err, "stopped at step ").c_str());
  ASSERT_GE(step, 1) << ended.err;
  std::vector<std::string> again = printed_command(ended.err);
  again.insert(again.end(), {"--steps", std::to_string(step + 1)});
  const Process::Ended rest = Process(again).wait();
  EXPECT_EQ(rest.code, 0) << rest.err;
  EXPECT_NE(rest.out.find(std::to_string(step + 1) + " steps in"), std::string::npos) << rest.out;
}

INSTANTIATE_TEST_SUITE_P(Tasks, StoppedTraining, testing::ValuesIn(tasks::task_table()),
                         [](const auto& task) { return task.param->name; });

// A run that is begun anew has another folder in the place of the old one.
TEST(StoppedReproduction, GoesOnByTheCommandItPrints) {
  const Folder folder;
  const std::string out = folder / "a user's paper", row = out + "/plain-dense-1";
  const auto folder_number = [&] {
    struct stat found {};
    return ::stat(row.c_str(), &found) == 0 ? found.st_ino : 0;
  };
  const Process program({"reproduce", "mnih2014", "--out", out, "--effort", "0.01"});
  wait_until([&] { return !read_bytes(row + "/log.jsonl").empty(); });
  program.send(SIGINT);
  const Process::Ended ended = program.wait();
  ASSERT_EQ(ended.code, 3) << ended.err;
  const std::string log = read_bytes(row + "/log.jsonl");
  const auto number = folder_number();
  ASSERT_NE(number, 0u);
  const Process again(printed_command(ended.err));
  wait_until([&] {
    return read_bytes(row + "/log.jsonl").size() > log.size() ||
           std::filesystem::exists(row + "/results.json");
  });
  again.send(SIGINT);
  const Process::Ended rest = again.wait();
  EXPECT_EQ(rest.code, 3) << rest.err;
  EXPECT_EQ(folder_number(), number);
  EXPECT_TRUE(read_bytes(row + "/log.jsonl").starts_with(log));
}

TEST(StopOnSignal, ASecondSignalEndsItAtOnce) {
  const Folder folder;
  auto command = training(512, folder / "run");
  command[command.size() - 5] = "100000";  // steps
  const Process program(command);
  for (int i = 0; i < 6000 && !program.listens(); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  // Both at once: whichever it takes first asks, the other ends.
  program.send(SIGINT);
  program.send(SIGTERM);
  const int code = program.wait().code;
  EXPECT_TRUE(code == 128 + SIGINT || code == 128 + SIGTERM) << code;
}

}  // namespace
}  // namespace fovea::test
