#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "fovea/error.h"
#include "io/json.h"
#include "tasks/translate/translate.h"
#include "tests/errors.h"
#include "tests/io/files.h"

namespace fovea::tasks::translation {
namespace {

using Json = nlohmann::ordered_json;
using test::error_of;
using test::Folder;
using test::has;
using test::write_bytes;

// What a config's fields say of themselves.
struct Field {
  enum Kind { integer, real, flag, text, choice } kind;
  std::string name;
  Range range;
  std::vector<std::string> names;
};
class Lister final : public Fields {
 public:
  std::vector<Field> all;
  void group(const std::string&) override {}
  void integer(const std::string& name, int64_t&, const std::string&, Range r) override {
    all.push_back({Field::integer, name, r, {}});
  }
  void real(const std::string& name, double&, const std::string&, Range r) override {
    all.push_back({Field::real, name, r, {}});
  }
  void flag(const std::string& name, bool&, const std::string&) override {
    all.push_back({Field::flag, name, {}, {}});
  }
  void text(const std::string& name, std::string&, const std::string&) override {
    all.push_back({Field::text, name, {}, {}});
  }
  void choice(const std::string& name, std::string&, const std::string&,
              const std::vector<std::string>& names) override {
    all.push_back({Field::choice, name, {}, names});
  }
};

std::vector<Field> fields() {
  TranslateConfig c;
  Lister lister;
  c.visit(lister);
  return lister.all;
}

Json json_of(TranslateConfig c) { return to_json(c); }

TranslateConfig config_of(const Json& json) {
  TranslateConfig c;
  from_json(json, c, "here");
  return c;
}

TranslateConfig typed(const std::map<std::string, std::string>& options) {
  TranslateConfig c;
  from_options(options, c);
  return c;
}

TranslateConfig read_config(const std::filesystem::path& run) {
  return dynamic_cast<const TranslateConfig&>(*RunFolder(run).config_of(task_translate));
}

// A legal value that is not the default.
Json another(const Field& field, const Json& present) {
  switch (field.kind) {
    case Field::integer:
      return present.get<int64_t>() + (present.get<int64_t>() < field.range.high ? 1 : -1);
    case Field::real:
      return present.get<double>() == field.range.low ? (field.range.low + field.range.high) / 2
                                                      : field.range.low;
    case Field::flag:
      return !present.get<bool>();
    case Field::text:
      return "a line of \"text\", ünïcödé";
    case Field::choice:
      return present == field.names.front() ? field.names.back() : field.names.front();
  }
  return {};
}

TEST(Config, NamesAreUniqueAndDefaultsLegal) {
  std::set<std::string> names;
  for (const Field& field : fields()) EXPECT_TRUE(names.insert(field.name).second) << field.name;
  EXPECT_GT(names.size(), 50u);
  for (const TranslateConfig& c :
       {TranslateConfig(), defaults_for({}), defaults_for({.builtin = "phrases"}),
        defaults_for({.tsv = "pairs.tsv"})}) {
    EXPECT_EQ(json_of(config_of(json_of(c))), json_of(c));
  }
}

TEST(Config, EveryFieldTravelsThroughJsonAndOptions) {
  const Json defaults = json_of({});
  for (const Field& field : fields()) {
    Json changed = defaults;
    const Json value = another(field, defaults[field.name]);
    ASSERT_NE(value, defaults[field.name]) << field.name;
    changed[field.name] = value;
    const Json back = json_of(config_of(changed));
    const std::string option = value.is_string() ? value.get<std::string>() : value.dump();
    const Json from_option = json_of(typed({{field.name, option}}));
    if (field.kind == Field::real) {
      EXPECT_FLOAT_EQ(back[field.name].get<float>(), value.get<float>()) << field.name;
      EXPECT_FLOAT_EQ(from_option[field.name].get<float>(), value.get<float>()) << field.name;
    } else {
      EXPECT_EQ(back, changed) << field.name;
      EXPECT_EQ(from_option, changed) << field.name;
    }
    EXPECT_EQ(json_of(config_of(back)), back) << "twice: " << field.name;
  }
}

TEST(Config, WhatIsLeftOutStaysAsItWas) {
  EXPECT_EQ(json_of(config_of(Json::object())), json_of({}));
  EXPECT_EQ(config_of({{"hidden", 32}}).network.hidden, 32);
  EXPECT_EQ(config_of({{"hidden", 32}}).network.embedding, TranslateConfig().network.embedding);
}

TEST(Config, WrongTypesAreNamed) {
  const std::map<Field::Kind, std::vector<Json>> wrong = {
      {Field::integer, {"7", 7.5, 7.0, true, nullptr, Json::array({1}), Json::object(), 1e30}},
      {Field::real, {"0.5", true, nullptr, Json::array({0.5}), Json::object()}},
      {Field::flag, {0, 1, "true", nullptr, Json::array()}},
      {Field::text, {5, true, nullptr, Json::array({"a"}), Json::object()}},
      {Field::choice, {0, true, nullptr, "", "no such name", Json::array()}}};
  for (const Field& field : fields()) {
    for (const Json& value : wrong.at(field.kind)) {
      const std::string message = error_of([&] { config_of({{field.name, value}}); });
      EXPECT_TRUE(has(message, "here: " + field.name + " must be ")) << value << ": " << message;
      EXPECT_TRUE(has(message, ", found ")) << message;
    }
  }
}

TEST(Config, ValuesOutOfRangeAreNamed) {
  for (const Field& field : fields()) {
    std::vector<Json> beyond;
    if (field.kind == Field::integer) {
      ASSERT_TRUE(std::isfinite(field.range.high)) << field.name;
      beyond = {static_cast<int64_t>(field.range.low) - 1,
                static_cast<int64_t>(field.range.high) + 1,
                INT64_MAX,
                INT64_MIN,
                UINT64_MAX,
                uint64_t{1} << 63};
    } else if (field.kind == Field::real) {
      ASSERT_TRUE(std::isfinite(field.range.high)) << field.name;
      beyond = {field.range.low - 1, field.range.high + 1, 1e300, -1e300};
    }
    for (const Json& value : beyond) {
      const std::string message = error_of([&] { config_of({{field.name, value}}); });
      EXPECT_TRUE(has(message, "here: " + field.name + " must be ")) << value << ": " << message;
    }
    for (const char* option :
         {"nan", "inf", "-inf", "1e999", "", "1x", " 1", "0x10", "99999999999999999999999999"}) {
      if (beyond.empty()) continue;
      const std::string message = error_of([&] { typed({{field.name, option}}); });
      EXPECT_TRUE(has(message, "--" + field.name + " must be ")) << option << ": " << message;
    }
  }
  for (const Json& layers : {Json(0), Json(1000000000), Json(-1)}) {
    EXPECT_TRUE(has(error_of([&] { config_of({{"layers", layers}}); }), "in [1, 64], found"));
  }
}

TEST(Config, UnknownFieldsAreNamed) {
  EXPECT_TRUE(has(error_of([] { typed({{"hiden", "32"}}); }), "no option --hiden"));
  EXPECT_TRUE(has(error_of([] { config_of({{"hiden", 32}}); }), "here: no field 'hiden'"));
  EXPECT_TRUE(has(error_of([] { config_of({{"", 1}}); }), "no field ''"));
  for (const Json& json : {Json::array(), Json(nullptr), Json(5), Json("translate")}) {
    EXPECT_TRUE(has(error_of([&] { config_of(json); }), "not a JSON object")) << json;
  }
}

// ---- Files --------------------------------------------------------------------------------------

TEST(Config, ReadsWhatItWrites) {
  const Folder folder;
  const Json value = {{"a", 0.1}, {"b", {1, 2}}, {"ü", "line\nbreak"}};
  write_json(folder / "x.json", value);
  EXPECT_EQ(read_json(folder / "x.json"), value);
  EXPECT_EQ(folder.files(), 1);
  // Floats in their shortest form.
  TranslateConfig c;
  c.loss.dropout = 0.1f;
  EXPECT_EQ(json_of(c)["dropout"].dump(), "0.1");
}

TEST(Config, FilesThatAreNotJson) {
  const Folder folder;
  const auto message = [&](const std::string& bytes) {
    write_bytes(folder / "x.json", bytes);
    return error_of([&] { read_json(folder / "x.json"); });
  };
  for (const std::string& bytes :
       {std::string(), std::string("{"), std::string("{} {}"), std::string("{\"a\":}"),
        std::string("{'a': 1}"), std::string("NaN"), std::string("{\"a\": 1e400}"),
        std::string("{\"a\": \"\xff\xfe\"}"), std::string("\x00\x01\x02", 3),
        std::string("{\"a\": 1,}"), std::string("{\"a\": \"open"), std::string(200000, ' ')}) {
    const std::string said = message(bytes);
    EXPECT_TRUE(has(said, "is not JSON")) << bytes.substr(0, 40) << ": " << said;
    EXPECT_TRUE(has(said, "x.json")) << said;
  }
  for (const char* open : {"[", "{\"a\":"}) {
    std::string deep;
    for (int i = 0; i < 100000; ++i) deep += open;
    EXPECT_TRUE(has(message(deep), "nested too deeply"));
  }
  EXPECT_TRUE(has(error_of([&] { read_json(folder / "none.json"); }), "none.json"));
  std::filesystem::create_directory(folder / "folder.json");
  EXPECT_NE(error_of([&] { read_json(folder / "folder.json"); }), "no error");
}

TEST(Config, EveryTruncationOfARunsConfigIsReadOrRefused) {
  const Folder folder;
  std::filesystem::create_directory(folder / "run");
  Json json = {{"task", "translate"}};
  json.update(json_of(defaults_for({})));
  const std::string whole = json.dump(2);
  for (size_t n = 0; n < whole.size(); ++n) {
    write_bytes(folder / "run" / "config.json", whole.substr(0, n));
    EXPECT_NE(error_of([&] { read_config(folder / "run"); }), "no error") << n;
  }
  for (size_t n = 0; n < whole.size(); ++n) {  // loads or is refused by our own error
    std::string flipped = whole;
    flipped[n] = static_cast<char>(flipped[n] ^ 0x15);
    write_bytes(folder / "run" / "config.json", flipped);
    error_of([&] { read_config(folder / "run"); });
  }
  write_bytes(folder / "run" / "config.json", whole);
  EXPECT_EQ(json_of(read_config(folder / "run")), json_of(defaults_for({})));
}

TEST(Config, OfAnotherTask) {
  const Folder folder;
  std::filesystem::create_directory(folder / "run");
  const auto message = [&](const char* bytes) {
    write_bytes(folder / "run" / "config.json", bytes);
    return error_of([&] { read_config(folder / "run"); });
  };
  for (const char* bytes :
       {"{}", "[]", "{\"task\": 5}", "{\"task\": null}", "{\"task\": [\"x\"]}", "7"}) {
    EXPECT_TRUE(has(message(bytes), "config.json is not a run's")) << bytes;
  }
  EXPECT_TRUE(has(message("{\"task\": \"no such\"}"), "is of task \"no such\", which"));
  Task other = task_translate;  // the same in all but its name
  other.name = "other";
  write_bytes(folder / "run" / "config.json", "{\"task\": \"translate\"}");
  EXPECT_TRUE(has(error_of([&] { RunFolder(folder / "run").config_of(other); }),
                  "is a run of task translate, not of other"));
  EXPECT_TRUE(has(error_of([&] { read_config(folder / "none"); }), "none holds no run"));
}

// ---- What was typed
// -------------------------------------------------------------------------------

TEST(Config, DefaultsSuitTheDataThatWasTyped) {
  const auto typed_as = [](const Given& given) {
    return dynamic_cast<const TranslateConfig&>(*config_from(task_translate, given));
  };
  EXPECT_EQ(json_of(typed_as({})), json_of(defaults_for({})));
  EXPECT_EQ(json_of(typed_as({{"tsv", "a.tsv"}})), json_of(defaults_for({.tsv = "a.tsv"})));
  const TranslateConfig phrases = typed_as({{"builtin", "phrases"}, {"hidden", "7"}});
  EXPECT_EQ(phrases.source.unit, text::Unit::words);
  EXPECT_EQ(phrases.network.hidden, 7);
  EXPECT_EQ(phrases.network.embedding, 96);
  // A limit that was typed replaces the default one.
  EXPECT_EQ(typed_as({}).train.epochs, 6);
  EXPECT_EQ(typed_as({{"steps", "9"}}).train.epochs, 0);
  EXPECT_EQ(typed_as({{"minutes", "9"}}).train.epochs, 0);
  EXPECT_EQ(typed_as({{"steps", "9"}, {"epochs", "2"}}).train.epochs, 2);
  EXPECT_EQ(typed_as({{"hidden", "9"}}).train.epochs, 6);
}

TEST(Config, OnlyLimitsOfARunThatGoesOnChange) {
  TranslateConfig c = defaults_for({});
  change_limits(task_translate, c, {{"steps", "12"}, {"epochs", "34"}, {"minutes", "5.5"}});
  EXPECT_EQ(c.train.steps, 12);
  EXPECT_EQ(c.train.epochs, 34);
  EXPECT_EQ(c.train.minutes, 5.5);
  const Json before = json_of(c);
  const auto refused = [&](const Given& typed) {
    return error_of([&] { change_limits(task_translate, c, typed); });
  };
  EXPECT_TRUE(has(refused({{"seed", "2"}}), "--seed cannot change"));
  EXPECT_TRUE(has(refused({{"tsv", "other.tsv"}}), "DATA (--tsv) cannot change"));
  EXPECT_EQ(refused({{"seed", std::to_string(c.train.seed)}}), "no error");  // as it was
  EXPECT_EQ(json_of(c), before);
  // One that is typed takes the place of the others, or a limit that is met would end it at once.
  change_limits(task_translate, c, {{"steps", "99"}});
  EXPECT_EQ(c.train.steps, 99);
  EXPECT_EQ(c.train.epochs, 0);
  EXPECT_EQ(c.train.minutes, 0);
}

TEST(Config, WhatAFileLeavesOutSuitsTheData) {
  const Folder folder;
  write_bytes(folder / "c.json", R"({"task": "translate", "hidden": 24})");
  const Given typed = {{"tsv", "own.tsv"}, {"steps", "4"}};
  const auto of_file = config_in(folder / "c.json", task_translate, typed);
  Given all = typed;
  all["hidden"] = "24";
  EXPECT_EQ(to_json(*of_file), to_json(*config_from(task_translate, all)));
}

}  // namespace
}  // namespace fovea::tasks::translation
