#pragma once

#include <fmt/format.h>
#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "io/files.h"
#include "where.h"

// Runs the program as a user would.
namespace fovea::test {

struct Ran {
  int code;  // −1 when it died by a signal
  std::string out, err;
};

inline std::string shell_quoted(const std::string& text) {
  std::string quoted = "'";
  for (const char c : text) {
    if (c == '\'') {
      quoted += "'\\''";
    } else {
      quoted += c;
    }
  }
  return quoted + "'";
}

inline Ran run_program(const std::vector<std::string>& arguments, const std::string& setting = {}) {
  const Folder folder;
  std::string command = fmt::format("{} {}", setting, shell_quoted(program()));
  for (const std::string& argument : arguments)
    command += fmt::format(" {}", shell_quoted(argument));
  command += fmt::format(" >{} 2>{}", shell_quoted(folder / "out"), shell_quoted(folder / "err"));
  const int status = std::system(command.c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, read_bytes(folder / "out"),
          read_bytes(folder / "err")};
}

inline std::vector<std::string> joined(const std::vector<std::vector<std::string>>& parts) {
  std::vector<std::string> all;
  for (const auto& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

// Everything below a folder, to see that nothing changed there.
inline std::map<std::string, std::string> bytes_below(const std::filesystem::path& folder) {
  std::map<std::string, std::string> all;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    all[entry.path().string()] = entry.is_directory() ? "folder" : read_bytes(entry.path());
  }
  return all;
}

// What a training left: equal where it went the same way.
inline std::string trained_in(const std::string& run) {
  return read_bytes(run + "/model.safetensors") + read_bytes(run + "/log.jsonl");
}

}  // namespace fovea::test
