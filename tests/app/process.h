#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <string>
#include <vector>

#include "app/program.h"

extern char** environ;

namespace fovea::test {

// The program at work, without a shell in between: signals reach it, and its memory is its own.
class Process {
 public:
  struct Ended {
    int code;  // 128 + the signal it died by, as a shell says
    std::string out, err;
    double peak_mb;  // the largest resident set
  };

  explicit Process(const std::vector<std::string>& arguments, const std::string& setting = {}) {
    std::vector<std::string> words = {program()}, settings;
    words.insert(words.end(), arguments.begin(), arguments.end());
    const std::string name = setting.substr(0, setting.find('=') + 1);
    for (char** e = environ; *e != nullptr; ++e) {
      if (name.empty() || !std::string(*e).starts_with(name)) settings.emplace_back(*e);
    }
    if (!setting.empty()) settings.push_back(setting);
    posix_spawn_file_actions_t files;
    posix_spawn_file_actions_init(&files);
    constexpr int kFresh = O_WRONLY | O_CREAT | O_TRUNC;
    const std::string out = folder_ / "out", err = folder_ / "err";
    posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, out.c_str(), kFresh, 0600);
    posix_spawn_file_actions_addopen(&files, STDERR_FILENO, err.c_str(), kFresh, 0600);
    EXPECT_EQ(::posix_spawn(&id_, program().c_str(), &files, nullptr, pointers(words).data(),
                            pointers(settings).data()),
              0);
    posix_spawn_file_actions_destroy(&files);
  }

  void send(int number) const { ::kill(id_, number); }

  // Whether it waits for signals yet.
  bool listens() const {
    std::ifstream status("/proc/" + std::to_string(id_) + "/status");
    for (std::string line; std::getline(status, line);) {
      if (line.starts_with("SigBlk:")) {
        return (std::stoull(line.substr(7), nullptr, 16) >> (SIGTERM - 1) & 1) != 0;
      }
    }
    return false;
  }

  Ended wait() const {
    int status = 0;
    rusage used{};
    EXPECT_EQ(::wait4(id_, &status, 0, &used), id_);
    return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status),
            read_bytes(folder_ / "out"), read_bytes(folder_ / "err"),
            static_cast<double>(used.ru_maxrss) / 1024};
  }

 private:
  static std::vector<char*> pointers(std::vector<std::string>& words) {
    std::vector<char*> all;
    for (std::string& word : words) all.push_back(word.data());
    all.push_back(nullptr);
    return all;
  }

  const Folder folder_;
  pid_t id_ = 0;
};

}  // namespace fovea::test
