#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

#include "app/print.h"
#include "app/verbs.h"
#include "fovea/attention.h"
#include "fovea/runtime.h"

namespace fovea::app {
namespace {

using Json = nlohmann::ordered_json;

Json as_json(const std::vector<Listed>& list) {
  Json array = Json::array();
  for (const Listed& item : list) {
    array.push_back({{"name", item.name},
                     {"formula", item.formula},
                     {"parameters", item.parameters},
                     {"numbers", item.numbers},
                     {"hard", item.hard}});
  }
  return array;
}

Json everything() {
  return {{"version", version()},           {"isa", {{"found", isas()}, {"used", isa()}}},
          {"threads", threads()},           {"scores", as_json(list_scores())},
          {"masks", as_json(list_masks())}, {"weightings", as_json(list_weightings())},
          {"plans", list_plans()}};
}

void print_list(const char* title, const std::vector<Listed>& list) {
  print_out("\n{}\n", title);
  for (const Listed& item : list) {
    print_out("  {:<15} {}", item.name, item.formula);
    if (!item.numbers.empty()) print_out("   ({}:{})", item.name, fmt::join(item.numbers, ","));
    if (!item.parameters.empty()) print_out("   ({})", fmt::join(item.parameters, ", "));
    print_out("\n");
  }
}

void print_all() {
  print_out("fovea {}\n", version());
  print_out("instruction sets: {}, using {}\n", fmt::join(isas(), ", "), isa());
  print_out("threads: {}\n", threads());
  print_list("Scores", list_scores());
  print_out("  {:<15} c·tanh(e/c) with a softcap c; + bias\n", "each of them");
  print_list("Masks", list_masks());
  print_list("Weightings", list_weightings());
  print_out("\nPlans\n  {}\n", fmt::join(list_plans(), ", "));
}

}  // namespace

void add_info(CLI::App& program) {
  CLI::App* verb = program.add_subcommand("info", "What this build has and what it runs on");
  auto json = std::make_shared<bool>(false);
  verb->add_flag("--json", *json, "For programs to read");
  verb->callback([json] {
    if (*json) {
      print_out("{}\n", everything().dump(2));
    } else {
      print_all();
    }
  });
}

}  // namespace fovea::app
