#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "kernels/module.h"

namespace fovea::cuda {

// The one stream in which everything happens. Starts the device at first use.
cudaStream_t stream();
// Of the device in use.
struct DeviceLimits {
  int processors;     // multiprocessors
  int shared_memory;  // bytes that a block may have
  bool hopper;        // of compute capability 9.0
};
const DeviceLimits& limits();
const char* device_name();

void* allocate(size_t bytes);
void give_back(void* block);
void release();
MemoryUse memory();
void reset_peak();
void upload(void* device, const void* host, size_t bytes);
void download(void* host, const void* device, size_t bytes);
void synchronize();

// Scratch, by element.
template <class T>
class Scratch {
 public:
  Scratch() = default;
  explicit Scratch(size_t n) : data_(n == 0 ? nullptr : allocate(n * sizeof(T))) {}
  Scratch(Scratch&& other) noexcept : data_(other.data_) { other.data_ = nullptr; }
  Scratch& operator=(Scratch&& other) noexcept {
    void* const mine = data_;
    data_ = other.data_;
    other.data_ = mine;
    return *this;
  }
  ~Scratch() {
    if (data_ != nullptr) give_back(data_);
  }
  T* data() const { return static_cast<T*>(data_); }

 private:
  void* data_ = nullptr;
};

}  // namespace fovea::cuda
