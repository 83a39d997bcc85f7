#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "explorer/answers.h"
#include "fovea/error.h"

namespace fovea::explorer {

// What a run is asked about: {"input"}, or {"name", "file"}, a file that the page sent as base64
// and that is gone with this.
class Asked {
 public:
  explicit Asked(const Json&);
  ~Asked();
  Asked(const Asked&) = delete;
  Asked& operator=(const Asked&) = delete;
  const std::string& input() const { return input_; }  // as a run takes it
  // With the name that the sender gave in place of where the file lay.
  Error renamed(const Error&) const;

 private:
  void clear() const;

  std::filesystem::path folder_;  // empty: no file
  std::string name_, input_;
};

}  // namespace fovea::explorer
