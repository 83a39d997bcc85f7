#pragma once

#include <string>
#include <string_view>

#include "explorer/http.h"

namespace fovea::explorer {

// A caller without a connection: keeps what it is sent.
struct Here final : Caller {
  bool gone() const override { return left; }
  void send(std::string_view part) override { sent += part; }
  bool left = false;
  std::string sent;
};

}  // namespace fovea::explorer
