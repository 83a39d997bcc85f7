#pragma once

#include <string>
#include <string_view>

namespace fovea {

std::string to_base64(std::string_view bytes);
std::string from_base64(std::string_view text);  // throws where it is none

}  // namespace fovea
