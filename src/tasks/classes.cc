#include "tasks/classes.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

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

std::vector<int64_t> places_of_classes(const std::vector<std::string>& of_data,
                                       const std::vector<std::string>& of_model,
                                       const std::string& call, const std::string& where) {
  std::vector<int64_t> places;
  for (const std::string& name : of_data) {
    const auto found = std::find(of_model.begin(), of_model.end(), name);
    if (found == of_model.end()) {
      throw Error(call, fmt::format("{} has a class {} that was not in the training", where,
                                    text::quoted_piece(name)));
    }
    places.push_back(found - of_model.begin());
  }
  return places;
}

std::vector<size_t> best_first(std::span<const float> probabilities, int64_t n) {
  std::vector<size_t> order(probabilities.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return probabilities[a] > probabilities[b]; });
  order.resize(std::min(order.size(), static_cast<size_t>(n)));
  return order;
}

}  // namespace fovea::tasks
