// What a safetensors file may get wrong: each is an Error with one clear line, and no memory is
// taken on its word.
#include <cstring>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "fovea/io.h"
#include "fovea/runtime.h"
#include "io/files.h"

namespace fovea {
namespace {

using test::as_bytes;
using test::file_of;

std::string entry(const std::string& name, const std::string& dtype, const std::string& shape,
                  const std::string& offsets) {
  return fmt::format(R"("{}":{{"dtype":{},"shape":{},"data_offsets":{}}})", name, dtype, shape,
                     offsets);
}

std::string one(const std::string& dtype, const std::string& shape, const std::string& offsets) {
  return "{" + entry("x", dtype, shape, offsets) + "}";
}

struct Case {
  std::string name;
  std::string bytes;
  std::string says;  // part of the message
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

std::string repeat(const std::string& text, int n) {
  if (n == 0) return "";
  const std::string half = repeat(text, n / 2);
  return half + half + (n % 2 == 0 ? "" : text);
}

std::string ten_over_the_same_bytes() {
  std::string header = "{";
  for (int i = 0; i < 10; ++i) {
    if (i > 0) header += ",";
    header += entry(fmt::format("x{}", i), "\"F32\"", "[4]", "[0,16]");
  }
  return file_of(header + "}", std::string(16, 'a'));
}

std::string length_only(uint64_t length) {
  std::string bytes = file_of("{}");
  std::memcpy(bytes.data(), &length, 8);
  return bytes;
}

const std::string kGood = one("\"F32\"", "[2]", "[0,8]");
const std::string kData8(8, 'a');

std::vector<Case> cases() {
  return {
      {"Empty", "", "too short"},
      {"SevenBytes", std::string(7, '\0'), "too short"},
      {"LengthZero", file_of(""), "begin with {"},
      {"Length2To63", length_only(uint64_t{1} << 63), "is over"},
      {"LengthAllOnes", length_only(~uint64_t{0}), "is over"},
      {"LengthOver100MB", length_only(100'000'001), "is over"},
      {"LengthOverTheFile", length_only(3), "more bytes"},
      {"NotUtf8InAName", file_of("{\"\xff\xfe\":{}}"), "UTF-8"},
      {"NotUtf8AtAll", file_of("{\xff"), "UTF-8"},
      {"OverlongUtf8", file_of("{\"\xc0\xaf\":{}}"), "UTF-8"},
      {"LoneSurrogate", file_of("{\"\\ud800\":{}}"), "UTF-8"},
      {"BraceOnly", file_of("{"), "not valid JSON"},
      {"SpaceBeforeTheBrace", file_of(" {}"), "begin with {"},
      {"AListAsHeader", file_of("[]"), "begin with {"},
      {"ZeroByteAfterTheHeader", file_of(std::string("{}\0{", 4)), "zero byte"},
      {"TextAfterTheHeader", file_of("{} {}"), "not valid JSON"},
      {"Nested100000Lists", file_of("{\"x\":" + std::string(100'000, '[')), "must be an object"},
      {"Nested100000Objects", file_of(repeat("{\"x\":", 100'000)), "unknown field"},
      {"Nested100000InMetadata", file_of("{\"__metadata__\":" + repeat("{\"x\":", 100'000)),
       "must be a string"},
      {"Nested100000InShape", file_of("{\"x\":{\"shape\":" + std::string(100'000, '[')),
       "found a list"},
      {"ANameTwice",
       file_of("{" + entry("x", "\"F32\"", "[2]", "[0,8]") + "," +
                   entry("x", "\"F32\"", "[2]", "[8,16]") + "}",
               std::string(16, 'a')),
       "'x' appears twice"},
      {"ANameTwiceEscaped",
       file_of("{" + entry("x", "\"F32\"", "[2]", "[0,8]") + "," +
                   entry("\\u0078", "\"F32\"", "[2]", "[8,16]") + "}",
               std::string(16, 'a')),
       "'x' appears twice"},
      {"AFieldTwice",
       file_of("{\"x\":{\"dtype\":\"F32\",\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}",
               kData8),
       "appears twice"},
      {"MetadataTwice", file_of("{\"__metadata__\":{},\"__metadata__\":{}}"), "appears twice"},
      {"TenOverTheSameBytes", ten_over_the_same_bytes(), "overlap"},
      {"APartialOverlap",
       file_of("{" + entry("x", "\"F32\"", "[2]", "[0,8]") + "," +
                   entry("y", "\"F32\"", "[2]", "[4,12]") + "}",
               std::string(12, 'a')),
       "overlap"},
      {"AHole",
       file_of("{" + entry("x", "\"F32\"", "[2]", "[0,8]") + "," +
                   entry("y", "\"F32\"", "[2]", "[12,20]") + "}",
               std::string(20, 'a')),
       "hole"},
      {"AHoleAtTheStart", file_of(one("\"F32\"", "[2]", "[4,12]"), std::string(12, 'a')), "hole"},
      {"BytesAfterTheLast", file_of(kGood, kData8 + "b"), "cover 8 bytes"},
      {"BytesWithNoTensors", file_of("{}", "b"), "cover 0 bytes"},
      {"TwoBytesMissing", file_of(kGood, std::string(6, 'a')), "cover 8 bytes"},
      {"ShapeOverflows", file_of(one("\"F32\"", "[2,18446744073709551614]", "[0,8]"), kData8),
       "overflows"},
      {"BytesOverflow", file_of(one("\"F32\"", "[2,9223372036854775807]", "[0,8]"), kData8),
       "overflows"},
      {"BytesWrapToEight", file_of(one("\"F32\"", "[4611686018427387906]", "[0,8]"), kData8),
       "overflows"},
      {"StridesOverflowBesideAZero",
       file_of(one("\"F32\"", "[0,9223372036854775807,9223372036854775807]", "[0,0]")),
       "overflows"},
      {"OffsetsReversed", file_of(one("\"F32\"", "[2]", "[8,0]"), kData8), "reversed"},
      {"OffsetsNegative", file_of(one("\"F32\"", "[2]", "[-8,0]"), kData8), "negative"},
      {"OffsetsMinusZero", file_of(one("\"F32\"", "[2]", "[-0,8]"), kData8), "negative"},
      {"Offsets1e400", file_of(one("\"F32\"", "[2]", "[0,1e400]"), kData8), "range"},
      {"OffsetsFraction", file_of(one("\"F32\"", "[2]", "[0,8.0]"), kData8), "64-bit integer"},
      {"OffsetsOver64Bits", file_of(one("\"F32\"", "[2]", "[0,18446744073709551616]"), kData8),
       "64-bit integer"},
      {"OffsetsPastTheFile", file_of(one("\"F32\"", "[3]", "[0,12]"), kData8), "cover 12 bytes"},
      {"OffsetsHuge",
       file_of(one("\"F32\"", "[2305843009213693952]", "[0,9223372036854775808]"), kData8),
       "overflows"},
      {"OffsetsOfOne", file_of(one("\"F32\"", "[2]", "[0]"), kData8), "pair"},
      {"OffsetsOfThree", file_of(one("\"F32\"", "[2]", "[0,4,8]"), kData8), "pair"},
      {"ShapeNegative", file_of(one("\"F32\"", "[-2]", "[0,8]"), kData8), "negative"},
      {"ShapeOf33", file_of(one("\"F32\"", "[" + repeat("1,", 32) + "2]", "[0,8]"), kData8),
       "more than 32"},
      {"SizeAgainstShape", file_of(one("\"F32\"", "[3]", "[0,8]"), kData8), "needs 12 bytes"},
      {"SizeAgainstDtype", file_of(one("\"F64\"", "[2]", "[0,8]"), kData8), "needs 16 bytes"},
      {"SizeLyingLarge", file_of(one("\"F32\"", "[1000000000000]", "[0,4000000000000]"), kData8),
       "cover 4000000000000 bytes"},
      {"UnknownDtype", file_of(one("\"F128\"", "[2]", "[0,8]"), kData8), "unknown dtype 'F128'"},
      {"LowerCaseDtype", file_of(one("\"f32\"", "[2]", "[0,8]"), kData8), "unknown dtype"},
      {"DtypeANumber", file_of(one("32", "[2]", "[0,8]"), kData8), "dtype must be a string"},
      {"DtypeAList", file_of(one("[]", "[2]", "[0,8]"), kData8), "dtype must be a string"},
      {"ShapeAString", file_of(one("\"F32\"", "\"2\"", "[0,8]"), kData8), "shape must be"},
      {"ShapeANumber", file_of(one("\"F32\"", "2", "[0,8]"), kData8), "shape must be"},
      {"ShapeOfStrings", file_of(one("\"F32\"", "[\"2\"]", "[0,8]"), kData8), "shape must be"},
      {"ShapeNull", file_of(one("\"F32\"", "null", "[0,8]"), kData8), "found null"},
      {"ShapeOfObjects", file_of(one("\"F32\"", "[{}]", "[0,8]"), kData8), "found an object"},
      {"OffsetsAnObject", file_of(one("\"F32\"", "[2]", "{}"), kData8), "data_offsets must be"},
      {"OffsetsABoolean", file_of(one("\"F32\"", "[2]", "[0,true]"), kData8), "a boolean"},
      {"ATensorThatIsANumber", file_of("{\"x\":1}"), "must be an object"},
      {"AMissingField", file_of("{\"x\":{\"dtype\":\"F32\",\"shape\":[2]}}", kData8),
       "needs dtype"},
      {"AnUnknownField", file_of("{\"x\":{\"stride\":[1]}}"), "unknown field 'stride'"},
      {"MetadataANumber", file_of("{\"__metadata__\":{\"a\":1}}"), "must be a string"},
      {"MetadataAnObject", file_of("{\"__metadata__\":{\"a\":{}}}"), "must be a string"},
      {"MetadataNull", file_of("{\"__metadata__\":{\"a\":null}}"), "must be a string"},
      {"MetadataIsAList", file_of("{\"__metadata__\":[]}"), "must be an object"},
      {"U64OverAnInt64", file_of(one("\"U64\"", "[1]", "[0,8]"), std::string(8, '\xff')), "U64"},
      {"APickle", std::string("\x80\x02}q\0X\x01\0\0\0xq\x01K\x01s.", 17), "is over"},
      {"AZip", std::string("PK\x03\x04\x14\0\0\0\x08\0", 10), "is over"},
  };
}

class Reject : public testing::TestWithParam<Case> {};

TEST_P(Reject, WithOneClearLine) {
  reset_memory_peak();
  const int64_t before = memory_in_use();
  try {
    parse_safetensors(as_bytes(GetParam().bytes));
    FAIL() << "accepted";
  } catch (const Error& error) {
    const std::string line = error.what();
    EXPECT_NE(line.find(GetParam().says), std::string::npos) << line;
    EXPECT_EQ(line.find('\n'), std::string::npos) << line;
    EXPECT_LT(line.size(), 400u) << line;
  }
  EXPECT_LE(memory_peak() - before, 1 << 12);
}

TEST_P(Reject, FromAFileNamingIt) {
  const test::Folder folder;
  test::write_bytes(folder / "bad.safetensors", GetParam().bytes);
  try {
    load_safetensors(folder / "bad.safetensors");
    FAIL() << "accepted";
  } catch (const Error& error) {
    const std::string line = error.what();
    EXPECT_NE(line.find("bad.safetensors: "), std::string::npos) << line;
    EXPECT_NE(line.find(GetParam().says), std::string::npos) << line;
  }
}

INSTANTIATE_TEST_SUITE_P(Safetensors, Reject, testing::ValuesIn(cases()),
                         [](const auto& reject) { return reject.param.name; });

TEST(SafetensorsReject, NamesThatBreakALine) {
  const std::string name = "a\\nb\\u001b[31m" + std::string(5000, 'c');
  try {
    parse_safetensors(as_bytes(file_of("{\"" + name + "\":1}")));
    FAIL() << "accepted";
  } catch (const Error& error) {
    const std::string line = error.what();
    EXPECT_NE(line.find("'a\\x0ab\\x1b[31mccc"), std::string::npos) << line;
    EXPECT_LT(line.size(), 200u);
  }
}

TEST(SafetensorsReject, WhatIsNoFile) {
  const test::Folder folder;
  EXPECT_THROW(load_safetensors(folder / "absent"), Error);
  EXPECT_THROW(load_safetensors(folder / "."), Error);
  EXPECT_THROW(load_safetensors("/dev/zero"), Error);
  const std::filesystem::path pipe = folder / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_THROW(load_safetensors(pipe), Error);
}

// A sparse file of a terabyte whose header tells the truth about its size would be believed; one
// that lies about it must not be.
TEST(SafetensorsReject, ALieAboutASparseFile) {
  const test::Folder folder;
  const auto path = folder / "sparse.safetensors";
  test::write_bytes(path, file_of(one("\"F32\"", "[2]", "[0,8]")));
  std::filesystem::resize_file(path, uint64_t{1} << 40);
  reset_memory_peak();
  EXPECT_THROW(load_safetensors(path), Error);
  EXPECT_LE(memory_peak() - memory_in_use(), 1 << 12);
}

}  // namespace
}  // namespace fovea
