#include "tasks/classes.h"

#include <fmt/format.h>

#include "fovea/error.h"
#include "text/messages.h"

namespace fovea::tasks {

void expect_two_classes(const std::map<std::string, int64_t>& count, const std::string& call,
                        const std::string& unit, const std::string& what_to_do) {
  int64_t total = 0;
  std::string one;
  int64_t classes = 0;
  for (const auto& [name, n] : count) {
    total += n;
    if (n > 0) one = name, ++classes;
  }
  if (classes != 1) return;
  throw Error(call, fmt::format("all {} {} to train with are of one class, {}; there is nothing to "
                                "tell apart: {}",
                                total, unit, text::quoted_piece(one), what_to_do));
}

}  // namespace fovea::tasks
