#include "io/folder.h"

#include <fmt/format.h>

#include "fovea/error.h"

namespace fovea {

void fail_to_make(std::string_view call, const std::filesystem::path& folder,
                  const std::error_code& why) {
  throw Error(call, fmt::format("cannot make the folder {}: {}", folder.string(), why.message()));
}

void make_folder(std::string_view call, const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) fail_to_make(call, folder, error);
}

}  // namespace fovea
