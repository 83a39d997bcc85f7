#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cstdlib>

#include "tests/train/tiny.h"
#include "train/meter.h"

extern char** environ;

// kill −9 while a run saves after every step. The run is a process of its own: this program again,
// with DISABLED_child as its only test.
namespace fovea::train::tests {
namespace {

constexpr const char* kFolder = "FOVEA_TRAIN_CHILD";  // where the child trains …
constexpr const char* kSteps = "FOVEA_TRAIN_STEPS";   // … up to which step …
constexpr const char* kReady = "FOVEA_TRAIN_READY";   // … saying here when a step begins

TrainConfig killed_config(int64_t steps) {
  TrainConfig c = tiny_config();
  c.schedule.decay = Decay::inverse_root;
  c.steps = steps;
  c.validate_every = 3;
  c.save_every = 1;
  return c;
}

// Enough weights for a save to take a while.
struct Large : Tiny {
  Large() {
    Tensor ballast = Tensor::randn({100'000}, 9).set_requires_grad();
    learner.parameters["ballast"] = ballast;
    const auto loss = learner.loss;
    learner.loss = [loss, ballast](std::span<const int64_t> batch, uint64_t seed) {
      StepLoss l = loss(batch, seed);
      l.loss = l.loss + mean(square(ballast));
      return l;
    };
  }
};

TEST(Kill, DISABLED_child) {
  const char* folder = std::getenv(kFolder);
  if (folder == nullptr) GTEST_SKIP() << "the others start it";
  Large model;
  const int ready = std::atoi(std::getenv(kReady));
  model.before_loss = [&](int64_t) { ASSERT_EQ(::write(ready, ".", 1), 1); };
  train(folder, model.learner, killed_config(std::atoll(std::getenv(kSteps))));
}

class Child {
 public:
  Child(const std::filesystem::path& folder, int64_t steps) {
    int ends[2];
    EXPECT_EQ(::pipe(ends), 0);
    ::fcntl(ends[0], F_SETFD, FD_CLOEXEC);
    std::vector<std::string> variables{kFolder + ("=" + folder.string()),
                                       kSteps + ("=" + std::to_string(steps)),
                                       kReady + ("=" + std::to_string(ends[1]))};
    std::vector<char*> environment;
    for (char** v = environ; *v != nullptr; ++v) environment.push_back(*v);
    for (std::string& v : variables) environment.push_back(v.data());
    environment.push_back(nullptr);
    std::string program = std::filesystem::read_symlink("/proc/self/exe").string();
    std::string filter = "--gtest_filter=Kill.DISABLED_child";
    std::string disabled = "--gtest_also_run_disabled_tests", output = "--gtest_output=";
    char* arguments[] = {program.data(), filter.data(), disabled.data(), output.data(), nullptr};
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
    EXPECT_EQ(
        ::posix_spawn(&id_, program.c_str(), &actions, nullptr, arguments, environment.data()), 0);
    ::posix_spawn_file_actions_destroy(&actions);
    ::close(ends[1]);
    ready_ = ends[0];
  }
  ~Child() { ::close(ready_); }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  bool begins_a_step() const {
    char byte;
    return ::read(ready_, &byte, 1) == 1;
  }
  int wait() const {
    int status = -1;
    EXPECT_EQ(::waitpid(id_, &status, 0), id_);
    return status;
  }
  int kill() const {
    ::kill(id_, SIGKILL);
    return wait();
  }

 private:
  pid_t id_ = -1;
  int ready_;
};

int64_t kills() {
  const char* count = std::getenv("FOVEA_KILLS");
  return count != nullptr ? std::atoll(count) : reduced() ? 5 : 20;
}

void sleep_for(double seconds) {
  const auto whole = static_cast<time_t>(seconds);
  const timespec time{whole, static_cast<long>((seconds - static_cast<double>(whole)) * 1e9)};
  ::nanosleep(&time, nullptr);
}

bool leftovers(const std::filesystem::path& folder) {
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(folder, ignored)) {
    if (entry.path().extension() == ".tmp") return true;
  }
  return false;
}

TEST(Kill, at_any_instant_leaves_a_checkpoint_to_go_on_from) {
  const Folder folders;
  const auto folder = folders / "killed";
  const auto state = folder / "state.safetensors";
  int64_t step = 0, found = 0, cut_short = 0;
  for (int64_t i = 0; i < kills(); ++i) {
    const Child child(folder, 1'000'000);
    const uint64_t random = mix64(static_cast<uint64_t>(i));
    double began = 0, took = 0.01;  // seconds
    for (uint64_t steps = 0; steps <= random % 4; ++steps) {
      ASSERT_TRUE(child.begins_a_step());
      const double now = clock_seconds();
      if (steps > 0) took = now - began;
      began = now;
    }
    if (i % 2 == 0) {
      sleep_for(unit_open(static_cast<uint32_t>(random >> 32)) * took);
    } else {  // while a file is being written
      while (!leftovers(folder) && clock_seconds() < began + 10) sleep_for(1e-4);
    }
    ASSERT_TRUE(WIFSIGNALED(child.kill()));
    cut_short += leftovers(folder);
    if (!std::filesystem::exists(state)) {
      ASSERT_EQ(step, 0) << "a checkpoint vanished";
      continue;
    }
    const TensorFile file = read_safetensors(state);
    const int64_t now = std::stoll(file.metadata.at("step"));
    ASSERT_GE(now, step);
    step = now;
    ++found;
  }
  EXPECT_GT(found, 0);
  const Child last(folder, step + 4);
  EXPECT_EQ(last.wait(), 0);
  {
    Large model;
    train(folders / "whole", model.learner, killed_config(step + 4));
  }
  expect_same_run(folder, folders / "whole");
  EXPECT_FALSE(leftovers(folder));
  RecordProperty("kills_during_a_save", static_cast<int>(cut_short));
}

}  // namespace
}  // namespace fovea::train::tests
