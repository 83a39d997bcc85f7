#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>

#include "app/program.h"
#include "tests/tasks/small.h"

// No verb writes over what it reads, nor into a run that is there, by whatever name it is told to.
namespace fovea::test {
namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

std::string trained(const std::string& task, const std::string& run, const Words& more = {}) {
  Words command = {"train", task, "--out", run};
  for (const auto& [name, value] : tasks::small_training(tasks::task(task), 2)) {
    command.insert(command.end(), {"--" + name, value});
  }
  command.insert(command.end(), more.begin(), more.end());
  const Ran ran = run_program(command);
  EXPECT_EQ(ran.code, 0) << ran.err;
  return run;
}

class Outputs : public testing::Test {
 protected:
  void expect_refused(const Words& command, const std::string& why) const {
    const auto before = bytes_below(folder_ / ".");
    const Ran ran = run_program(command);
    const std::string what = fmt::format("{}", fmt::join(command, " "));
    EXPECT_EQ(ran.code, 2) << what << '\n' << ran.err;
    EXPECT_NE(ran.err.find(why), std::string::npos) << what << '\n' << ran.err;
    EXPECT_TRUE(bytes_below(folder_ / ".") == before) << what;
  }
  // Other names of a file: by way of a folder, a link, another entry of the same file.
  Words names_of(const std::string& file) const {
    const std::string ending = fs::path(file).extension().string();
    const Words names = {
        file, (folder_ / "sub" / "..").string() + "/" + fs::relative(file, folder_ / ".").string(),
        folder_ / ("soft" + ending), folder_ / ("hard" + ending)};
    fs::create_directories(folder_ / "sub");
    fs::remove(names[2]);
    fs::remove(names[3]);
    fs::create_symlink(file, names[2]);
    fs::create_hard_link(file, names[3]);
    return names;
  }

  const Folder folder_;
};

TEST_F(Outputs, AreNoneOfTheInputs) {
  const std::string run = trained("image", folder_ / "image");
  const std::string glimpses = trained("glimpse", folder_ / "glimpse");
  const std::string photo = folder_ / "photo.png";
  fs::copy_file(source_dir() + "/tests/image/files/rgb.png", photo);
  for (const std::string& name : names_of(photo)) {
    expect_refused({"explain", run, photo, "--picture", name}, "is an input");
    expect_refused({"predict", run, photo, "--weights", name}, "is an input");
    expect_refused({"predict", glimpses, photo + ":0", "--weights", name}, "is an input");
    write_bytes(folder_ / "list.txt", photo + "\n");
    expect_refused({"predict", run, "--file", folder_ / "list.txt", "--weights", name},
                   "is an input");
  }
  const std::string tensors = folder_ / "in.safetensors";
  ASSERT_EQ(run_program({"attend", "--words", "a cat", "-o", tensors}).code, 0);
  for (const std::string& name : names_of(tensors)) {
    expect_refused({"attend", tensors, "-o", name}, "is an input");
  }
  expect_refused({"attend", tensors, "-o", folder_ / "x.svg", "--picture", folder_ / "./x.svg"},
                 "are one file");
  EXPECT_EQ(run_program({"explain", run, photo, "--picture", folder_ / "new.png"}).code, 0);
  EXPECT_EQ(run_program({"explain", run, photo, "--picture", folder_ / "new.png"}).code, 0);
}

TEST_F(Outputs, AreNotTheDataOfARun) {
  std::string lines;
  for (int i = 0; i < 80; ++i) lines += fmt::format("{0} apples\t{0} pommes\n", i);
  const std::string data = folder_ / "pairs.json";
  write_bytes(data, lines);
  const std::string run = trained("translate", folder_ / "run", {data});
  expect_refused({"predict", run, "3 apples", "--weights", data}, "is an input");
  expect_refused({"report", run, "--out", data}, "is an input");
  expect_refused({"report", run, run, "--out", data}, "is an input");
}

TEST_F(Outputs, AreNoPartOfARun) {
  const std::string a = trained("translate", folder_ / "a"), b = trained("lm", folder_ / "b");
  for (const char* file : {"model.safetensors", "config.json", "log.jsonl", "results.json",
                           "state.safetensors", "report.html", "looks.json"}) {
    for (const std::string& name : names_of(a + "/" + file)) {
      expect_refused({"report", a, b, "--out", name}, "is part of the run");
    }
    expect_refused({"report", b, "--out", a + "/" + file}, "is part of the run");
    expect_refused({"attend", "--words", "a", "-o", a + "/" + file}, "is part of the run");
  }
  const std::string looks = a + "/looks.json", page = a + "/report.html";
  expect_refused({"predict", b, "a", "--weights", looks}, "is part of the run");
  expect_refused({"explain", b, "a", "--picture", looks}, "is part of the run");
  expect_refused({"explain", b, "a", "--picture", page}, "is part of the run");
  expect_refused({"faithful", a, "--page", page}, "is part of the run");
  fs::create_symlink(a + "/model.safetensors", folder_ / "curves.svg");
  expect_refused({"rank", b, "--svg", folder_ / "curves.svg"}, "is part of the run");
  expect_refused({"rank", "--svg", folder_ / "curves.svg"}, "is part of the run");
  expect_refused({"train", "lm", a + "/log.jsonl", "--out", a, "--force"}, "is to be replaced");
  // Its own page, and a file that is nobody's.
  EXPECT_EQ(run_program({"report", a, "--out", page}).code, 0);
  EXPECT_EQ(run_program({"report", a}).code, 0);
  EXPECT_EQ(run_program({"report", a, b, "--out", folder_ / "both.html"}).code, 0);
  EXPECT_EQ(run_program({"report", a, b, "--out", folder_ / "both.html"}).code, 0);
}

}  // namespace
}  // namespace fovea::test
