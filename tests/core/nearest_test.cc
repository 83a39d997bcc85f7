#include "core/nearest.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace fovea {
namespace {

const std::vector<std::string> kNames = {"softmax", "sparsemax", "entmax"};

TEST(NearestHint, NamesWhatWasMeant) {
  EXPECT_EQ(nearest_hint("sotfmax", kNames), "; did you mean \"softmax\"?");
  EXPECT_EQ(nearest_hint("entmx", kNames), "; did you mean \"entmax\"?");
}

TEST(NearestHint, ListsThemWhereNoneIsNear) {
  const std::string all = "; there are softmax, sparsemax, entmax";
  EXPECT_EQ(nearest_hint("nonsense", kNames), all);
  EXPECT_EQ(nearest_hint("", kNames), all);
  EXPECT_EQ(nearest_hint(std::string(1'000'000, 'x'), kNames), all);
}

TEST(NearestHint, SaysNothingOfNoNames) { EXPECT_EQ(nearest_hint("softmax", {}), ""); }

}  // namespace
}  // namespace fovea
