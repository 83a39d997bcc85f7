#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <string>
#include <vector>

#include "case.h"
#include "fovea/error.h"
#include "kernels/open.h"

namespace fovea::test {
namespace {

TEST(GpuMemory, CopiesAndReuses) {
  const cuda::Module& gpu = cuda::open_module();
  const int64_t before = gpu.memory().in_use;
  std::vector<int> there(1000), back(1000);
  std::iota(there.begin(), there.end(), 5);
  void* const block = gpu.allocate(4000);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(block) % 256, 0u);
  EXPECT_GE(gpu.memory().in_use, before + 4000);
  gpu.upload(block, there.data(), 4000);
  gpu.download(back.data(), block, 4000);
  EXPECT_EQ(there, back);
  gpu.give_back(block);
  EXPECT_EQ(gpu.memory().in_use, before);
  void* const again = gpu.allocate(4000);
  EXPECT_EQ(again, block);
  gpu.give_back(again);
  EXPECT_THROW(gpu.give_back(again), Error);
  gpu.release();
  EXPECT_EQ(gpu.memory().reserved, before);
}

TEST(GpuMemory, TooMuchIsRefused) {
  const cuda::Module& gpu = cuda::open_module();
  try {
    gpu.allocate(size_t{1} << 45);
    FAIL();
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("refused"), std::string::npos) << e.what();
  }
  void* const block = gpu.allocate(16);  // and nothing is broken
  gpu.give_back(block);
}

TEST(GpuMemory, OfACallIsLinear) {
  const cuda::Module& gpu = cuda::open_module();
  const Case small{.Lq = 300, .Lk = 300, .A = 16, .Dv = 16};
  const int64_t before = gpu.memory().in_use;
  by_gpu(Numbers(small), "long");
  EXPECT_EQ(gpu.memory().in_use, before);
  gpu.reset_peak();
  Case large = small;
  large.Lq = large.Lk = 20000;  // 1.6 GB of scores
  by_gpu(Numbers(large), "long");
  EXPECT_LT(gpu.memory().peak - before, int64_t{160} << 20);
  gpu.release();
}

// These two need no GPU.
TEST(ModuleFile, IsSaidWhereItIsMissing) {
  try {
    cuda::open_module("/nowhere/libfovea_cuda.so");
    FAIL();
  } catch (const Error& e) {
    const std::string what = e.what();
    EXPECT_NE(what.find("/nowhere/libfovea_cuda.so"), std::string::npos) << what;
    EXPECT_NE(what.find("./dev cuda"), std::string::npos) << what;
  }
}
TEST(ModuleFile, HasAVersion) {
  const char* file = std::getenv("FOVEA_CUDA_MODULE");
  if (file == nullptr) GTEST_SKIP() << "FOVEA_CUDA_MODULE names no file";
  EXPECT_EQ(cuda::open_module(file).version, cuda::kModuleVersion);
  void* const library = dlopen(file, RTLD_NOW);
  ASSERT_NE(library, nullptr);
  const auto entry = reinterpret_cast<cuda::ModuleEntry>(dlsym(library, cuda::kModuleEntry));
  ASSERT_NE(entry, nullptr);
  EXPECT_EQ(entry(cuda::kModuleVersion + 1), nullptr);
}

}  // namespace
}  // namespace fovea::test

// Where there is no GPU, the formulas are held against the CPU's kernels, and little else.
int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  try {
    std::printf("on %s\n", fovea::cuda::open_module().device_name());
  } catch (const fovea::Error& e) {
    std::printf("without a GPU: %s\n", e.what());
    testing::GTEST_FLAG(filter) = "*Oracle*:ModuleFile*";
  }
  return RUN_ALL_TESTS();
}
