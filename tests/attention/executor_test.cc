#include "attention/expect.h"
#include "tests/core/own_executor.h"
#include "tests/on_device.h"

// An embedding program's threads give what the library's own give.
namespace fovea::tests {
namespace {

TEST(Executor, OfAProgramGivesTheSameBits) {
  const Sizes n{.B = 2, .H = 4, .Hk = 2, .Lq = 150, .Lk = 170, .Dq = 16, .Dk = 16, .Dv = 16};
  for (const std::string& score : families()) {
    const Call x = call(n, {score_for(score, n), masks::causal(), {.dropout = 0.2f, .seed = 3}});
    const Results expected = results(x);
    const OwnExecutor executor(3);
    expect_same_bits(results(x), expected, score);
    if (test::on_gpu()) continue;  // which has little left for threads
    EXPECT_GT(executor.runs, 2) << score;
  }
}

}  // namespace
}  // namespace fovea::tests
