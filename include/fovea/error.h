#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

#include "fovea/api.h"

namespace fovea {

// What cannot work throws this, naming the call, the argument, what was expected and what came:
//   [attend] k has D=48, q has D=64
class FOVEA_API Error : public std::runtime_error {
 public:
  Error(std::string_view call, std::string_view message);
  const std::string& call() const noexcept { return call_; }
  // What is wrong, without the call: for people, and for an error that tells of another. Never
  // empty.
  std::string_view message() const noexcept {
    return std::string_view(what()).substr(call_.size() + 3);
  }

 private:
  std::string call_;
};

}  // namespace fovea
