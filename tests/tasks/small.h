#pragma once

#include <set>
#include <string>

#include "tasks/config.h"
#include "tasks/task.h"

namespace fovea::tasks {

// Sizes for steps of milliseconds, where a task has settings of these names.
inline const Given kSmallSizes = {
    {"examples", "100"},      {"hidden", "8"},        {"embedding", "6"},    {"features", "8"},
    {"parts", "6"},           {"locator", "4"},       {"glimpses", "3"},     {"grid", "2"},
    {"clutter", "2"},         {"blocks", "1"},        {"heads", "2"},        {"head-depth", "4"},
    {"query-depth", "8"},     {"context", "16"},      {"height", "16"},      {"longest", "12"},
    {"batch-tokens", "150"},  {"batch-words", "300"}, {"batch-images", "8"}, {"valid-images", "3"},
    {"valid-sentences", "3"},
};

// The names of settings that are numbers.
class Numbers final : public Fields {
 public:
  std::set<std::string> names;
  void group(const std::string&) override {}
  void integer(const std::string& name, int64_t&, const std::string&, Range) override {
    names.insert(name);
  }
  void real(const std::string& name, double&, const std::string&, Range) override {
    names.insert(name);
  }
  void text(const std::string&, std::string&, const std::string&) override {}
  void flag(const std::string&, bool&, const std::string&) override {}
  void choice(const std::string&, std::string&, const std::string&,
              const std::vector<std::string>&) override {}
};

// Of any task: those of the sizes that it has, and so many steps with a validation after each.
inline Given small_training(const Task& task, int64_t steps) {
  Numbers numbers;
  task.config()->visit(numbers);
  Given typed = {{"steps", std::to_string(steps)}, {"validate-every", "1"}};
  for (const auto& [name, value] : kSmallSizes) {
    if (numbers.names.contains(name)) typed[name] = value;
  }
  return typed;
}

}  // namespace fovea::tasks
