#include <algorithm>
#include <atomic>
#include <utility>

#include "core/allocator.h"
#include "core/interrupt.h"
#include "core/memory_count.h"
#include "core/size_class.h"
#include "fovea/error.h"
#include "kernels/open.h"
#include "kernels/table.h"

namespace fovea {
namespace {

std::atomic<Device> default_one{Device::cpu};
thread_local int of_thread = -1;                        // a Device; −1: none of its own
std::atomic<const kernels::Kernels*> instead{nullptr};  // of the module's
std::atomic<bool> begun{false};                         // something is off the CPU

}  // namespace

namespace kernels {

void use_kernels(Device, const Kernels* table) { instead = table; }

const Kernels& kernels_of(Device d) {
  if (d == Device::cpu) return kCpu;
  begun.store(true, std::memory_order_relaxed);
  if (const Kernels* const table = instead.load(std::memory_order_acquire)) return *table;
  return *cuda::open_module().kernels;
}

std::shared_ptr<void> allocate_on(Device d, size_t bytes) {
  if (d == Device::cpu) return allocate(bytes);
  ask_to_go_on();
  const Kernels& table = kernels_of(d);
  const auto held = static_cast<int64_t>(size_class(bytes).bytes);
  void* const taken = table.allocate(bytes);
  count_memory(held);
  return {taken, [&table, held](void* block) {
            table.give_back(block);
            count_memory(-held);
          }};
}

}  // namespace kernels

const char* name_of(Device d) { return d == Device::cpu ? "cpu" : "cuda"; }

Device device(const std::string& name) {
  if (name == "auto") return devices().back();
  for (const Device d : {Device::cpu, Device::cuda}) {
    if (name == name_of(d)) return d;
  }
  throw Error("device", "there is no device \"" + name + "\"; there are cpu, cuda and auto");
}

void expect_device(Device d) { (void)kernels::on(d).name(); }

std::vector<Device> devices() {
  std::vector<Device> all{Device::cpu};
  try {
    expect_device(Device::cuda);
    all.push_back(Device::cuda);
  } catch (const Error&) {
  }
  return all;
}

std::string describe(Device d) {
  try {
    return kernels::on(d).name();
  } catch (const Error& e) {
    return std::string(e.message());
  }
}

Device default_device() {
  return of_thread >= 0 ? static_cast<Device>(of_thread)
                        : default_one.load(std::memory_order_relaxed);
}

DefaultDevice::DefaultDevice(Device d) : before_(std::exchange(of_thread, static_cast<int>(d))) {}
DefaultDevice::~DefaultDevice() { of_thread = before_; }

void set_default_device(Device d) {
  expect_device(d);
  default_one = d;
}

void synchronize() {
  if (begun) kernels::on(Device::cuda).synchronize();
}

}  // namespace fovea
