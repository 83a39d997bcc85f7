#include "tasks/classes.h"

#include <gtest/gtest.h>

#include "tests/errors.h"

namespace fovea::tasks {
namespace {

using test::error_of;

TEST(Classes, OneIsNothingToTellApart) {
  const auto error = [](const std::map<std::string, int64_t>& count) {
    return error_of([&] { expect_two_classes(count, "task", "images", "do this"); });
  };
  EXPECT_EQ(error({{"a", 3}, {"b", 0}}),
            "[task] all 3 images to train with are of one class, 'a'; there is nothing to tell "
            "apart: do this");
  EXPECT_EQ(error({{"a", 3}, {"b", 1}}), "no error");
}

}  // namespace
}  // namespace fovea::tasks
