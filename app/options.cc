#include "app/options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace fovea::app {
namespace {

class Adder final : public tasks::Fields {
 public:
  Adder(CLI::App& verb, Given& given) : verb_(verb), given_(given) {}

  void group(const std::string& title) override { group_ = title; }
  void integer(const std::string& name, int64_t& x, const std::string& help,
               tasks::Range) override {
    add(name, help, std::to_string(x))->type_name("N");
  }
  void real(const std::string& name, double& x, const std::string& help, tasks::Range) override {
    add(name, help, fmt::format("{:.6g}", x))->type_name("X");
  }
  void flag(const std::string& name, bool& x, const std::string& help) override {
    const auto set = [given = &given_, name](int64_t n) {
      (*given)[name] = n > 0 ? "true" : "false";
    };
    verb_
        .add_flag_function(fmt::format("--{},!--no-{}", name, name), set,
                           described(help, x ? "yes" : "no"))
        ->group(group_);
  }
  void text(const std::string& name, std::string& x, const std::string& help) override {
    if (name != "fingerprint") add(name, help, x)->type_name("FILE");
  }
  void choice(const std::string& name, std::string& x, const std::string& help,
              const std::vector<std::string>& names) override {
    add(name, fmt::format("{}{}{}", help, help.empty() ? "" : ": ", fmt::join(names, ", ")), x)
        ->type_name("NAME");
  }

 private:
  static std::string described(const std::string& help, const std::string& value) {
    return value.empty() ? help : fmt::format("{} [{}]", help, value);
  }
  CLI::Option* add(const std::string& name, const std::string& help, const std::string& value) {
    return verb_
        .add_option_function<std::string>(
            "--" + name,
            [given = &given_, name](const std::string& typed) { (*given)[name] = typed; },
            described(help, value))
        ->group(group_)
        ->take_last();  // so that a script's options can be followed by one's own
  }

  CLI::App& verb_;
  Given& given_;
  std::string group_;
};

}  // namespace

void add_fields(CLI::App& verb, Given& given, const tasks::Visit& visit) {
  Adder adder(verb, given);
  visit(adder);
}

}  // namespace fovea::app
