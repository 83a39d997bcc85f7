#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

// Settings list their fields once: their names, meanings and ranges. From that list come the
// command line's options, config.json, its checks and the help.
namespace fovea::tasks {

struct Range {
  double low = 0, high = std::numeric_limits<double>::infinity();
};

class Fields {
 public:
  virtual ~Fields() = default;
  virtual void group(const std::string& title) = 0;
  virtual void integer(const std::string& name, int64_t&, const std::string& help, Range = {}) = 0;
  virtual void real(const std::string& name, double&, const std::string& help, Range = {}) = 0;
  virtual void flag(const std::string& name, bool&, const std::string& help) = 0;
  virtual void text(const std::string& name, std::string&, const std::string& help) = 0;
  // One of several names.
  virtual void choice(const std::string& name, std::string&, const std::string& help,
                      const std::vector<std::string>& names) = 0;
  // The name of a file of the user's.
  virtual void file(const std::string& name, std::string& x, const std::string& help) {
    text(name, x, help);
  }
  // Of what such a file holds: it means nothing without it.
  virtual void of_file(const std::string& name, std::string& x, const std::string& help) {
    text(name, x, help);
  }
  // What a run remembers; no option of the command line.
  virtual void record(const std::string& name, std::string& x) { text(name, x, ""); }

  void real(const std::string& name, float& x, const std::string& help, Range range = {}) {
    auto value = static_cast<double>(x);
    real(name, value, help, range);
    x = static_cast<float>(value);
  }
  template <class E>
  void named(const std::string& name, E& e, const std::string& help, const std::vector<E>& all) {
    std::vector<std::string> names;
    for (const E one : all) names.emplace_back(name_of(one));
    std::string value = name_of(e);
    choice(name, value, help, names);
    for (const E one : all) {
      if (value == name_of(one)) e = one;
    }
  }
};

struct Settings {
  virtual ~Settings() = default;
  virtual void visit(Fields&) = 0;
};

// Refused: fields that name files are left out, and may not be set.
enum class Files : uint8_t { allowed, refused };
nlohmann::ordered_json to_json(Settings&, Files = Files::allowed);
// Sets the fields that `object` has. An unknown name, a wrong type or a value out of range throws,
// naming `where`, the field, what was expected and what was found.
void from_json(const nlohmann::ordered_json& object, Settings&, const std::string& where,
               Files = Files::allowed);
// The same from options of a command line, as they were typed.
using Given = std::map<std::string, std::string>;
void from_options(const Given&, Settings&);

// Fields by group, for whoever draws a form: what the command line's help says of them.
//   [{"title": "Training", "fields": [{"name": "rate", "kind": "real", "help": "learning rate",
//     "value": 0.002, "low": 0, "high": 100}]}]
// Kinds are integer, real, flag, text and choice (with "choices"); a bound that is infinite is left
// out, and so are files, what is of a file alone, and what a run remembers.
nlohmann::ordered_json described(Settings&);

// The files of the user's that settings name.
std::vector<std::string> files_named_in(Settings&);
// So that files are found from any directory.
void make_paths_absolute(Settings&);

}  // namespace fovea::tasks
