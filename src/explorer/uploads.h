#pragma once

#include <cstdint>
#include <filesystem>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "tasks/task.h"

namespace fovea::explorer {

// Data that were sent from the page, to train with: plain files own-1.csv, own-2.tsv … in one
// folder, where a run finds them again when it goes on. Their names are made here; of a request's
// name only the ending counts, and only where it is one that the task reads.
class Uploads {
 public:
  static constexpr size_t kMostBytes = 11'000'000;  // as base64 it passes a request's 16 MB
  static constexpr size_t kMostFiles = 100;

  explicit Uploads(std::filesystem::path folder) : folder_(std::move(folder)) {}

  struct File {
    int64_t number = 0;
    std::string name;  // as it was called, for people
    std::string path;
    uint64_t bytes = 0;
  };
  // Bytes that are there already are not kept twice.
  File add(const tasks::Task&, const std::string& name, std::string_view bytes);
  std::vector<File> list();
  File at(int64_t number);  // throws where there is none

 private:
  std::vector<File> found() const;  // with the lock held

  const std::filesystem::path folder_;
  std::mutex mutex_;
};

}  // namespace fovea::explorer
