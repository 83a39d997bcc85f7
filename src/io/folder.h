#pragma once

#include <filesystem>
#include <string_view>
#include <system_error>

#include "fovea/api.h"

namespace fovea {

// A folder, and those it lies in, where they are missing. What cannot be made throws the error of
// `call`.
FOVEA_API void make_folder(std::string_view call, const std::filesystem::path&);
[[noreturn]] FOVEA_API void fail_to_make(std::string_view call, const std::filesystem::path&,
                                         const std::error_code&);

}  // namespace fovea
