#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "fovea/api.h"

namespace fovea {

// Where a tensor's numbers are, and where what is computed of them is computed. `cuda` is an NVIDIA
// GPU, reached through libfovea_cuda.so, which is opened at first use.
enum class Device : uint8_t { cpu, cuda };

FOVEA_API const char* name_of(Device);        // "cpu", "cuda"
FOVEA_API Device device(const std::string&);  // by its name, or "auto": the best there is
FOVEA_API std::vector<Device> devices();      // those that can be used here, cpu first
FOVEA_API std::string describe(Device);       // "NVIDIA H200", or why it cannot be used
FOVEA_API void expect_device(Device);         // throws Error, which says why, where it cannot

// Where floats are made that come of no other tensor: Tensor::zeros(), from(), randn(), weights of
// models, batches. Ids and masks are made on the CPU, and brought along by whoever reads them.
FOVEA_API Device default_device();
FOVEA_API void set_default_device(Device);

// While one lives on a thread, the default there.
class FOVEA_API DefaultDevice {
 public:
  explicit DefaultDevice(Device);
  ~DefaultDevice();
  DefaultDevice(const DefaultDevice&) = delete;
  DefaultDevice& operator=(const DefaultDevice&) = delete;

 private:
  int before_;
};

// Waits until everything that was started is done. Work on a GPU goes on while the host does other
// things; reading a result waits by itself.
FOVEA_API void synchronize();

}  // namespace fovea
