#include "cuda/device_memory.h"

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/size_class.h"
#include "cuda/error.h"

namespace fovea::cuda {
namespace {

constexpr size_t kAlign = 256;

struct Device {
  cudaStream_t stream = nullptr;
  DeviceLimits limits{};
  std::string name;
  bool wait = false;  // after every launch

  Device() {
    int count = 0;
    const cudaError_t status = cudaGetDeviceCount(&count);
    if (status == cudaErrorInsufficientDriver) {
      throw Error("cuda", "there is no NVIDIA driver here, or it is older than CUDA " +
                              std::to_string(CUDART_VERSION / 1000) +
                              " needs; --device cpu needs none");
    }
    if (status != cudaErrorNoDevice) check(status, "looking for a GPU");
    if (count == 0) throw Error("cuda", "there is no GPU here; --device cpu needs none");
    cudaDeviceProp properties;
    check(cudaGetDeviceProperties(&properties, 0), "asking the GPU what it is");
    if (properties.major < 8) {
      throw Error("cuda", std::string(properties.name) + " has compute capability " +
                              std::to_string(properties.major) + "." +
                              std::to_string(properties.minor) + ", needed is 8.0");
    }
    name = properties.name;
    limits = {properties.multiProcessorCount, static_cast<int>(properties.sharedMemPerBlockOptin),
              properties.major == 9 && properties.minor == 0};
    check(cudaSetDevice(0), "choosing the GPU");
    check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "making a stream");
    const char* sync = std::getenv("FOVEA_SYNC");
    wait = sync != nullptr && std::string(sync) == "1";
  }
};

Device& device() {
  static Device* const one = new Device;  // never destroyed: the driver may be gone by then
  return *one;
}

// Blocks by size classes, those of the host's allocator. With one stream a block that was given
// back can be handed on at once: whoever writes to it comes later.
class Allocator {
 public:
  void* take(size_t bytes) {
    const SizeClass size = size_class(std::max(bytes, kAlign));
    const std::lock_guard lock(mutex_);
    std::vector<void*>& spare = free_[size.bytes];
    void* block = nullptr;
    if (!spare.empty()) {
      block = spare.back();
      spare.pop_back();
    } else {
      block = fresh(size.bytes);
      use_.reserved += static_cast<int64_t>(size.bytes);
    }
    sizes_[block] = size.bytes;
    use_.in_use += static_cast<int64_t>(size.bytes);
    use_.peak = std::max(use_.peak, use_.in_use);
    return block;
  }

  void give_back(void* block) {
    const std::lock_guard lock(mutex_);
    const auto found = sizes_.find(block);
    if (found == sizes_.end()) {
      throw Error("cuda", "a block is given back that was never handed out, or twice");
    }
    free_[found->second].push_back(block);
    use_.in_use -= static_cast<int64_t>(found->second);
    sizes_.erase(found);
  }

  void release() {
    const std::lock_guard lock(mutex_);
    release_locked();
  }

  MemoryUse use() {
    const std::lock_guard lock(mutex_);
    return use_;
  }
  void reset_peak() {
    const std::lock_guard lock(mutex_);
    use_.peak = use_.in_use;
  }

 private:
  void* fresh(size_t bytes) {
    void* block = nullptr;
    if (cudaMalloc(&block, bytes) == cudaSuccess) return block;
    (void)cudaGetLastError();
    release_locked();
    if (cudaMalloc(&block, bytes) == cudaSuccess) return block;
    (void)cudaGetLastError();
    size_t left = 0, all = 0;
    (void)cudaMemGetInfo(&left, &all);
    throw Error("cuda", "the GPU refused " + std::to_string(bytes) + " bytes; " +
                            std::to_string(left) + " of " + std::to_string(all) + " are free");
  }

  void release_locked() {
    check(cudaStreamSynchronize(device().stream), "waiting before memory is released");
    for (auto& [bytes, blocks] : free_) {
      for (void* block : blocks) {
        check(cudaFree(block), "releasing memory");
        use_.reserved -= static_cast<int64_t>(bytes);
      }
      blocks.clear();
    }
  }

  std::mutex mutex_;
  std::unordered_map<size_t, std::vector<void*>> free_;
  std::unordered_map<void*, size_t> sizes_;
  MemoryUse use_;
};

Allocator& allocator() {
  static Allocator* const one = new Allocator;
  return *one;
}

// Host memory that the GPU reads by itself: what is on its way lies here, so that nobody waits. A
// slot is filled again when everything in it has arrived.
class Staging {
 public:
  static constexpr size_t kSlot = size_t{1} << 20;

  void upload(void* to, const void* from, size_t bytes) {
    const std::lock_guard lock(mutex_);
    if (memory_ == nullptr) start();
    if (used_ + bytes > kSlot) next_slot();
    std::byte* const at = memory_ + slot_ * kSlot + used_;
    std::memcpy(at, from, bytes);
    used_ += (bytes + 15) / 16 * 16;
    check(cudaMemcpyAsync(to, at, bytes, cudaMemcpyHostToDevice, device().stream), "upload");
  }

 private:
  static constexpr size_t kSlots = 8;

  void start() {
    void* memory = nullptr;
    check(cudaMallocHost(&memory, kSlots * kSlot), "taking memory for uploads");
    for (cudaEvent_t& left : left_) {
      check(cudaEventCreateWithFlags(&left, cudaEventDisableTiming), "making an event");
    }
    memory_ = static_cast<std::byte*>(memory);
  }
  void next_slot() {
    check(cudaEventRecord(left_[slot_], device().stream), "upload");
    slot_ = (slot_ + 1) % kSlots;
    used_ = 0;
    check(cudaEventSynchronize(left_[slot_]), "upload");
  }

  std::mutex mutex_;
  std::byte* memory_ = nullptr;
  cudaEvent_t left_[kSlots] = {};
  size_t slot_ = 0, used_ = 0;
};

}  // namespace

cudaStream_t stream() { return device().stream; }
const DeviceLimits& limits() { return device().limits; }
const char* device_name() { return device().name.c_str(); }

void check_launch(const char* operation) {
  check(cudaGetLastError(), operation);
  if (device().wait) check(cudaStreamSynchronize(stream()), operation);
}

void* allocate(size_t bytes) {
  (void)device();
  return allocator().take(bytes);
}
void give_back(void* block) { allocator().give_back(block); }
void release() { allocator().release(); }
MemoryUse memory() { return allocator().use(); }
void reset_peak() { allocator().reset_peak(); }

void upload(void* to, const void* from, size_t bytes) {
  static Staging* const staging = new Staging;  // never destroyed, as the device is not
  if (bytes <= Staging::kSlot) return staging->upload(to, from, bytes);
  check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, stream()), "upload");
  check(cudaStreamSynchronize(stream()), "upload");
}
void download(void* to, const void* from, size_t bytes) {
  check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, stream()), "download");
  check(cudaStreamSynchronize(stream()), "download");
}
void synchronize() { check(cudaStreamSynchronize(stream()), "synchronize"); }

}  // namespace fovea::cuda
