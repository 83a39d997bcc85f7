#include "io/json.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "errors.h"
#include "io/files.h"

namespace fovea {
namespace {

using Json = nlohmann::ordered_json;
using test::error_of;
using test::has;

std::string error_in(const std::string& text, const JsonLimits& limits = {}) {
  return error_of([&] { parse_json(text, "the request", limits); });
}

std::string repeated(const std::string& part, int n) {
  std::string all;
  for (int i = 0; i < n; ++i) all += part;
  return all;
}

TEST(Json, IsReadAsItWasWritten) {
  EXPECT_EQ(parse_json(R"({"b": [1, -2.5, null], "a": "ü"})", "x").dump(),
            R"({"b":[1,-2.5,null],"a":"ü"})");
}

TEST(Json, DepthIsBounded) {
  EXPECT_EQ(error_in(repeated("[", 100) + repeated("]", 100)), "no error");
  for (const char* open : {"[", "{\"a\":"}) {
    const std::string said = error_in(repeated(open, 100000));
    EXPECT_TRUE(has(said, "the request is nested too deeply")) << said;
  }
  EXPECT_TRUE(has(error_in("[[[1]]]", {.depth = 2}), "more than 2 lists or objects"));
}

// An object of n names takes n² comparisons to build.
TEST(Json, NamesOfAnObjectAreBounded) {
  std::string text = "{";
  for (int i = 0; i < 200000; ++i) text += "\"" + std::to_string(i) + "\":0,";
  EXPECT_TRUE(has(error_in(text + "\"\":0}"), "an object has more than 1000 names"));
  EXPECT_EQ(error_in("[" + repeated("{\"a\":{\"b\":0}},", 2000) + "0]"), "no error");
}

// A vocabulary has a million names: they are told, not kept.
TEST(Json, ManyEntriesAreToldOneByOne) {
  std::string text = R"({"model": {"vocab": {)";
  for (int i = 0; i < 5000; ++i)
    text += "\"t" + std::to_string(i) + "\": " + std::to_string(i) + ",";
  text += R"("last": [1, {"a": 2}]}, "rest": [3]}, "vocab": {"own": 1}})";
  int64_t told = 0;
  std::string last;
  const JsonMany many[] = {{"model.vocab", [&](std::string&& name, Json&& value) {
                              EXPECT_TRUE(value.is_array() || "t" + value.dump() == name);
                              ++told, last = name + value.dump();
                            }}};
  const Json rest = parse_json(text, "x", {}, many);
  EXPECT_EQ(told, 5001);
  EXPECT_EQ(last, R"(last[1,{"a":2}])");
  EXPECT_EQ(rest.dump(), R"({"model":{"vocab":{},"rest":[3]},"vocab":{"own":1}})");
  EXPECT_TRUE(has(error_of([&] { parse_json(text, "x"); }), "more than 1000 names"));
}

TEST(Json, SizeIsBounded) {
  EXPECT_TRUE(has(error_in("[1, 2, 3]", {.bytes = 8}), "the request is too large: 9 bytes"));
}

TEST(Json, WhatIsNoneIsSaidWithItsPlace) {
  EXPECT_TRUE(has(error_in("{\n\"a\": x}"), "the request is not JSON in UTF-8: line 2, byte"));
  EXPECT_TRUE(has(error_in("\"\xff\""), "not JSON in UTF-8"));
  EXPECT_TRUE(has(error_in(""), "not JSON in UTF-8"));
  EXPECT_TRUE(has(error_in("[1e999]"), "a number is too large"));
}

TEST(Json, ReadsWhatItWritesAndNamesTheFile) {
  const test::Folder folder;
  const Json value = {{"a", 0.1}, {"b", {1, 2}}};
  write_json(folder / "x.json", value);
  EXPECT_EQ(read_json(folder / "x.json"), value);
  EXPECT_TRUE(has(error_of([&] { read_json(folder / "none.json"); }), "none.json: No such file"));
  EXPECT_TRUE(has(error_of([&] { read_json(folder / "."); }), "is a folder"));
  test::write_bytes(folder / "deep.json", repeated("[", 1000));
  EXPECT_TRUE(has(error_of([&] { read_json(folder / "deep.json"); }), "deep.json is nested"));
}

TEST(Json, WholeNumbersFit64Bits) {
  EXPECT_EQ(whole_number(-7), -7);
  EXPECT_EQ(whole_number(3.0), 3);
  EXPECT_EQ(whole_number(INT64_MIN), INT64_MIN);
  for (const Json& none : {Json(3.5), Json(3e23), Json(-1e300), Json(UINT64_MAX), Json("3"), Json(),
                           Json(9223372036854775808.0)}) {
    EXPECT_TRUE(has(error_of([&] { whole_number(none); }), "expected a whole number")) << none;
  }
}

}  // namespace
}  // namespace fovea
