#include "core/module_file.h"

#include <cstdlib>
#include <filesystem>
#include <system_error>

namespace fovea {

std::string module_file(const char* variable, const char* file) {
  if (const char* named = std::getenv(variable)) return named;
  std::error_code failed;
  const auto here = std::filesystem::read_symlink("/proc/self/exe", failed).parent_path();
  for (const char* folder : {".", "..", "../lib"}) {
    const auto found = here / folder / file;
    if (!failed && std::filesystem::exists(found, failed)) return found.string();
  }
  return file;
}

}  // namespace fovea
