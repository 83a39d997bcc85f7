#include "core/allocator.h"

#include <malloc.h>
#include <pthread.h>
#include <sanitizer/asan_interface.h>
#include <sys/mman.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>
#include <vector>

#include "core/interrupt.h"
#include "core/isa.h"
#include "core/memory_count.h"
#include "core/size_class.h"
#include "fovea/error.h"
#include "fovea/runtime.h"

namespace fovea {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;
constexpr size_t kHugeFrom = size_t{2} << 20;  // blocks that ask for huge pages
constexpr int64_t kSpare = int64_t{1} << 30;   // bytes
constexpr size_t kLargest = size_t{1} << 47;   // an address space

// Blocks that were given back are kept for reuse. In use and kept they are never more than kSpare
// beyond the most that was in use at once: a training's next step finds all that the last one took.
class Allocator {
 public:
  void* take(SizeClass size) {
    void* block = reuse(size);
    if (block == nullptr) {
      if (!may_keep(static_cast<int64_t>(size.bytes))) release();
      block = fresh(size.bytes);
    }
    if (block == nullptr) {
      release();
      block = fresh(size.bytes);
    }
    if (block == nullptr) {
      throw Error("allocate", "the system refused " + std::to_string(size.bytes) + " bytes");
    }
    count(static_cast<int64_t>(size.bytes));
    if (poison_.load(std::memory_order_relaxed)) std::memset(block, 0xff, size.bytes);
    return block;
  }

  void count(int64_t bytes) {
    const int64_t now = in_use_.fetch_add(bytes) + bytes;
    int64_t peak = peak_.load(std::memory_order_relaxed);
    while (now > peak && !peak_.compare_exchange_weak(peak, now)) {
    }
  }

  void give_back(void* block, SizeClass size) noexcept {
    in_use_.fetch_sub(static_cast<int64_t>(size.bytes));
    {
      const std::lock_guard lock(mutex_);
      if (may_keep(static_cast<int64_t>(size.bytes))) {
        *static_cast<void**>(block) = free_[size.index];  // the list lives in the blocks
        free_[size.index] = block;
        ASAN_POISON_MEMORY_REGION(contents(block), size.bytes - sizeof(void*));
        kept_ += static_cast<int64_t>(size.bytes);
        return;
      }
    }
    std::free(block);
  }

  void release() noexcept {
    const std::lock_guard lock(mutex_);
    for (void*& head : free_) {
      while (head != nullptr) {
        void* next = *static_cast<void**>(head);
        std::free(head);
        head = next;
      }
    }
    kept_ = 0;
    malloc_trim(0);  // blocks below 32 MB come from the heap, which keeps its pages: 250 MB of a
                     // long text's pass through GPT-2
  }

  // Around fork(): a child has none of the threads that might hold the lists.
  void lock() { mutex_.lock(); }
  void unlock() { mutex_.unlock(); }

  std::atomic<int64_t> in_use_{0}, peak_{0}, kept_{0};
  std::atomic<bool> poison_{false};

 private:
  // What AddressSanitizer guards in a kept block: all but the link, by which it finds the next one.
  static void* contents(void* block) { return static_cast<void**>(block) + 1; }

  // Whether there is room for as many bytes more.
  bool may_keep(int64_t bytes) const { return in_use_ + kept_ + bytes <= peak_ + kSpare; }

  void* reuse(SizeClass size) {
    const std::lock_guard lock(mutex_);
    void* block = free_[size.index];
    if (block == nullptr) return nullptr;
    ASAN_UNPOISON_MEMORY_REGION(contents(block), size.bytes - sizeof(void*));
    free_[size.index] = *static_cast<void**>(block);
    kept_ -= static_cast<int64_t>(size.bytes);
    return block;
  }

  static void* fresh(size_t bytes) {
    if (bytes < kHugeFrom) return std::aligned_alloc(kBlockAlign, bytes);
    void* block = nullptr;
    if (posix_memalign(&block, kHugePage, bytes) != 0) return nullptr;
    // What the last page would waste stays in small ones. Advice: refusal is fine.
    madvise(block, bytes / kHugePage * kHugePage, MADV_HUGEPAGE);
    return block;
  }

  std::mutex mutex_;
  std::array<void*, kSizeClasses> free_{};
};

Allocator& allocator() {
  static Allocator* const one = [] {  // never destroyed: tensors in statics may outlive it
    use_isa_from_environment();
    static Allocator* a = new Allocator;
    pthread_atfork([] { a->lock(); }, [] { a->unlock(); }, [] { a->unlock(); });
    const char* poison = std::getenv("FOVEA_POISON");
    a->poison_ = poison != nullptr && std::string(poison) == "1";
    return a;
  }();
  return *one;
}

}  // namespace

std::shared_ptr<void> allocate(size_t bytes) {
  ask_to_go_on();
  if (bytes > kLargest) throw Error("allocate", std::to_string(bytes) + " bytes are too many");
  const SizeClass size = size_class(bytes);
  return {allocator().take(size), [size](void* p) { allocator().give_back(p, size); }};
}

void count_memory(int64_t bytes) { allocator().count(bytes); }

void poison_memory(bool on) { allocator().poison_ = on; }
void release_memory(int64_t beyond) {
  if (allocator().kept_ > beyond) allocator().release();
}
int64_t memory_kept() { return allocator().kept_; }

int64_t memory_in_use() { return allocator().in_use_; }
int64_t memory_peak() { return allocator().peak_; }
void reset_memory_peak() { allocator().peak_ = allocator().in_use_.load(); }

}  // namespace fovea
