#include "train/streamed.h"

#include <gtest/gtest.h>

#include "fovea/io.h"
#include "tests/io/files.h"
#include "tests/team/threads.h"

namespace fovea::train {
namespace {

using team::Team;
using team::tests::Threads;
using team::tests::told;

Tensors of_all_kinds() {
  return {{"b", Tensor::randn({3, 5}, 1)},
          {"a", Tensor::randn({40, 7}, 2).transpose(0, 1)},
          {"none", Tensor::empty({0, 4})},
          {"step", Tensor::from_ids(std::vector<int64_t>{17}, {})}};
}

TEST(Streamed, gives_the_bytes_of_a_file_that_is_saved_at_once) {
  const test::Folder folder;
  const Tensors all = of_all_kinds();
  const Metadata metadata{{"step", "3"}};
  save_safetensors(folder / "at once", all, metadata);
  const std::string expected = test::read_bytes(folder / "at once");
  for (const int ranks : {1, 3}) {
    std::filesystem::remove(folder / "streamed");
    Threads threads(ranks);
    const auto thrown = threads.run([&](Team& team) {
      std::vector<std::string> fetched;
      StreamedTensors streamed;
      for (const auto& [name, tensor] : all) {
        streamed[name] = {tensor, [&fetched, &team, name = name, t = tensor] {
                            fetched.push_back(name);
                            team.barrier();  // all are here
                            return team.is_first() ? t : Tensor();
                          }};
      }
      save_streamed(team, folder / "streamed", streamed, metadata);
      EXPECT_EQ(fetched, (std::vector<std::string>{"step", "a", "b", "none"}));
    });
    for (const auto& one : thrown) EXPECT_EQ(told(one), "");
    EXPECT_EQ(test::read_bytes(folder / "streamed"), expected) << ranks;
  }
}

TEST(Streamed, fails_on_all_and_leaves_nothing_where_the_first_cannot_write) {
  const test::Folder folder;
  Threads threads(3);
  const auto nowhere = threads.run([&](Team& team) {
    save_streamed(team, folder / "no folder/state", as_they_are(of_all_kinds()), {});
  });
  EXPECT_NE(told(nowhere[0]).find("cannot create"), std::string::npos) << told(nowhere[0]);
  EXPECT_EQ(told(nowhere[1]), "Elsewhere 2");
  EXPECT_EQ(told(nowhere[2]), "Elsewhere 2");

  const auto other = threads.run([&](Team& team) {
    StreamedTensors tensors = as_they_are(of_all_kinds());
    tensors["a"].fetch = [] { return Tensor::empty({2}); };
    save_streamed(team, folder / "state", tensors, {});
  });
  EXPECT_NE(told(other[0]).find("tensor 'a' must be"), std::string::npos) << told(other[0]);
  EXPECT_EQ(told(other[1]), "Elsewhere 2");
  EXPECT_EQ(folder.files(), 0);
}

}  // namespace
}  // namespace fovea::train
