#include "tasks/fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "fovea/error.h"

namespace fovea::tasks {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

class Writer final : public Fields {
 public:
  explicit Writer(Files files) : files_(files) {}
  Json out = Json::object();
  void group(const std::string&) override {}
  void integer(const std::string& name, int64_t& x, const std::string&, Range) override {
    out[name] = x;
  }
  void real(const std::string& name, double& x, const std::string&, Range) override {
    out[name] = tidy(x);
  }
  void flag(const std::string& name, bool& x, const std::string&) override { out[name] = x; }
  void text(const std::string& name, std::string& x, const std::string&) override { out[name] = x; }
  void choice(const std::string& name, std::string& x, const std::string&,
              const std::vector<std::string>&) override {
    out[name] = x;
  }
  void file(const std::string& name, std::string& x, const std::string& help) override {
    if (files_ == Files::allowed) text(name, x, help);
  }

 private:
  Files files_;
  // A float's shortest decimal, where that is the same float: 0.1, not 0.10000000149011612.
  static double tidy(double x) {
    const auto as_float = static_cast<float>(x);
    if (static_cast<double>(as_float) != x) return x;
    return std::stod(fmt::format("{}", as_float));
  }
};

// Values by name from somewhere: JSON or a command line.
class Reader : public Fields {
 public:
  explicit Reader(std::string where) : where_(std::move(where)) {}
  void group(const std::string&) override {}

  std::set<std::string> known;

 protected:
  [[noreturn]] void fail(const std::string& name, const std::string& expected,
                         const std::string& found) const {
    throw Error("config", fmt::format("{}{} must be {}, found {}", where_, name, expected, found));
  }
  void in_range(const std::string& name, double x, Range r) const {
    if (x >= r.low && x <= r.high) return;
    if (std::isinf(r.high)) fail(name, fmt::format("at least {}", r.low), fmt::format("{}", x));
    fail(name, fmt::format("in [{}, {}]", r.low, r.high), fmt::format("{}", x));
  }
  void one_of(const std::string& name, const std::string& x,
              const std::vector<std::string>& names) const {
    if (std::find(names.begin(), names.end(), x) != names.end()) return;
    fail(name, fmt::format("one of {}", fmt::join(names, ", ")), fmt::format("'{}'", x));
  }
  std::string where_;
};

class JsonReader final : public Reader {
 public:
  JsonReader(const Json& object, const std::string& where, Files files)
      : Reader(where), object_(object), files_(files) {}

  void integer(const std::string& name, int64_t& x, const std::string&, Range r) override {
    if (const Json* j = find(name)) {
      if (!j->is_number_integer()) fail(name, "an integer", j->dump());
      if (j->is_number_unsigned() && j->get<uint64_t>() > INT64_MAX)
        fail(name, "smaller", j->dump());
      x = j->get<int64_t>();
      in_range(name, static_cast<double>(x), r);
    }
  }
  void real(const std::string& name, double& x, const std::string&, Range r) override {
    if (const Json* j = find(name)) {
      if (!j->is_number()) fail(name, "a number", j->dump());
      x = j->get<double>();
      in_range(name, x, r);
    }
  }
  void flag(const std::string& name, bool& x, const std::string&) override {
    if (const Json* j = find(name)) {
      if (!j->is_boolean()) fail(name, "true or false", j->dump());
      x = j->get<bool>();
    }
  }
  void text(const std::string& name, std::string& x, const std::string&) override {
    if (const Json* j = find(name)) {
      if (!j->is_string()) fail(name, "a string", j->dump());
      x = j->get<std::string>();
    }
  }
  void choice(const std::string& name, std::string& x, const std::string& help,
              const std::vector<std::string>& names) override {
    if (find(name) == nullptr) return;
    text(name, x, help);
    one_of(name, x, names);
  }
  void file(const std::string& name, std::string& x, const std::string& help) override {
    if (files_ == Files::allowed) text(name, x, help);  // else nobody knows the name
  }

