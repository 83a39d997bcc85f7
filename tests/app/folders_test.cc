#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "app/program.h"
#include "tests/errors.h"

// What the program does to folders, its own and others': nothing that was not asked for.
namespace fovea::test {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

std::vector<std::string> with(std::vector<std::string> command,
                              const std::vector<std::string>& more) {
  for (const char* option : {"--examples", "200", "--hidden", "8", "--embedding", "4",
                             "--valid-sentences", "2", "--batch-tokens", "512"}) {
    command.emplace_back(option);
  }
  command.insert(command.end(), more.begin(), more.end());
  return command;
}
std::vector<std::string> train(const std::string& run, const std::vector<std::string>& more) {
  return with({"train", "translate", "--out", run}, more);
}
std::vector<std::string> resume(const std::string& run, std::vector<std::string> more = {}) {
  more.insert(more.begin(), {"train", "translate", "--out", run, "--resume"});
  return more;
}

std::string pairs(int n = 80) {
  std::string lines;
  for (int i = 0; i < n; ++i) lines += fmt::format("{0} apples\t{0} pommes\n", i);
  return lines;
}

// Every file below a folder with its bytes.
// Refused in one line that says this, and nothing below the folder has changed.
void expect_refused(const fs::path& folder, const std::vector<std::string>& command,
                    const std::string& says, const std::string& setting = {}) {
  const auto before = bytes_below(folder);
  const Ran ran = run_program(command, setting);
  EXPECT_EQ(ran.code, 2) << ran.err;
  EXPECT_TRUE(has(ran.err, says)) << ran.err;
  EXPECT_TRUE(bytes_below(folder) == before) << says;
}

std::string short_run(const Folder& folder, const std::string& name = "run") {
  const std::string run = folder / name;
  const Ran ran = run_program(train(run, {"--steps", "4", "--validate-every", "2"}));
  EXPECT_EQ(ran.code, 0) << ran.err;
  return run;
}

Json config_of(const std::string& run) { return Json::parse(read_bytes(run + "/config.json")); }

// ---- Only a run is replaced ---------------------------------------------------------------------

TEST(Folders, WhatIsNoRunIsNeverReplaced) {
  const Folder folder;
  const std::string project = folder / "project";
  fs::create_directories(project + "/src");
  write_bytes(project + "/config.json", R"({"name": "mine", "scripts": {"start": "node ."}})");
  write_bytes(project + "/src/index.js", "of a year's work");
  expect_refused(project, train(project, {"--force", "--steps", "1"}), "not a run's");
  expect_refused(project, train(project, {"--steps", "1"}), "not a run's");
  expect_refused(project, with({"demo", "--out", project}, {"--steps", "1"}), "not a run's");
  write_bytes(project + "/config.json", R"({"task": "translate", "name": "mine"})");
  expect_refused(project, train(project, {"--force", "--steps", "1"}), "no field 'name'");
  fs::remove(project + "/config.json");
  for (const char* option : {"--force", "--seed=1"}) {
    expect_refused(project, train(project, {option, "--steps", "1"}), "an empty folder");
  }
  expect_refused(project, with({"demo", "--out", project}, {"--steps", "1"}), "an empty folder");
}

TEST(Folders, ARunWithSomethingElseInItIsNotReplaced) {
  const Folder folder;
  const std::string run = short_run(folder);
  write_bytes(run + "/notes.txt", "mine");
  expect_refused(run, train(run, {"--force", "--steps", "1"}), "notes.txt");
  expect_refused(run, with({"demo", "--out", run}, {"--steps", "1", "--force"}), "notes.txt");
  fs::remove(run + "/notes.txt");
  write_bytes(run + "/pairs.tsv", pairs());
  expect_refused(run, with({"train", "translate", run + "/pairs.tsv", "--out", run, "--force"}, {}),
                 "pairs.tsv");
  fs::remove(run + "/pairs.tsv");
  expect_refused(run, train(".", {"--force", "--steps", "1"}), "current directory",
                 "cd " + shell_quoted(run) + ";");
}

TEST(Folders, AFailureBringsTheOldRunBack) {
  const Folder folder;
  const std::string run = short_run(folder);
  const auto expect_kept = [&](const std::vector<std::string>& more, const std::string& says,
                               const std::string& setting = {}) {
    std::vector<std::string> all = {"--force"};
    all.insert(all.end(), more.begin(), more.end());
    expect_refused(folder / ".", train(run, all), says, setting);
  };
  expect_kept({folder / "typo.tsv"}, "typo.tsv");
  expect_kept({"--steps", "0", "--epochs", "0"}, "one of them ends the run");
  expect_kept({"--watch", "bleu", "--valid-sentences", "0"}, "--valid-sentences");
  expect_kept({"--longest", "1"}, "--longest");
  // The first state cannot be saved: nothing of the new run could be resumed.
  expect_kept({"--steps", "2"}, "File too large", "trap '' XFSZ; ulimit -f 4;");
  EXPECT_EQ(run_program(resume(run)).code, 0);
}

TEST(Folders, AReplacedRunLeavesNothingBehind) {
  const Folder folder;
  const std::string run = short_run(folder);
  write_bytes(run + "/.state.safetensors.1.0.tmp", "of a kill");
  fs::create_directory_symlink(run, folder / "link");
  for (const std::string& name : {run, run + "/", (folder / "link").string()}) {
    const Ran ran = run_program(train(name, {"--force", "--steps", "2"}));
    ASSERT_EQ(ran.code, 0) << ran.err;
    EXPECT_EQ(Json::parse(read_bytes(run + "/results.json"))["steps"], 2);
    EXPECT_TRUE(fs::is_symlink(folder / "link"));
    EXPECT_EQ(folder.files(), 2);  // the run and the link
    EXPECT_FALSE(fs::exists(run + "/.state.safetensors.1.0.tmp"));
  }
}

TEST(Folders, ReproduceTakesAFolderOfItsOwn) {
  const Folder folder;
  const std::string run = short_run(folder);
  write_bytes(folder / "pairs.tsv", pairs());
  const auto command = [&](const std::string& out) {
    return std::vector<std::string>{"reproduce", "bahdanau2015", "--out",  out,
                                    "--effort",  "0.1",          "--data", folder / "pairs.tsv"};
  };
  expect_refused(run, command(run), "not of a reproduction");
  fs::create_directory(folder / "site");
  write_bytes(folder / "site" / "report.html", "another's");
  expect_refused(folder / "site", command(folder / "site"), "report.html");
  write_bytes(folder / "site" / "results.json", "{}");
  expect_refused(folder / "site", command(folder / "site"), "results.json");
}

// ---- The lock comes first -----------------------------------------------------------------------

// As another process that trains there.
class InUse {
 public:
  explicit InUse(const std::string& run)
      : file_(::open((run + "/log.jsonl").c_str(), O_RDWR | O_CLOEXEC)) {
    EXPECT_EQ(::flock(file_, LOCK_EX | LOCK_NB), 0);
  }
  ~InUse() { ::close(file_); }
  InUse(const InUse&) = delete;
  InUse& operator=(const InUse&) = delete;

