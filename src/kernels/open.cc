#include "kernels/open.h"

#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>

#include "fovea/error.h"

namespace fovea::cuda {
namespace {

constexpr const char* kFile = "libfovea_cuda.so";

}  // namespace

const Module& open_module(const std::string& file) {
  void* const library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* reason = dlerror();
    throw Error("cuda", "the GPU module cannot be opened: " +
                            std::string(reason != nullptr ? reason : file.c_str()) +
                            "; `./dev cuda` builds it, FOVEA_CUDA_MODULE says where it is");
  }
  const auto entry = reinterpret_cast<ModuleEntry>(dlsym(library, kModuleEntry));
  const Module* const module = entry != nullptr ? entry(kModuleVersion) : nullptr;
  if (module == nullptr) {
    throw Error("cuda", file + " is not a GPU module of version " + std::to_string(kModuleVersion) +
                            "; build it together with this program");
  }
  return *module;  // never closed: memory of the device may outlive everything else
}

const Module& open_module() {
  static const Module& module = [&]() -> const Module& {
    if (const char* named = std::getenv("FOVEA_CUDA_MODULE")) return open_module(named);
    std::error_code failed;
    const auto here = std::filesystem::read_symlink("/proc/self/exe", failed).parent_path();
    for (const char* folder : {".", "..", "../lib"}) {
      const auto file = here / folder / kFile;
      if (!failed && std::filesystem::exists(file, failed)) return open_module(file.string());
    }
    return open_module(kFile);
  }();
  return module;
}

}  // namespace fovea::cuda
