#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "app/program.h"
#include "fovea/io.h"

// The program that was linked with gaussian.cc, strided.cc and entmax.cc takes each by name, its
// number too, and computes it.
namespace fovea {
namespace {

using test::Folder;
using test::Ran;
using test::run_program;

constexpr int64_t kLq = 3, kLk = 5, kD = 4;

// q, k and v in a file, and the weights that the program makes of them.
class Example {
 public:
  Example() { save_safetensors(folder_ / "in.safetensors", {{"q", q}, {"k", k}, {"v", v}}); }

  Ran run(const std::vector<std::string>& choice) const {
    std::vector<std::string> words{"attend", folder_ / "in.safetensors"};
    words.insert(words.end(), choice.begin(), choice.end());
    words.insert(words.end(), {"--weights", "-o", folder_ / "out.safetensors"});
    return run_program(words);
  }
  std::vector<float> weights(const std::vector<std::string>& choice) const {
    const Ran ran = run(choice);
    EXPECT_EQ(ran.code, 0) << ran.err;
    const Tensor w = load_safetensors(folder_ / "out.safetensors").at("weights");
    EXPECT_EQ(w.shape(), (Shape{kLq, kLk}));
    return w.to_vector();
  }

  const Tensor q = Tensor::randn({kLq, kD}, 1), k = Tensor::randn({kLk, kD}, 2);
  const Tensor v = Tensor::randn({kLk, kD}, 3);

 private:
  Folder folder_;
};

TEST(OneFile, IsAScoreOfTheCommand) {
  const Example example;
  const std::vector<float> found = example.weights({"--score", "gaussian"});
  const std::vector<float> qs = example.q.to_vector(), ks = example.k.to_vector();
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

TEST(OneFile, IsAMaskWithANumber) {
  const Example example;
  const std::vector<float> found = example.weights({"--mask", "strided:2"});
  for (int64_t i = 0; i < kLq; ++i)
    for (int64_t j = 0; j < kLk; ++j)
      EXPECT_EQ(found[i * kLk + j] > 0, (i - j) % 2 == 0) << i << " " << j;
  EXPECT_NE(example.run({"--mask", "strided"}).err.find("as in \"strided:4\""), std::string::npos);
  EXPECT_NE(example.run({"--mask", "strided:0"}).err.find("a whole number of at least 1"),
            std::string::npos);
}

TEST(OneFile, IsAWeightingWithANumber) {
  const Example example;
  const std::vector<float> own = example.weights({"--weighting", "entmax15"});
  for (const char* same : {"entmax:1.5", "entmax"}) {
    const std::vector<float> found = example.weights({"--weighting", same});
    for (size_t e = 0; e < own.size(); ++e) EXPECT_NEAR(found[e], own[e], 1e-5) << same;
  }
  const std::vector<float> sparse = example.weights({"--weighting", "sparsemax"});
  const std::vector<float> found = example.weights({"--weighting", "entmax:2"});
  for (size_t e = 0; e < sparse.size(); ++e) EXPECT_NEAR(found[e], sparse[e], 1e-5);
  EXPECT_NE(example.run({"--weighting", "entmax:1"}).err.find("alpha"), std::string::npos);
}

TEST(OneFile, IsUnknownToTheProgramWithoutIt) {
  const std::string without = test::program_without();
  const int status =
      std::system((without + " attend in --score gaussian -o out 2>/dev/null").c_str());
  EXPECT_EQ(WEXITSTATUS(status), 2);
}

}  // namespace
}  // namespace fovea
