#include "cuda/module.h"

#include "cuda/attention.h"
#include "cuda/memory.h"

namespace fovea::cuda {
namespace {

constexpr Module kModule = {
    .device_name = device_name,
    .allocate = allocate,
    .give_back = give_back,
    .release = release,
    .memory = memory,
    .reset_peak = reset_peak,
    .upload = upload,
    .download = download,
    .synchronize = synchronize,
    .stream = [] { return static_cast<void*>(stream()); },
    .refuses = refuses,
    .attention_forward = attention_forward,
    .attention_backward = attention_backward,
};

}  // namespace
}  // namespace fovea::cuda

extern "C" __attribute__((visibility("default"))) const fovea::cuda::Module* fovea_cuda_module(
    int version) {
  return version == fovea::cuda::kModuleVersion ? &fovea::cuda::kModule : nullptr;
}
