#pragma once

#include <cuda_runtime.h>

#include <string>

#include "fovea/error.h"

namespace fovea::cuda {

// What the runtime says becomes an Error that names the operation. FOVEA_SYNC=1 waits after every
// launch, so that what fails on the device is told by the operation that failed and not by a later
// one.
inline void check(cudaError_t status, const char* operation) {
  if (status == cudaSuccess) return;
  (void)cudaGetLastError();  // or the next call would report it again
  throw Error("cuda", std::string(operation) + ": " + cudaGetErrorString(status));
}
void check_launch(const char* operation);

}  // namespace fovea::cuda