 private:
  const Json* find(const std::string& name) {
    known.insert(name);
    const auto it = object_.find(name);
    return it == object_.end() ? nullptr : &*it;
  }
  const Json& object_;
  Files files_;
};

class OptionReader final : public Reader {
 public:
  explicit OptionReader(const Given& given) : Reader("--"), given_(given) {}

  void integer(const std::string& name, int64_t& x, const std::string&, Range r) override {
    if (const std::string* s = find(name)) {
      const auto [end, error] = std::from_chars(s->data(), s->data() + s->size(), x);
      if (error != std::errc() || end != s->data() + s->size()) fail(name, "an integer", *s);
      in_range(name, static_cast<double>(x), r);
    }
  }
  void real(const std::string& name, double& x, const std::string&, Range r) override {
    if (const std::string* s = find(name)) {
      const auto [end, error] = std::from_chars(s->data(), s->data() + s->size(), x);
      if (error != std::errc() || end != s->data() + s->size()) fail(name, "a number", *s);
      in_range(name, x, r);
    }
  }
  void flag(const std::string& name, bool& x, const std::string&) override {
    if (const std::string* s = find(name)) {
      if (*s != "true" && *s != "false") fail(name, "true or false", *s);
      x = *s == "true";
    }
  }
  void text(const std::string& name, std::string& x, const std::string&) override {
    if (const std::string* s = find(name)) x = *s;
  }
  // A script's variable that is not set must not mean the built-in data.
  void file(const std::string& name, std::string& x, const std::string& help) override {
    text(name, x, help);
    if (given_.contains(name) && x.empty()) fail(name, "the name of a file", "an empty one");
  }
  void choice(const std::string& name, std::string& x, const std::string&,
              const std::vector<std::string>& names) override {
    if (const std::string* s = find(name)) {
      one_of(name, *s, names);
      x = *s;
    }
  }

 private:
  const std::string* find(const std::string& name) {
    known.insert(name);
    const auto it = given_.find(name);
    return it == given_.end() ? nullptr : &it->second;
  }
  const Given& given_;
};

// Sees the names of files alone.
class FileFields : public Fields {
 public:
  void group(const std::string&) override {}
  void integer(const std::string&, int64_t&, const std::string&, Range) override {}
  void real(const std::string&, double&, const std::string&, Range) override {}
  void flag(const std::string&, bool&, const std::string&) override {}
  void text(const std::string&, std::string&, const std::string&) override {}
  void choice(const std::string&, std::string&, const std::string&,
              const std::vector<std::string>&) override {}
};

class FileLister final : public FileFields {
 public:
  std::vector<std::string> files;
  void file(const std::string&, std::string& x, const std::string&) override {
    if (!x.empty()) files.push_back(x);
  }
};

class PathFixer final : public FileFields {
 public:
  void file(const std::string&, std::string& x, const std::string&) override {
    if (x.empty()) return;
    const fs::path path = fs::absolute(x);
    // After a link, `..` leads elsewhere than it reads.
    const bool plain = std::find(path.begin(), path.end(), "..") == path.end();
    x = (plain ? path.lexically_normal() : path).string();
  }
};

}  // namespace

std::vector<std::string> files_named_in(Settings& settings) {
  FileLister lister;
  settings.visit(lister);
  return lister.files;
}

void make_paths_absolute(Settings& settings) {
  PathFixer fixer;
  settings.visit(fixer);
}

Json to_json(Settings& settings, Files files) {
  Writer writer(files);
  settings.visit(writer);
  return writer.out;
}

void from_json(const Json& object, Settings& settings, const std::string& where, Files files) {
  if (!object.is_object()) throw Error("config", where + " is not a JSON object");
  JsonReader reader(object, where + ": ", files);
  settings.visit(reader);
  for (const auto& [name, value] : object.items()) {
    if (!reader.known.contains(name)) {
      throw Error("config", fmt::format("{}: no field '{}'", where, name));
    }
  }
}

void from_options(const Given& given, Settings& settings) {
  OptionReader reader(given);
  settings.visit(reader);
  for (const auto& [name, value] : given) {
    if (!reader.known.contains(name)) throw Error("config", "there is no option --" + name);
  }
}

}  // namespace fovea::tasks