 private:
  int file_;
};

TEST(Folders, OfARunInUseNothingChanges) {
  const Folder folder;
  const std::string run = short_run(folder);
  {
    const InUse other(run);
    expect_refused(folder / ".", resume(run), "in use");
    expect_refused(folder / ".", resume(run, {"--steps", "9"}), "in use");
    expect_refused(folder / ".", train(run, {"--force", "--seed", "2"}), "in use");
    expect_refused(folder / ".", with({"demo", "--out", run}, {"--steps", "1", "--force"}),
                   "in use");
  }
  // Begun by another, with nothing but its lock there yet.
  fs::create_directory(folder / "new");
  write_bytes(folder / "new" / "log.jsonl", "");
  const InUse other(folder / "new");
  expect_refused(folder / ".", train(folder / "new", {"--steps", "1"}), "in use");
}

TEST(Folders, RefusedSettingsDoNotStay) {
  const Folder folder;
  const std::string run = short_run(folder);
  expect_refused(run, resume(run, {"--steps", "0", "--epochs", "0"}), "one of them ends the run");
  expect_refused(run, resume(run, {"--steps", "3"}), "--steps 3: the run has done 4 already");
  expect_refused(run, resume(run, {"--hidden", "9"}), "--hidden");
  EXPECT_EQ(config_of(run)["steps"], 4);
  EXPECT_EQ(run_program(resume(run)).code, 0);
  const Ran more = run_program(resume(run, {"--steps", "6"}));
  EXPECT_EQ(more.code, 0) << more.err;
  EXPECT_EQ(config_of(run)["steps"], 6);
  // What is damaged is found before anything changes.
  const std::string state = run + "/state.safetensors";
  write_bytes(state, read_bytes(state).substr(0, 2000));
  expect_refused(run, resume(run, {"--steps", "8"}), "state.safetensors");
}

TEST(Folders, ANewRunThatFailsLeavesNothing) {
  const Folder folder;
  const std::string run = folder / "deep/er/run";
  expect_refused(folder / ".", train(run, {"--steps", "0", "--epochs", "0"}), "ends the run");
  expect_refused(folder / ".", train(run, {folder / "typo.tsv"}), "typo.tsv");
  expect_refused(folder / ".", train(run, {"--steps", "2"}), "File too large",
                 "trap '' XFSZ; ulimit -f 4;");
  EXPECT_EQ(run_program(train(run, {"--steps", "2"})).code, 0);
}

TEST(Folders, AStateWithoutSettingsIsRefused) {
  const Folder folder;
  const std::string run = short_run(folder);
  fs::rename(run + "/config.json", folder / "config.json");
  for (const char* option : {"--force", "--seed=1"}) {
    expect_refused(run, train(run, {"--steps", "5", option}), "put that back to go on");
  }
  expect_refused(run, resume(run), "holds no run");
  fs::rename(folder / "config.json", run + "/config.json");
  EXPECT_EQ(run_program(resume(run)).code, 0);
}

// Which the command that is printed says so that it is no option.
TEST(Folders, ANameMayBeginWithADash) {
  const Folder folder;
  const std::string here = "cd " + shell_quoted(folder / ".") + ";";
  const Ran ran = run_program(train("-run", {"--steps", "2"}), here);
  ASSERT_EQ(ran.code, 0) << ran.err;
  const std::string start = "Try     fovea ";
  const size_t at = ran.out.find(start) + start.size();
  const std::string line = ran.out.substr(at, ran.out.find('\n', at) - at);
  const std::string command = here + shell_quoted(program()) + ' ' + line + " >/dev/null";
  EXPECT_EQ(std::system(command.c_str()), 0) << line;
}

TEST(Folders, WhereNoFolderCanBeIsSaid) {
  const Folder folder;
  write_bytes(folder / "file", "mine");
  const std::string too_long(300, 'x');
  for (const std::string& out : {(folder / "file").string(), (folder / "file/run").string(),
                                 (folder / too_long).string(), std::string("/proc/none/run")}) {
    expect_refused(folder / ".", train(out, {"--steps", "1"}), "fovea train: ");
    expect_refused(folder / ".", with({"demo", "--out", out}, {"--steps", "1"}), "fovea demo: ");
  }
  const std::string from_deleted =
      fmt::format("cd {} && mkdir gone && cd gone && rmdir ../gone;", shell_quoted(folder / "."));
  expect_refused(folder / ".", train("run", {"--steps", "1"}),
                 "cannot make the folder run: No such", from_deleted);
  fs::create_symlink(folder / "nowhere/at/all", folder / "link");
  const Ran ran = run_program(train(folder / "link", {"--steps", "1"}));
  EXPECT_EQ(ran.code, 2) << ran.err;
}

// ---- What is said is what is done ---------------------------------------------------------------

// A run on the user's own pairs.
std::vector<std::string> train_pairs(const std::string& data, const std::string& run,
                                     const std::vector<std::string>& more = {}) {
  return with({"train", "translate", data, "--out", run, "--steps", "4"}, more);
}

TEST(Settings, AreReadFromTheFileThatIsNamed) {
  const Folder folder;
  const std::string run = short_run(folder);
  Json config = config_of(run);
  config["hidden"] = 5;
  write_bytes(folder / "mine.json", config.dump());
  const auto repeat = [&](const std::string& from, const std::string& out) {
    return run_program({"train", "translate", "--config", from, "--out", out});
  };
  const Ran ran = repeat(folder / "mine.json", folder / "again");
  ASSERT_EQ(ran.code, 0) << ran.err;
  EXPECT_EQ(config_of(folder / "again")["hidden"], 5);
  EXPECT_EQ(repeat(run, folder / "same").code, 0);
  EXPECT_EQ(repeat(run + "/config.json", folder / "same too").code, 0);
  EXPECT_EQ(config_of(folder / "same"), config_of(run));
  EXPECT_EQ(config_of(folder / "same too"), config_of(run));
  EXPECT_TRUE(has(repeat(folder / "none.json", folder / "x").err, "none.json: No such file"));
}

TEST(Settings, OfARunMakeANewOneOfOtherData) {
  const Folder folder;
  write_bytes(folder / "a.tsv", pairs(80));
  write_bytes(folder / "b.tsv", pairs(90));
  const std::string run = folder / "run";
  ASSERT_EQ(run_program(train_pairs(folder / "a.tsv", run)).code, 0);
  const auto with_config = [&](const std::string& out, const std::vector<std::string>& more) {
    std::vector<std::string> all = {"train", "translate", "--config", run, "--out", folder / out};
    all.insert(all.end(), more.begin(), more.end());
    return run_program(all);
  };
  EXPECT_EQ(with_config("other", {folder / "b.tsv"}).code, 0);
  EXPECT_EQ(with_config("seed", {"--seed", "9"}).code, 0);
  EXPECT_NE(config_of(folder / "other")["fingerprint"], config_of(run)["fingerprint"]);
  // Nothing but the run itself was asked for, and that cannot be had.
  write_bytes(folder / "a.tsv", pairs(81));
  const Ran changed = with_config("again", {});
  EXPECT_EQ(changed.code, 2);
  EXPECT_TRUE(has(changed.err, "the data changed")) << changed.err;
  EXPECT_FALSE(fs::exists(folder / "again"));
  EXPECT_EQ(with_config("anew", {folder / "a.tsv"}).code, 0);
}

TEST(Settings, ThatChangedUnderwayAreSaid) {
  const Folder folder;
  const std::string run = short_run(folder);
  ASSERT_EQ(run_program(resume(run, {"--steps", "6"})).code, 0);
  ASSERT_EQ(run_program(resume(run, {"--steps", "6"})).code, 0);  // changes nothing
  ASSERT_EQ(run_program(resume(run, {"--steps", "7", "--epochs", "9"})).code, 0);
  const std::string limits = config_of(run).value("former-limits", "");
  EXPECT_EQ(limits, "4 steps until step 4; 6 steps until step 6");
  const Ran again = run_program({"train", "translate", "--config", run, "--out", folder / "again"});
  EXPECT_EQ(again.code, 0) << again.err;
  EXPECT_TRUE(has(again.err, limits)) << again.err;
  EXPECT_EQ(config_of(folder / "again")["former-limits"], "");
  const Ran third =
      run_program({"train", "translate", "--config", folder / "again", "--out", folder / "third"});
  EXPECT_FALSE(has(third.err, "limits")) << third.err;
}

TEST(Data, AreFoundFromAnywhere) {
  const Folder folder;
  fs::create_directories(folder / "there");
  write_bytes(folder / "pairs.tsv", pairs());
  const std::string here = "cd " + shell_quoted(folder / ".") + ";",
                    there = "cd " + shell_quoted(folder / "there") + ";";
  const Ran trained = run_program(train_pairs("./pairs.tsv", "run", {"--steps", "40"}), here);
  ASSERT_EQ(trained.code, 0) << trained.err;
  const std::string page = read_bytes(folder / "run" / "report.html");
  const Ran scored = run_program({"eval", "../run"}, there);
  EXPECT_EQ(scored.code, 0) << scored.err;
  EXPECT_EQ(scored.err, run_program({"eval", "run"}, here).err);
  EXPECT_EQ(run_program({"report", "../run"}, there).code, 0);
  EXPECT_EQ(read_bytes(folder / "run" / "report.html"), page);
  fs::rename(folder / "run", folder / "there" / "moved");
  EXPECT_EQ(run_program({"eval", "moved"}, there).code, 0);
  EXPECT_EQ(run_program(resume("moved", {"--steps", "45"}), there).code, 0);
}

TEST(Data, ThatChangedAreSaid) {
  const Folder folder;
  write_bytes(folder / "pairs.tsv", pairs());
  const std::string run = folder / "run";
  ASSERT_EQ(run_program(train_pairs(folder / "pairs.tsv", run)).code, 0);
  const std::string says = "the data changed since the training";
  EXPECT_FALSE(has(run_program({"eval", run}).err, says));
  EXPECT_FALSE(has(run_program({"report", run}).err, says));
  const std::vector<std::string> measured = {"faithful", run, "--inputs", "1", "--steps", "1"};
  EXPECT_FALSE(has(run_program(measured).err, says));
  write_bytes(folder / "pairs.tsv", pairs(81));
  const Ran faithful = run_program(measured);
  EXPECT_EQ(faithful.code, 0);
  EXPECT_TRUE(has(faithful.err, says)) << faithful.err;
  const Ran scored = run_program({"eval", run});
  EXPECT_EQ(scored.code, 0);
  EXPECT_TRUE(has(scored.err, says)) << scored.err;
  EXPECT_FALSE(has(run_program({"eval", run, folder / "pairs.tsv"}).err, says));
  const Ran shown = run_program({"report", run});
  EXPECT_EQ(shown.code, 0);
  EXPECT_TRUE(has(shown.err, says)) << shown.err;
  EXPECT_TRUE(has(read_bytes(run + "/report.html"), says));
}

}  // namespace
}  // namespace fovea::test
