#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/table.h"

// What libfovea_cuda.so hands out. Whoever opens it needs this header, dlopen() and dlsym(), and no
// file of NVIDIA's. Functions throw fovea::Error; all pointers in a problem, a result and gradients
// are of the device.
namespace fovea::cuda {

inline constexpr int kModuleVersion = 5;  // of the table below
inline constexpr const char* kModuleEntry = "fovea_cuda_module";

struct MemoryUse {
  int64_t in_use = 0;    // bytes handed out
  int64_t peak = 0;      // the most there were at once, since the last reset_peak()
  int64_t reserved = 0;  // taken from the driver, blocks that wait for reuse included
};

struct Module {
  int version = kModuleVersion;

  const char* (*device_name)() = nullptr;

  // Memory of the device, aligned to 256 bytes. A block given back may be handed on at once: all
  // work is in one stream.
  void* (*allocate)(size_t bytes) = nullptr;
  void (*give_back)(void* block) = nullptr;
  void (*release)() = nullptr;  // blocks that wait for reuse, to the driver
  MemoryUse (*memory)() = nullptr;
  void (*reset_peak)() = nullptr;

  // Copies wait for what was started before. synchronize() waits for everything.
  void (*upload)(void* device, const void* host, size_t bytes) = nullptr;
  void (*download)(void* host, const void* device, size_t bytes) = nullptr;
  void (*synchronize)() = nullptr;
  void* (*stream)() = nullptr;  // a cudaStream_t, for who times

  // Why the device cannot do it; null where it can.
  const char* (*refuses)(const kernels::AttentionProblem&) = nullptr;
  void (*attention_forward)(const kernels::AttentionProblem&,
                            const kernels::AttentionResult&) = nullptr;
  void (*attention_backward)(const kernels::AttentionProblem&,
                             const kernels::AttentionGradients&) = nullptr;

  const kernels::Kernels* kernels = nullptr;  // what tensors need
};

// The entry point's type; it gives null to who asks for another version.
using ModuleEntry = const Module* (*)(int version);

}  // namespace fovea::cuda
