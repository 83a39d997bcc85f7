#include "kernels/open.h"

#include <dlfcn.h>

#include <string>

#include "core/module_file.h"
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
  static const Module& module = open_module(module_file("FOVEA_CUDA_MODULE", kFile));
  return module;
}

}  // namespace fovea::cuda
