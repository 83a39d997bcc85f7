// The NCCL module, which FOVEA_MPI_MODULE names, as a team of one GPU: what a rank sends to itself
// goes through NCCL like anything else. Exits with 77 where there is no module or no GPU; without a
// GPU that is what the module must say.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sched.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "team/module.h"
#include "team/team.h"

namespace fovea::team::tests {
namespace {

const Module* opened = nullptr;
std::filesystem::path folder;

std::string join(int rank, int size) {
  const char* const failure = opened->join(&rank, &size);
  return failure != nullptr ? failure : "";
}

bool there_is_a_gpu() {
  const std::string said = join(0, 1);
  opened->leave();
  return said.empty();
}

// Its own messages go through the module too.
class ByModule : public Team {
 public:
  ByModule() : Team(0, 1) {}
  void exchange(std::span<const ConstBytes> send, std::span<const Bytes> received) override {
    move({{0, const_cast<std::byte*>(send[0].data()), send[0].size()}},
         {{0, received[0].data(), received[0].size()}});
  }
  void abort(int) noexcept override { std::terminate(); }

  static void move(const std::vector<Message>& sent, const std::vector<Message>& received) {
    ASSERT_STREQ(opened->begin(sent.data(), sent.size(), received.data(), received.size()),
                 nullptr);
    const auto began = std::chrono::steady_clock::now();
    for (bool done = false; !done; ::sched_yield()) {
      ASSERT_STREQ(opened->poll(&done), nullptr);
      ASSERT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(30));
    }
  }
};

std::string text_of(size_t size, size_t seed) {
  std::string text(size, '\0');
  for (size_t i = 0; i < size; ++i) text[i] = static_cast<char>((i * 31 + i / 251 + seed) % 251);
  return text;
}

class OnGpu : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(join(0, 1), ""); }
  void TearDown() override { opened->leave(); }
  ByModule team;
};

TEST_F(OnGpu, exchange_gather_broadcast_barrier) {
  const size_t sizes[] = {1, 3, 255, 256, 257, 4096, (1 << 20) + 1, 1 << 26, 7};
  for (const size_t size : sizes) {
    std::string sent = text_of(size, size), received(size, '\0');
    const ConstBytes from[] = {std::as_bytes(std::span(sent))};
    const Bytes to[] = {std::as_writable_bytes(std::span(received))};
    team.exchange(from, to);
    EXPECT_TRUE(sent == received) << size;
    team.barrier();
    EXPECT_TRUE(gather(team, sent) == std::vector<std::string>{sent}) << size;
    EXPECT_TRUE(broadcast(team, sent) == sent) << size;
  }
}

TEST_F(OnGpu, messages_to_one_rank_keep_their_order) {
  std::string a = text_of(1000, 1), b = text_of(1000, 2), c = text_of(77777, 3);
  std::string x(1000, ' '), y(1000, ' '), z(1000, ' '), w(77777, ' ');
  const auto message = [](std::string& text) { return Message{0, text.data(), text.size()}; };
  ByModule::move({message(a), message(b), message(b), message(c)},
                 {message(x), message(y), message(z), message(w)});
  EXPECT_TRUE(x == a && y == b && z == b && w == c);
  ByModule::move({}, {});
}

TEST_F(OnGpu, nothing_is_left_of_the_meeting) { EXPECT_TRUE(std::filesystem::is_empty(folder)); }

TEST(AloneOnGpu, who_does_not_come_is_named) {
  ::setenv("FOVEA_DEADLINE", "1.5", 1);
  ::setenv("OMPI_COMM_WORLD_LOCAL_RANK", "0", 1);
  const std::string first = join(0, 3), second = join(1, 3);
  EXPECT_TRUE(first.starts_with("rank 1, 2 left nothing beside")) << first;
  EXPECT_TRUE(second.starts_with("rank 0 has not answered in")) << second;
  EXPECT_NE(first.find("1.5 s (FOVEA_DEADLINE)"), std::string::npos) << first;
  EXPECT_TRUE(std::filesystem::is_empty(folder));
  ::setenv("OMPI_COMM_WORLD_LOCAL_RANK", "99", 1);
  const std::string many = join(1, 100);
  EXPECT_TRUE(many.starts_with("rank 1 is process 100 of its machine, which has ")) << many;
  ::unsetenv("OMPI_COMM_WORLD_LOCAL_RANK");
  ::unsetenv("FOVEA_DEADLINE");
}

TEST(Module, what_is_wrong_is_said) {
  EXPECT_TRUE(join(0, 0).starts_with("the launcher does not say how many")) << join(0, 0);
  const std::string file = std::getenv("FOVEA_NCCL_ID");
  ::unsetenv("FOVEA_NCCL_ID");
  EXPECT_TRUE(join(0, 1).starts_with("FOVEA_NCCL_ID must name a file")) << join(0, 1);
  ::setenv("FOVEA_NCCL_ID", file.c_str(), 1);
  std::ofstream(file) << "somebody's letters";
  EXPECT_NE(join(0, 1).find("is a file of another kind"), std::string::npos) << join(0, 1);
  EXPECT_TRUE(std::filesystem::remove(file));
}

TEST(Module, without_a_gpu_says_so) {
  if (there_is_a_gpu()) GTEST_SKIP() << "there is one";
  EXPECT_TRUE(join(0, 1).starts_with("rank 0 sees no GPU (")) << join(0, 1);
}

bool open_module() {
  const char* const file = std::getenv("FOVEA_MPI_MODULE");
  void* const library = file != nullptr ? dlopen(file, RTLD_NOW) : nullptr;
  if (library == nullptr) {
    std::printf("SKIPPED: no NCCL module: %s\n",
                file != nullptr ? dlerror() : "FOVEA_MPI_MODULE names none");
    return false;
  }
  const auto entry = reinterpret_cast<ModuleEntry>(dlsym(library, kModuleEntry));
  opened = entry != nullptr ? entry(kModuleVersion) : nullptr;
  if (opened != nullptr) std::printf("%s\n", opened->library);
  return opened != nullptr;
}

int run() {
  char name[] = "/tmp/fovea_nccl_XXXXXX";
  if (::mkdtemp(name) == nullptr) return 1;
  folder = name;
  ::setenv("FOVEA_NCCL_ID", (folder / "id").c_str(), 1);
  const bool gpu = there_is_a_gpu();
  if (!gpu) GTEST_FLAG_SET(filter, "Module.*");
  const int failed = RUN_ALL_TESTS();
  std::filesystem::remove_all(folder);
  if (failed == 0 && !gpu) std::printf("SKIPPED: all that needs a GPU\n");
  return failed == 0 && !gpu ? 77 : failed;
}

}  // namespace
}  // namespace fovea::team::tests

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  return fovea::team::tests::open_module() ? fovea::team::tests::run() : 77;
}
