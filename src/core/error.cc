#include "fovea/error.h"

namespace fovea {
namespace {

std::string tagged(std::string_view call, std::string_view message) {
  return std::string("[").append(call).append("] ").append(
      message.empty() ? "it failed, and nothing says why" : message);
}

}  // namespace

Error::Error(std::string_view call, std::string_view message)
    : std::runtime_error(tagged(call, message)), call_(call) {}

}  // namespace fovea
