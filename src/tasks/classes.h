#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace fovea::tasks {

// Throws unless two classes or more have examples to train with, by their names: a model that has
// seen one class answers with it, and is always right.
void expect_two_classes(const std::map<std::string, int64_t>& count, const std::string& call,
                        const std::string& unit, const std::string& what_to_do);

}  // namespace fovea::tasks
