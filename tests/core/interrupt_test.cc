#include "core/interrupt.h"

#include <gtest/gtest.h>

#include <thread>

#include "core/allocator.h"

namespace fovea {
namespace {

struct Enough {};

TEST(Interruptible, EndsWorkThatTakesMemory) {
  int asked = 0;
  const auto work = [] {
    for (int i = 0; i < 100; ++i) allocate(64);
  };
  {
    const Interruptible wanted([&] {
      if (++asked == 10) throw Enough();
    });
    EXPECT_THROW(work(), Enough);
    EXPECT_EQ(asked, 10);
    std::thread(work).join();  // other threads are not asked
    EXPECT_EQ(asked, 10);
    {
      const Interruptible inner([] {});
      work();
    }
    EXPECT_EQ(asked, 10);
    allocate(64);
    EXPECT_EQ(asked, 11);
  }
  work();
  EXPECT_EQ(asked, 11);
}

}  // namespace
}  // namespace fovea
