#include <algorithm>

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "app/program.h"
#include "fovea/attention.h"
#include "fovea/runtime.h"

namespace fovea {
namespace {

using nlohmann::json;
using test::Ran;
using test::run_program;

void expect_listed(const json& array, const std::vector<Listed>& list, size_t least) {
  EXPECT_GE(array.size(), least);
  ASSERT_EQ(array.size(), list.size());
  for (size_t i = 0; i < list.size(); ++i) {
    EXPECT_EQ(array[i]["name"], list[i].name);
    EXPECT_EQ(array[i]["formula"], list[i].formula);
    EXPECT_FALSE(list[i].formula.empty());
    EXPECT_EQ(array[i]["parameters"], json(list[i].parameters));
    EXPECT_EQ(array[i]["hard"], list[i].hard);
  }
}

TEST(Info, JsonListsEverything) {
  const Ran ran = run_program({"info", "--json"});
  ASSERT_EQ(ran.code, 0) << ran.err;
  const json info = json::parse(ran.out);
  EXPECT_EQ(info["version"], version());
  EXPECT_GE(info["threads"].get<int>(), 1);
  const int64_t floats = info["processor"]["vector_floats"];
  EXPECT_TRUE(floats >= 1 && (floats & (floats - 1)) == 0) << floats;
  int64_t before = 0;  // a farther cache is larger
  for (const json& cache : info["processor"]["caches"]) {
    EXPECT_GT(cache["bytes"].get<int64_t>(), before);
    before = cache["bytes"];
  }
  EXPECT_EQ(info["isa"]["found"], json(isas()));
  EXPECT_EQ(info["isa"]["used"], isa());
  expect_listed(info["scores"], list_scores(), 8);
  expect_listed(info["masks"], list_masks(), 6);
  expect_listed(info["weightings"], list_weightings(), 8);
  EXPECT_EQ(info["plans"], json(list_plans()));
}

TEST(Info, TextNamesEverything) {
  const Ran ran = run_program({"info"});
  ASSERT_EQ(ran.code, 0) << ran.err;
  EXPECT_NE(ran.out.find("processor: "), std::string::npos);
  for (const auto& list : {list_scores(), list_masks(), list_weightings()}) {
    for (const Listed& item : list) EXPECT_NE(ran.out.find(item.name), std::string::npos);
  }
}

TEST(Program, HelpVersionAndUsage) {
  EXPECT_EQ(run_program({}).code, 0);
  EXPECT_NE(run_program({"--help"}).out.find("Exit codes"), std::string::npos);
  EXPECT_NE(run_program({"attend", "--help"}).out.find("Examples"), std::string::npos);
  EXPECT_EQ(run_program({"--version"}).out, std::string(version()) + "\n");
  const Ran ran = run_program({"atend"});
  EXPECT_EQ(ran.code, 2);
  EXPECT_EQ(std::count(ran.err.begin(), ran.err.end(), '\n'), 1) << ran.err;
}

TEST(Program, SaysWhenItCannotPrint) {
  if (!std::filesystem::exists("/dev/full")) GTEST_SKIP();
  const int status =
      std::system((test::shell_quoted(test::program()) + " info >/dev/full 2>/dev/null").c_str());
  EXPECT_EQ(WEXITSTATUS(status), 1);
}

}  // namespace
}  // namespace fovea
