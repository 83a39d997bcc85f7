#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace fovea {

// 64-byte aligned, uninitialised; freed blocks are kept for reuse (up to a cap), since fresh pages
// cost more than most operations. Counted by memory_in_use(). Throws fovea::Error on refusal.
std::shared_ptr<void> allocate(size_t bytes);

// When on, every block comes filled with bytes 0xff (NaN as float, −1 as integer), so that a test
// sees what was never written. FOVEA_POISON=1 turns it on.
void poison_memory(bool on);

// Gives the kept blocks back to the system, where they are more than so many bytes together.
void release_memory(int64_t beyond = 0);
int64_t memory_kept();

// Scratch of the same allocator, by element.
template <class T>
class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(int64_t n) : owner_(allocate(static_cast<size_t>(n) * sizeof(T))), n_(n) {}
  T* data() const { return static_cast<T*>(owner_.get()); }
  T& operator[](int64_t i) const { return data()[i]; }
  int64_t size() const { return n_; }

 private:
  std::shared_ptr<void> owner_;
  int64_t n_ = 0;
};

}  // namespace fovea
