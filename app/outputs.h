#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "tasks/run_folder.h"

namespace fovea::app {

// What a verb reads: files and folders, by whatever name, and runs with the data that they name.
// What is not there is no input.
struct Reads {
  std::vector<std::string> files;
  std::vector<std::string> runs;
};

// Throws, before any work, where a file that is to be written has no folder, is something that the
// verb reads, or belongs to a run, under any name: links and `..` lead to the same file. The one
// `owned` is the verb's own to write, such as a run's report.html.
struct Output {
  const char* call;
  std::string file;
  std::filesystem::path owned = {};
};
void check_output(const Output&, const Reads&);
// Whether both names lead to one file, which need not be there.
bool is_one_file(const std::filesystem::path&, const std::filesystem::path&);

// The file that an input names for a task whose inputs are files: FILE, or FILE:3 for one of its
// images.
std::string file_named_by(const std::string& input);

}  // namespace fovea::app
