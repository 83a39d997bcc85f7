#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "tests/app/program.h"
#include "tests/reduced.h"

extern char** environ;

// Trainings told to stop at any moment, at the sizes at which large products run.
namespace fovea::test {
namespace {

using Clock = std::chrono::steady_clock;

double since(Clock::time_point t) {
  return std::chrono::duration<double>(Clock::now() - t).count();
}

// The program at work, its words in a file.
class Program {
 public:
  Program(const std::vector<std::string>& arguments, int threads, const std::string& log) {
    std::vector<std::string> words = {FOVEA_BINARY};
    words.insert(words.end(), arguments.begin(), arguments.end());
    std::vector<char*> argv;
    for (std::string& w : words) argv.push_back(w.data());
    argv.push_back(nullptr);
    std::vector<std::string> settings = {"FOVEA_THREADS=" + std::to_string(threads)};
    for (char** e = environ; *e != nullptr; ++e) {
      if (!std::string(*e).starts_with("FOVEA_THREADS=")) settings.emplace_back(*e);
    }
    std::vector<char*> envp;
    for (std::string& s : settings) envp.push_back(s.data());
    envp.push_back(nullptr);
    posix_spawn_file_actions_t files;
    posix_spawn_file_actions_init(&files);
    constexpr int kFresh = O_WRONLY | O_CREAT | O_TRUNC;
    posix_spawn_file_actions_addopen(&files, STDERR_FILENO, log.c_str(), kFresh, 0644);
    posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    EXPECT_EQ(::posix_spawn(&id_, FOVEA_BINARY, &files, nullptr, argv.data(), envp.data()), 0);
    posix_spawn_file_actions_destroy(&files);
  }

  void send(int number) const { ::kill(id_, number); }
  // Once it waits for signals; before that, nothing is there to be saved.
  bool listens() const {
    std::ifstream status("/proc/" + std::to_string(id_) + "/status");
    for (std::string line; std::getline(status, line);) {
      if (line.starts_with("SigBlk:")) {
        return (std::stoull(line.substr(7), nullptr, 16) >> (SIGTERM - 1) & 1) != 0;
      }
    }
    return false;
  }
  // The exit code, or what the shell says of a death by a signal.
  int wait() const {
    int status = 0;
    EXPECT_EQ(::waitpid(id_, &status, 0), id_);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

 private:
  pid_t id_ = 0;
};

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
          "12",
          "--validate-every",
          "5",
          "--save-every",
          "4"};
}

int signals_to_send() {
  const char* count = std::getenv("FOVEA_SIGNALS");
  return count != nullptr ? std::atoi(count) : reduced() ? 4 : 12;
}

struct Trial {
  int hidden, threads, number;
};

class SignalsSlow : public testing::Test {
 protected:
  void SetUp() override {
    for (const int hidden : {64, 192, 512}) {
      const Clock::time_point began = Clock::now();
      const std::string out = folder_ / ("whole" + std::to_string(hidden));
      ASSERT_EQ(Program(training(hidden, out), 2, folder_ / "err").wait(), 0)
          << read_bytes(folder_ / "err");
      seconds_[hidden] = since(began);
      for (const char* file : {"model.safetensors", "log.jsonl"}) {
        whole_[hidden] += read_bytes(out + "/" + file);
      }
    }
  }

  // The exit code of a run told to stop `after` seconds.
  int stopped(const Trial& t, const std::string& out, double after) const {
    const Program program(training(t.hidden, out), t.threads, folder_ / "err");
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
    const Trial t{std::vector{64, 192, 512}[static_cast<size_t>(i / 4 % 3)], 1 + i / 2 % 2,
                  i % 2 == 0 ? SIGINT : SIGTERM};
    const std::string out = folder_ / "cut";
    double after = std::uniform_real_distribution<double>(0, 0.8 * seconds_[t.hidden])(random);
    int code = 0;
    for (; code == 0; after /= 2) {  // a run that had ended already was faster than the first
      std::filesystem::remove_all(out);
      code = stopped(t, out, after);
    }
    const std::string what = fmt::format("hidden {}, {} threads, signal {} after {:.3f} s",
                                         t.hidden, t.threads, t.number, 2 * after);
    ASSERT_EQ(code, 3) << what << '\n' << read_bytes(folder_ / "err");
    const Program rest({"train", "translate", "--out", out, "--resume"}, t.threads,
                       folder_ / "err");
    ASSERT_EQ(rest.wait(), 0) << what << '\n' << read_bytes(folder_ / "err");
    ASSERT_EQ(read_bytes(out + "/model.safetensors") + read_bytes(out + "/log.jsonl"),
              whole_[t.hidden])
        << what;
  }
}

TEST(StopOnSignal, ASecondSignalEndsItAtOnce) {
  const Folder folder;
  auto command = training(512, folder / "run");
  command[command.size() - 5] = "100000";  // steps
  const Program program(command, 1, folder / "err");
  for (int i = 0; i < 6000 && !program.listens(); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  // Both at once: whichever it takes first asks, the other ends.
  program.send(SIGINT);
  program.send(SIGTERM);
  const int code = program.wait();
  EXPECT_TRUE(code == 128 + SIGINT || code == 128 + SIGTERM) << code;
}

}  // namespace
}  // namespace fovea::test
