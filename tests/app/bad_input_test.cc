// Bad input: exit code 2, one line on stderr, no output file left behind.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "app/program.h"
#include "fovea/io.h"

namespace fovea {
namespace {

using test::Folder;
using test::Ran;
using test::run_program;

Tensors good() {
  return {{"q", Tensor::randn({2, 5, 6}, 1)},
          {"k", Tensor::randn({2, 7, 6}, 2)},
          {"v", Tensor::randn({2, 7, 3}, 3)}};
}

struct Case {
  std::string name;
  std::vector<std::string> options;
  std::string says;
  std::function<void(Tensors&)> spoil = [](Tensors&) {};
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

std::function<void(Tensors&)> put(const std::string& name, const Tensor& tensor) {
  return [=](Tensors& t) { t[name] = tensor; };
}
std::function<void(Tensors&)> drop(const std::string& name) {
  return [=](Tensors& t) { t.erase(name); };
}

std::vector<Case> cases() {
  return {
      {"WidthsDisagree", {}, "48", put("k", Tensor::zeros({2, 7, 48}))},
      {"LengthsDisagree", {}, "8", put("v", Tensor::zeros({2, 8, 3}))},
      {"BatchesDisagree", {}, "3", put("k", Tensor::zeros({3, 7, 6}))},
      {"RanksDisagree", {}, "", put("k", Tensor::zeros({7, 6}))},
      {"RankOne", {}, "", put("q", Tensor::zeros({6}))},
      {"RankFive", {}, "", put("q", Tensor::zeros({1, 1, 2, 5, 6}))},
      {"QueriesAreIntegers", {}, "q", put("q", Tensor::zeros({2, 5, 6}, DType::i64))},
      {"NoKeys", {}, "needs a tensor k", drop("k")},
      {"MissingParameter", {"--score", "multiplicative"}, "w"},
      {"MissingAdditiveParameters", {"--score", "additive"}, "w_q"},
      {"ParameterOfTheWrongShape",
       {"--score", "multiplicative"},
       "[6, 5]",
       put("w", Tensor::zeros({6, 5}))},
      {"ParameterOfTheWrongType",
       {"--score", "multiplicative"},
       "w",
       put("w", Tensor::zeros({6, 6}, DType::i64))},
      {"UnknownScore", {"--score", "additve"}, "did you mean \"additive\""},
      {"UnknownMask", {"--mask", "casual"}, "did you mean \"causal\""},
      {"UnknownMaskInASum", {"--mask", "causal+windw:3"}, "did you mean \"window\""},
      {"UnknownWeighting", {"--weighting", "sotfmax"}, "did you mean \"softmax\""},
      {"UnknownPlan", {"--plan", "fussed"}, "there are automatic"},
      {"EmptyMaskTerm", {"--mask", "causal+"}, "mask"},
      {"WindowWithoutAWidth", {"--mask", "window"}, "width"},
      {"WindowOfNegativeWidth", {"--mask", "window:-1"}, "width"},
      {"WindowOfWords", {"--mask", "window:wide"}, "width"},
      {"MaskAbsent", {"--mask", "matrix"}, "needs a tensor mask"},
      {"MaskDoesNotBroadcast", {"--mask", "matrix"}, "[4]", put("mask", Tensor::zeros({4}))},
      {"BiasDoesNotBroadcast", {}, "[4]", put("bias", Tensor::zeros({4}))},
      {"LengthsAbsent", {"--mask", "lengths"}, "lengths"},
      {"LengthsOfAnotherBatch",
       {"--mask", "lengths"},
       "[3]",
       put("lengths", Tensor::zeros({3}, DType::i64))},
      {"GradientAbsent", {"--grad"}, "needs a tensor d_context"},
      {"GradientOfTheWrongShape",
       {"--grad"},
       "[2, 5, 4]",
       put("d_context", Tensor::zeros({2, 5, 4}))},
      {"TemperatureZero", {"--temperature", "0"}, "--temperature"},
      {"TemperatureNan", {"--temperature", "nan"}, "--temperature"},
      {"SoftcapZero", {"--softcap", "0"}, "--softcap"},
      {"WindowOfOneSide", {"--mask", "window:3,"}, "window:3,"},
      {"ScaleInfinite", {"--scale", "inf"}, "--scale"},
      {"DropoutOne", {"--dropout", "1"}, "--dropout"},
      {"ThreadsNegative", {"--threads", "-2"}, "--threads"},
      {"TopNegative", {"--top", "-1"}, "--top"},
      {"TopBeyondTheKeys", {"--top", "100"}, "--top must be at most 7"},
      {"SeedNegative", {"--seed", "-1"}, "--seed"},
      {"SeedEmpty", {"--seed", ""}, "--seed must be an integer"},
      {"SeedTooLarge", {"--seed", "99999999999999999999"}, "--seed must be an integer"},
      {"TopEmpty", {"--top", ""}, "--top must be an integer"},
      {"SinkEmpty", {"--sink", ""}, "--sink must be a number"},
      {"DropoutEmpty", {"--dropout", ""}, "--dropout must be a number"},
      {"MaskEmpty", {"--mask", ""}, "--mask"},
      {"ScoreEmpty", {"--score", ""}, "--score"},
      {"ThreadsTooMany", {"--threads", "5000"}, "--threads must be in [0, 4096], found 5000"},
      {"ManyVectorsWithoutNumbers",
       {},
       "1e+18 pairs of vectors without numbers",
       [](Tensors& t) {
         for (const char* name : {"q", "k", "v"}) t[name] = Tensor::zeros({1, 1, 1000000000, 0});
       }},
      {"ScaleNoNumber", {"--scale", "much"}, "--scale"},
      {"UnknownOption", {"--scroe", "dot"}, "--scroe"},
  };
}

// The input's folder holds the input alone afterwards.
void expect_rejected(const Ran& ran, const std::string& says) {
  EXPECT_EQ(ran.code, 2) << ran.err;
  EXPECT_EQ(ran.out, "");
  EXPECT_TRUE(ran.err.starts_with("fovea attend: ")) << ran.err;
  EXPECT_EQ(std::count(ran.err.begin(), ran.err.end(), '\n'), 1) << ran.err;
  EXPECT_TRUE(ran.err.ends_with('\n'));
  EXPECT_NE(ran.err.find(says), std::string::npos) << ran.err;
}

class BadInput : public testing::TestWithParam<Case> {};

TEST_P(BadInput, IsExplainedInOneLine) {
  const Folder folder;
  Tensors in = good();
  GetParam().spoil(in);
  save_safetensors(folder / "in", in);
  std::vector<std::string> arguments = {"attend", folder / "in"};
  arguments.insert(arguments.end(), GetParam().options.begin(), GetParam().options.end());
  arguments.insert(arguments.end(), {"-o", folder / "out"});
  expect_rejected(run_program(arguments), GetParam().says);
  EXPECT_EQ(folder.files(), 1);
}

INSTANTIATE_TEST_SUITE_P(Attend, BadInput, testing::ValuesIn(cases()),
                         [](const auto& bad) { return bad.param.name; });

// What a file calls its tensors steers no terminal.
TEST(BadFile, NamesOfTensorsAreShownWithoutControls) {
  const Folder folder;
  Tensors in = good();
  in["d_context"] = Tensor::zeros({2, 5, 3});
  in["x\x1b]0;mine\x07\n\xc2\x9b"] = Tensor::zeros({1});
  save_safetensors(folder / "in", in);
  in.erase("k");
  save_safetensors(folder / "without", in);
  const std::vector<std::vector<std::string>> commands = {
      {"attend", folder / "in", "--grad"},
      {"attend", folder / "in", "-o", folder / "out"},
      {"attend", folder / "in", "--grad", "-o", folder / "out"},
      {"attend", folder / "without"}};
  for (const auto& command : commands) {
    const Ran ran = run_program(command);
    const std::string all = ran.out + ran.err;
    EXPECT_NE(all.find("]0;mine"), std::string::npos) << all;
    EXPECT_EQ(all.find_first_of("\x1b\x07"), std::string::npos) << all;
    EXPECT_EQ(all.find("\xc2\x9b"), std::string::npos) << all;
  }
}

TEST(BadFile, Corrupt) {
  const Folder folder;
  save_safetensors(folder / "good", good());
  const std::string bytes = test::read_bytes(folder / "good");
  const std::vector<std::string> spoilt = {"", "not a tensor file at all",
                                           bytes.substr(0, bytes.size() - 2), bytes + "x",
                                           test::file_of("{\"a\nb\":1}")};
  for (const std::string& text : spoilt) {
    test::write_bytes(folder / "in", text);
    expect_rejected(run_program({"attend", folder / "in", "-o", folder / "out"}), "in: ");
    EXPECT_EQ(folder.files(), 2);
  }
}

TEST(BadFile, AbsentOrNoFile) {
  const Folder folder;
  expect_rejected(run_program({"attend", folder / "in", "-o", folder / "out"}), "No such file");
  expect_rejected(run_program({"attend", folder / ".", "-o", folder / "out"}), "is a folder");
  expect_rejected(run_program({"attend"}), "IN");
  EXPECT_EQ(folder.files(), 0);
}

TEST(BadFile, UnwritableOutput) {
  const Folder folder;
  save_safetensors(folder / "in", good());
  expect_rejected(run_program({"attend", folder / "in", "-o", folder / "absent/out"}),
                  "there is no folder");
  expect_rejected(run_program({"attend", folder / "in", "-o", folder / "."}), "no regular file");
  expect_rejected(run_program({"attend", folder / "in", "-o", "/dev/null"}), "no regular file");
  EXPECT_EQ(folder.files(), 1);
}

TEST(BadFile, AnOldOutputSurvivesAFailure) {
  const Folder folder;
  save_safetensors(folder / "in", good());
  test::write_bytes(folder / "out", "old");
  expect_rejected(
      run_program({"attend", folder / "in", "--score", "nothing", "-o", folder / "out"}), "score");
  EXPECT_EQ(test::read_bytes(folder / "out"), "old");
}

}  // namespace
}  // namespace fovea
