#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace fovea::tasks {

// Throws where all examples to train with are of one class, by their names: a model that has seen
// one class answers with it, and is always right.
void expect_two_classes(const std::map<std::string, int64_t>& count, const std::string& call,
                        const std::string& unit, const std::string& what_to_do);

// Where each class of some data stands among those of a model; throws where one is not there.
std::vector<int64_t> places_of_classes(const std::vector<std::string>& of_data,
                                       const std::vector<std::string>& of_model,
                                       const std::string& call, const std::string& where);

// The n likeliest classes, or all of them, the likeliest first; of equals the one that comes first.
std::vector<size_t> best_first(std::span<const float> probabilities, int64_t n);

}  // namespace fovea::tasks
