#include "tasks/claim.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/errors.h"
#include "tests/io/files.h"

namespace fovea::tasks {
namespace {

namespace fs = std::filesystem;
using test::error_of;
using test::Folder;
using test::has;
using test::read_bytes;
using test::write_bytes;

const Task& translate() { return task("translate"); }

void put_run(const fs::path& run, const std::string& state) {
  fs::create_directories(run);
  write_bytes(run / "config.json", R"({"task": "translate"})");
  write_bytes(run / "log.jsonl", "{}\n");
  write_bytes(run / "state.safetensors", state);
}
std::string state_in(const fs::path& run) { return read_bytes(run / "state.safetensors"); }

std::string refused(const fs::path& run, Existing existing) {
  return error_of([&] { Claim(RunFolder(run), translate(), existing); });
}

TEST(Claim, OneAtATime) {
  const Folder folder;
  const fs::path run = folder / "run";
  {
    Claim first(RunFolder(run), translate(), Existing::refuse);
    EXPECT_TRUE(has(refused(run, Existing::refuse), "in use"));
    EXPECT_TRUE(has(refused(run, Existing::replace), "in use"));
  }
  EXPECT_FALSE(fs::exists(run));
  put_run(run, "old");
  {
    Claim first(RunFolder(run), translate(), Existing::replace);
    EXPECT_TRUE(has(refused(run, Existing::go_on), "in use"));
    first.make_room();
    EXPECT_TRUE(has(refused(run, Existing::refuse), "in use"));                // the new one …
    EXPECT_TRUE(has(refused(folder / "run.old", Existing::go_on), "in use"));  // … and the old one
  }
  EXPECT_EQ(refused(run, Existing::go_on), "no error");
}

// To begin anew would cost the model; without one, a training was killed before it had saved.
// The folders it made on the way are gone again.
TEST(Claim, AFolderThatCannotBeMadeIsSaid) {
  const Folder folder;
  write_bytes(folder / "file", "");
  const std::string found = refused(folder / "file" / "run", Existing::refuse);
  EXPECT_TRUE(has(found, "cannot make the folder " + (folder / "file" / "run").string())) << found;
  const std::string long_name(300, 'n');
  EXPECT_TRUE(has(refused(folder / "new" / long_name, Existing::refuse), "File name too long"));
  EXPECT_FALSE(fs::exists(folder / "new"));
}

TEST(Claim, ARunWithoutItsStateGoesOnOnlyWhereNothingIsLost) {
  const Folder folder;
  const fs::path run = folder / "run";
  put_run(run, "old");
  fs::remove(run / "state.safetensors");
  EXPECT_EQ(refused(run, Existing::go_on), "no error");
  write_bytes(run / "model.safetensors", "weights");
  EXPECT_TRUE(has(refused(run, Existing::go_on), "holds a model but no state.safetensors"));
  EXPECT_EQ(read_bytes(run / "log.jsonl"), "{}\n");
}

TEST(Claim, TheOldRunGoesWhenTheNewOneCanBeResumed) {
  const Folder folder;
  const fs::path run = folder / "run";
  put_run(run, "old");
  write_bytes(folder / "run.old", "taken");
  Claim claim(RunFolder(run), translate(), Existing::replace);
  claim.settle();
  EXPECT_EQ(state_in(run), "old");
  claim.make_room();
  claim.settle();
  EXPECT_EQ(state_in(folder / "run.old-2"), "old");
  EXPECT_FALSE(RunFolder(run).has_state());
  put_run(run, "new");
  write_bytes(folder / "run.old-2" / "put there meanwhile", "mine");
  claim.settle();
  EXPECT_EQ(state_in(run), "new");
  EXPECT_EQ(state_in(folder / "run.old-2"), "");
  EXPECT_EQ(read_bytes(folder / "run.old-2" / "put there meanwhile"), "mine");
}

TEST(Claim, WithoutAStateEverythingIsAsItWas) {
  const Folder folder;
  const fs::path run = folder / "run";
  put_run(run, "old");
  {
    Claim claim(RunFolder(run), translate(), Existing::replace);
    claim.make_room();
    write_bytes(run / "config.json", R"({"task": "translate"})");
    write_bytes(run / "source.vocab", "new");
  }
  EXPECT_EQ(folder.files(), 1);
  EXPECT_EQ(state_in(run), "old");
  EXPECT_FALSE(fs::exists(run / "source.vocab"));
  {
    Claim claim(RunFolder(run), translate(), Existing::go_on);
    claim.make_room();
  }
  EXPECT_EQ(state_in(run), "old");
}

// kill −9 when the old run is aside and the new one not yet there: nothing is lost, and the folder
// can be had.
TEST(Claim, AKillInBetweenCostsNothing) {
  const Folder folder;
  const fs::path run = folder / "run";
  put_run(run, "old");
  const pid_t child = ::fork();
  if (child == 0) {
    Claim claim(RunFolder(run), translate(), Existing::replace);
    claim.make_room();
    write_bytes(run / "source.vocab", "half of a beginning");
    ::_exit(0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(state_in(folder / "run.old"), "old");
  EXPECT_TRUE(has(refused(run, Existing::go_on), "run.old")) << refused(run, Existing::go_on);
  {
    Claim again(RunFolder(run), translate(), Existing::refuse);
    again.make_room();
    put_run(run, "new");
  }
  EXPECT_EQ(state_in(run), "new");
  EXPECT_EQ(state_in(folder / "run.old"), "old");
}

}  // namespace
}  // namespace fovea::tasks
