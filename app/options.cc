#include "app/options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <span>

#include "fovea/error.h"
#include "tasks/opened/opened.h"
#include "tasks/run_folder.h"

namespace fovea::app {
namespace {

class Adder final : public tasks::Fields {
 public:
  Adder(CLI::App& verb, tasks::Given& given, const nlohmann::ordered_json& own)
      : verb_(verb), given_(given), own_(own) {}

  void group(const std::string& title) override { group_ = title; }
  void integer(const std::string& name, int64_t& x, const std::string& help,
               tasks::Range) override {
    add(name, help, std::to_string(x))->type_name("N");
  }
  void real(const std::string& name, double& x, const std::string& help, tasks::Range) override {
    add(name, help, std::isnan(x) ? "" : fmt::format("{:.6g}", x))->type_name("X");
  }
  void flag(const std::string& name, bool& x, const std::string& help) override {
    const auto set = [given = &given_, name](int64_t n) {
      (*given)[name] = n > 0 ? "true" : "false";
    };
    verb_
        .add_flag_function(fmt::format("--{},!--no-{}", name, name), set,
                           described(name, help, x ? "yes" : "no"))
        ->group(group_);
  }
  void text(const std::string& name, std::string& x, const std::string& help) override {
    add(name, help, x)->type_name("TEXT");
  }
  void file(const std::string& name, std::string& x, const std::string& help) override {
    add(name, help, x)->type_name("FILE");
  }
  void record(const std::string&, std::string&) override {}
  void choice(const std::string& name, std::string& x, const std::string& help,
              const std::vector<std::string>& names) override {
    add(name, fmt::format("{}{}{}", help, help.empty() ? "" : ": ", fmt::join(names, ", ")), x)
        ->type_name("NAME");
  }

 private:
  // "help [default]", and with data of one's own another one.
  std::string described(const std::string& name, const std::string& help,
                        const std::string& value) const {
    const std::string own = own_default(name);
    if (own.empty() || own == value)
      return value.empty() ? help : fmt::format("{} [{}]", help, value);
    return fmt::format("{} [{}; own data: {}]", help, value.empty() ? "none" : value, own);
  }
  std::string own_default(const std::string& name) const {
    if (!own_.contains(name)) return {};
    const nlohmann::ordered_json& j = own_[name];
    if (j.is_boolean()) return j.get<bool>() ? "yes" : "no";
    if (j.is_number_float()) return fmt::format("{:.6g}", j.get<double>());
    return j.is_string() ? j.get<std::string>() : j.dump();
  }
  CLI::Option* add(const std::string& name, const std::string& help, const std::string& value) {
    return verb_
        .add_option_function<std::string>(
            "--" + name,
            [given = &given_, name](const std::string& typed) { (*given)[name] = typed; },
            described(name, help, value))
        ->group(group_)
        ->take_last();  // so that a script's options can be followed by one's own
  }

  CLI::App& verb_;
  tasks::Given& given_;
  const nlohmann::ordered_json& own_;  // defaults for own data
  std::string group_;
};

// What options there are.
class Names final : public tasks::Fields {
 public:
  std::vector<std::string> all;
  void group(const std::string&) override {}
  void integer(const std::string& name, int64_t&, const std::string&, tasks::Range) override {
    add(name);
  }
  void real(const std::string& name, double&, const std::string&, tasks::Range) override {
    add(name);
  }
  void flag(const std::string& name, bool&, const std::string&) override { add(name); }
  void text(const std::string& name, std::string&, const std::string&) override { add(name); }
  void choice(const std::string& name, std::string&, const std::string&,
              const std::vector<std::string>&) override {
    add(name);
  }
  void record(const std::string&, std::string&) override {}

 private:
  void add(const std::string& name) { all.push_back("--" + name); }
};

}  // namespace

std::string not_empty(const std::string& typed) { return typed.empty() ? "the name is empty" : ""; }

std::string above_zero(const std::string& typed) {
  char* end = nullptr;
  const double x = std::strtod(typed.c_str(), &end);
  if (!typed.empty() && *end == '\0' && std::isfinite(x) && x > 0) return "";
  return "must be a number above 0, found " + typed;
}

void add_fields(CLI::App& verb, tasks::Given& given, tasks::Settings& settings,
                const nlohmann::ordered_json& own) {
  Adder adder(verb, given, own);
  settings.visit(adder);
}

const tasks::Task* task_of_run_in(const CLI::App& verb, const Arguments& typed) {
  if (typed.empty() || typed.front() != verb.get_name()) return nullptr;
  for (const std::string& argument : std::span(typed).subspan(1)) {
    if (argument.starts_with('-')) continue;
    const tasks::RunFolder folder(argument);
    try {
      if (folder.holds_run()) return &folder.task();
    } catch (const Error&) {
      return nullptr;  // is said when the verb reads it
    }
  }
  return nullptr;
}

void add_task_options(CLI::App& verb, tasks::Given& given, const Arguments& typed,
                      std::unique_ptr<tasks::Settings> (*tasks::Task::*settings)()) {
  if (const tasks::Task* task = task_of_run_in(verb, typed)) {
    add_fields(verb, given, *(task->*settings)());
    return;
  }
  // No run to be seen: options are believed until RUN has been looked at, which then complains.
  verb.allow_extras();
  std::string footer = "A run's task adds options, which `fovea VERB RUN --help` explains:";
  footer.replace(footer.find("VERB"), 4, verb.get_name());
  const auto add = [&](const tasks::Task& task) {
    Names names;
    (task.*settings)()->visit(names);
    if (names.all.empty()) return;
    footer += fmt::format("\n  {:<12} {}", task.name, fmt::join(names.all, " "));
  };
  for (const tasks::Task* task : tasks::task_table()) add(*task);
  footer += "\nSo does what a model of others does:";
  for (const tasks::Task* task : tasks::opened_table()) add(*task);
  verb.footer(footer + "\n\n" + verb.get_footer());
}

}  // namespace fovea::app
