#include "fovea/error.h"

namespace fovea {

Error::Error(std::string_view call, std::string_view message)
    : std::runtime_error(std::string("[").append(call).append("] ").append(message)), call_(call) {}

}  // namespace fovea
