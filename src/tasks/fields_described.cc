#include <cmath>
#include <nlohmann/json.hpp>

#include "tasks/fields.h"

namespace fovea::tasks {
namespace {

using Json = nlohmann::ordered_json;

class Describer final : public Fields {
 public:
  explicit Describer(const Json& values) : values_(values) {}
  Json groups = Json::array();

  void group(const std::string& title) override {
    groups.push_back({{"title", title}, {"fields", Json::array()}});
  }
  void integer(const std::string& name, int64_t&, const std::string& help, Range r) override {
    add(name, "integer", help, r);
  }
  void real(const std::string& name, double&, const std::string& help, Range r) override {
    add(name, "real", help, r);
  }
  void flag(const std::string& name, bool&, const std::string& help) override {
    add(name, "flag", help);
  }
  void text(const std::string& name, std::string&, const std::string& help) override {
    add(name, "text", help);
  }
  void choice(const std::string& name, std::string&, const std::string& help,
              const std::vector<std::string>& names) override {
    add(name, "choice", help)["choices"] = names;
  }
  void file(const std::string&, std::string&, const std::string&) override {}
  void of_file(const std::string&, std::string&, const std::string&) override {}
  void record(const std::string&, std::string&) override {}

 private:
  Json& add(const std::string& name, const char* kind, const std::string& help) {
    if (groups.empty()) group("");
    return groups.back()["fields"].emplace_back(
        Json{{"name", name}, {"kind", kind}, {"help", help}, {"value", values_.at(name)}});
  }
  void add(const std::string& name, const char* kind, const std::string& help, Range r) {
    Json& made = add(name, kind, help);
    if (std::isfinite(r.low)) made["low"] = r.low;
    if (std::isfinite(r.high)) made["high"] = r.high;
  }
  const Json& values_;  // as config.json has them
};

}  // namespace

Json described(Settings& settings) {
  const Json values = to_json(settings);
  Describer describer(values);
  settings.visit(describer);
  Json some = Json::array();
  for (const Json& group : describer.groups) {
    if (!group["fields"].empty()) some.push_back(group);
  }
  return some;
}

}  // namespace fovea::tasks
