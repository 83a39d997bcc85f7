// What 9.0 and later have: clusters, blocks that run at once and read each other's shared memory;
// and launches that are set up while the one before still runs.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "cuda/device_memory.h"
#include "cuda/error.h"

namespace fovea::cuda {

__device__ __forceinline__ void cluster_sync() {
#if __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::
                   : "memory");
#endif
}
// What lies at this address of the shared memory of block `rank`.
__device__ __forceinline__ float load_from(uint32_t at, int rank) {
  float x = 0.0f;
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "{.reg .u32 there;\nmapa.shared::cluster.u32 there,%1,%2;\nld.shared::cluster.f32 %0,[there];"
      "\n}"
      : "=f"(x)
      : "r"(at), "r"(rank)
      : "memory");
#endif
  return x;
}

// The first thing a kernel does that launch_early() starts: nothing of the launches before may be
// read or written until they are done. The next one may be set up from here on.
__device__ __forceinline__ void wait_for_earlier() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;\ngriddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// Whether rows of floats can be read 16 bytes at a time.
inline bool aligned16(const void* p, int64_t step) {
  return reinterpret_cast<uintptr_t>(p) % 16 == 0 && step % 4 == 0;
}

struct EarlyGrid {
  dim3 grid;
  unsigned threads;
  size_t shared = 0;
  int blocks = 1;  // neighbours along x that are a cluster; 1: none is asked for
};
template <class... Args, class... Given>
void launch_early(void (*kernel)(Args...), const EarlyGrid& g, const char* operation,
                  const Given&... args) {
  cudaLaunchAttribute attributes[2]{};
  attributes[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attributes[0].val.programmaticStreamSerializationAllowed = 1;
  attributes[1].id = cudaLaunchAttributeClusterDimension;
  attributes[1].val.clusterDim = {static_cast<unsigned>(g.blocks), 1, 1};
  cudaLaunchConfig_t how{};
  how.gridDim = g.grid;
  how.blockDim = dim3(g.threads);
  how.dynamicSmemBytes = g.shared;
  how.stream = stream();
  how.attrs = attributes;
  how.numAttrs = !limits().hopper ? 0 : g.blocks > 1 ? 2 : 1;
  check(cudaLaunchKernelEx(&how, kernel, static_cast<Args>(args)...), operation);
  check_launch(operation);
}

}  // namespace fovea::cuda
