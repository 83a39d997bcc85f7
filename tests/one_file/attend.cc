#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "app/program.h"
#include "fovea/io.h"

// The program that was linked with gaussian.cc takes the score by name and computes it.
namespace fovea {
namespace {

using test::Folder;
using test::Ran;
using test::run_program;

constexpr int64_t kLq = 3, kLk = 5, kD = 4;

TEST(OneFile, IsAScoreOfTheCommand) {
  const Folder folder;
  const Tensor q = Tensor::randn({kLq, kD}, 1), k = Tensor::randn({kLk, kD}, 2);
  const Tensor v = Tensor::randn({kLk, kD}, 3);
  save_safetensors(folder / "in.safetensors", {{"q", q}, {"k", k}, {"v", v}});
  const Ran ran = run_program({"attend", folder / "in.safetensors", "--score", "gaussian",
                               "--weights", "-o", folder / "out.safetensors"});
  ASSERT_EQ(ran.code, 0) << ran.err;

  const Tensor weights = load_safetensors(folder / "out.safetensors").at("weights");
  ASSERT_EQ(weights.shape(), (Shape{kLq, kLk}));
  const std::vector<float> found = weights.to_vector(), qs = q.to_vector(), ks = k.to_vector();
  for (int64_t i = 0; i < kLq; ++i) {
    std::vector<double> row(kLk);
    double total = 0;
    for (int64_t j = 0; j < kLk; ++j) {
      double squares = 0;
      for (int64_t d = 0; d < kD; ++d) squares += std::pow(qs[i * kD + d] - ks[j * kD + d], 2);
      total += row[j] = std::exp(-squares / 2);
    }
    for (int64_t j = 0; j < kLk; ++j) EXPECT_NEAR(found[i * kLk + j], row[j] / total, 1e-5);
  }
}

TEST(OneFile, IsUnknownToTheProgramWithoutIt) {
  const std::string without = test::program_without();
  const int status =
      std::system((without + " attend in --score gaussian -o out 2>/dev/null").c_str());
  EXPECT_EQ(WEXITSTATUS(status), 2);
}

}  // namespace
}  // namespace fovea
