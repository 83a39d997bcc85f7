#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

#include "app/options.h"
#include "app/print.h"
#include "app/verbs.h"
#include "core/processor.h"
#include "fovea/attention.h"
#include "fovea/device.h"
#include "fovea/runtime.h"
#include "kernels/width.h"
#include "report/label.h"
#include "tasks/opened/opened.h"
#include "tasks/run_folder.h"

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

Json as_json(const Processor& p) {
  Json caches = Json::array();
  for (const Cache& c : p.caches) caches.push_back({{"level", c.level}, {"bytes", c.bytes}});
  return {{"name", p.name},
          {"caches", caches},
          {"vector_floats", kernels::vector_floats()},
          {"arithmetic", p.arithmetic}};
}

Json everything() {
  return {{"version", version()},
          {"processor", as_json(processor())},
          {"isa", {{"found", isas()}, {"used", isa()}}},
          {"threads", threads()},
          {"scores", as_json(list_scores())},
          {"masks", as_json(list_masks())},
          {"weightings", as_json(list_weightings())},
          {"plans", list_plans()},
          {"devices", {{"cpu", describe(Device::cpu)}, {"cuda", describe(Device::cuda)}}}};
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

void print_processor(const Processor& p) {
  std::string text = p.name.empty() ? "of no name" : p.name;
  text += fmt::format("; {} floats a vector", kernels::vector_floats());
  for (const Cache& c : p.caches) {
    const bool large = c.bytes >= 1 << 20;
    text +=
        fmt::format(", L{} {} {}", c.level, c.bytes >> (large ? 20 : 10), large ? "MiB" : "KiB");
  }
  if (!p.arithmetic.empty()) text += fmt::format("; has {}", fmt::join(p.arithmetic, ", "));
  print_out("processor: {}\n", text);
}

void print_all() {
  print_out("fovea {}\n", version());
  print_processor(processor());
  print_out("instruction sets: {}, using {}\n", fmt::join(isas(), ", "), isa());
  print_out("threads: {}\n", threads());
  print_out("GPU: {}\n", describe(Device::cuda));
  print_list("Scores", list_scores());
  print_out("  {:<15} c·tanh(e/c) with a softcap c; + bias\n", "each of them");
  print_list("Masks", list_masks());
  print_list("Weightings", list_weightings());
  print_out("\nPlans\n  {}\n", fmt::join(list_plans(), ", "));
}

// Of a run of ours too, in fewer lines.
void print_model(const std::string& folder, bool as_json_text) {
  const tasks::RunFolder run(folder);
  std::vector<std::pair<std::string, std::string>> lines;
  if (run.is_checkpoint()) {
    lines = tasks::described(folder);
  } else {
    const tasks::Task& task = run.task();
    const auto config = run.config();
    lines = {{"task", task.name},
             {"model", config->model()},
             {"attention", config->attention()},
             {"data", config->data_name()}};
  }
  if (as_json_text) {
    Json j = Json::object();
    for (const auto& [name, value] : lines) j[name] = value;
    print_out("{}\n", j.dump(2, ' ', false, Json::error_handler_t::replace));
    return;
  }
  for (const auto& [name, value] : lines) {
    print_out("{:<13} {}\n", name, report::for_terminal(value));
  }
}

}  // namespace

void add_info(CLI::App& program) {
  CLI::App* verb = program.add_subcommand("info",
                                          "What this build has and what it runs on; of a model's "
                                          "folder, what it is and what it takes.\n"
                                          "  fovea info\n"
                                          "  fovea info MODEL");
  auto json = std::make_shared<bool>(false);
  auto model = std::make_shared<std::string>();
  verb->add_option("MODEL", *model, "A model's folder, or a run's")->check(not_empty);
  verb->add_flag("--json", *json, "For programs to read");
  verb->callback([json, model] {
    if (!model->empty()) return print_model(*model, *json);
    if (*json) {
      print_out("{}\n", everything().dump(2));
    } else {
      print_all();
    }
  });
}

}  // namespace fovea::app
