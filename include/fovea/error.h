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

 private:
  std::string call_;
};

}  // namespace fovea
