// What loads, what is written, and that nothing crashes in between.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>

#include "fovea/io.h"
#include "io/atomic_file.h"
#include "io/files.h"
#include "io/metadata.h"
#include "tests/errors.h"
#include "where.h"

namespace fovea {
namespace {

using test::as_bytes;
using test::error_of;
using test::file_of;
using test::Folder;
using test::has;
using test::read_bytes;

std::filesystem::path golden(const std::string& name) {
  return std::filesystem::path(test::source_dir()) / "tests/io/golden" / name;
}

Tensors same_bytes() {
  return {{"b", Tensor::from({0, 0.25f, 0.5f, 0.75f, 1, 1.25f}, {2, 3})},
          {"a", Tensor::from({0.5f, -1}, {2})},
          {"ids", Tensor::from_ids(std::vector<int64_t>{1, -2, 3, int64_t{1} << 40}, {2, 2})},
          {"seen", Tensor::from_bools(std::vector<uint8_t>{1, 0, 1}, {3})},
          {"none", Tensor::zeros({2, 0})},
          {"one", Tensor::scalar(-3.25f)}};
}
const Metadata kMadeBy = {{"made by", "a test"}};

std::vector<uint8_t> bools(const Tensor& t) {
  return {t.data<uint8_t>(), t.data<uint8_t>() + t.numel()};
}

std::vector<double> contents(const Tensor& t) {
  if (t.dtype() == DType::boolean) {
    const std::vector<uint8_t> x = bools(t);
    return {x.begin(), x.end()};
  }
  if (t.dtype() == DType::i64) {
    const std::vector<int64_t> x = t.to_ids();
    return {x.begin(), x.end()};
  }
  const std::vector<float> x = t.to_vector();
  return {x.begin(), x.end()};
}

void expect_same(const Tensors& found, const Tensors& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (const auto& [name, tensor] : expected) {
    ASSERT_TRUE(found.contains(name)) << name;
    const Tensor& other = found.at(name);
    ASSERT_EQ(other.shape(), tensor.shape()) << name;
    ASSERT_EQ(other.dtype(), tensor.dtype()) << name;
    EXPECT_EQ(contents(other), contents(tensor)) << name;
  }
}

TEST(Safetensors, ReadsEveryDtypeThatPythonWrites) {
  const TensorFile file = read_safetensors(golden("every_dtype.safetensors"));
  EXPECT_EQ(file.metadata, (Metadata{{"a key", "a text"}}));
  const Tensors& t = file.tensors;
  const std::vector<float> exact = {0.0f, -0.0f, 1.5f, -2.25f, 0.333251953125f, 65504.0f};
  for (const std::string type : {"f16", "f32", "f64"}) {
    EXPECT_EQ(t.at("f_" + type).to_vector(), exact) << type;
    EXPECT_EQ(t.at("f_" + type).shape(), (Shape{2, 3}));
    EXPECT_TRUE(std::signbit(t.at("f_" + type).to_vector()[1])) << type;
  }
  EXPECT_EQ(t.at("f_bf16").to_vector(),
            (std::vector<float>{0.0f, -0.0f, 1.5f, -2.25f, 0.333984375f, 65536.0f}));
  for (const std::string type : {"f16", "bf16", "f32", "f64"}) {
    const std::vector<float> special = t.at("special_" + type).to_vector();
    EXPECT_EQ(special[0], std::numeric_limits<float>::infinity()) << type;
    EXPECT_EQ(special[1], -std::numeric_limits<float>::infinity()) << type;
    EXPECT_TRUE(std::isnan(special[2])) << type;
    EXPECT_EQ(special[3], 0x1p-24f) << type;  // the smallest subnormal half
  }
  using Ids = std::vector<int64_t>;
  EXPECT_EQ(t.at("i_u8").to_ids(), (Ids{0, 0, 1, 255}));
  EXPECT_EQ(t.at("i_i8").to_ids(), (Ids{-128, 0, 1, 127}));
  EXPECT_EQ(t.at("i_u16").to_ids(), (Ids{0, 0, 1, 65535}));
  EXPECT_EQ(t.at("i_i16").to_ids(), (Ids{-32768, 0, 1, 32767}));
  EXPECT_EQ(t.at("i_u32").to_ids(), (Ids{0, 0, 1, 4294967295}));
  EXPECT_EQ(t.at("i_i32").to_ids(), (Ids{INT32_MIN, 0, 1, INT32_MAX}));
  EXPECT_EQ(t.at("i_u64").to_ids(), (Ids{0, 0, 1, INT64_MAX}));
  EXPECT_EQ(t.at("i_i64").to_ids(), (Ids{INT64_MIN, 0, 1, INT64_MAX}));
  EXPECT_EQ(t.at("bool").dtype(), DType::boolean);
  EXPECT_EQ(bools(t.at("bool")), (std::vector<uint8_t>{1, 0, 0, 1}));
  EXPECT_EQ(t.at("empty").shape(), (Shape{2, 0}));
  EXPECT_EQ(t.at("scalar").shape(), Shape{});
  EXPECT_EQ(t.at("scalar").item(), 3.5f);
  EXPECT_EQ(t.at("ünïcode \"quoted\"\\").item(), 7.0f);
  EXPECT_EQ(t.size(), 20u);
}

TEST(Safetensors, WritesThePythonPackagesBytes) {
  const Folder folder;
  save_safetensors(folder / "out", same_bytes(), kMadeBy);
  EXPECT_EQ(read_bytes(folder / "out"), read_bytes(golden("same_bytes.safetensors")));
  EXPECT_EQ(folder.files(), 1);
}

TEST(Safetensors, RoundTrip) {
  const Folder folder;
  Tensors tensors = same_bytes();
  tensors["na\nme \"ü\""] = Tensor::randn({3, 5, 7}, 1);
  save_safetensors(folder / "out", tensors, {{"k\"ey", "tex\\t\n"}, {"", ""}});
  const TensorFile file = read_safetensors(folder / "out");
  expect_same(file.tensors, tensors);
  EXPECT_EQ(file.metadata, (Metadata{{"k\"ey", "tex\\t\n"}, {"", ""}}));
}

// Written as they are; read, they are floats.
TEST(Safetensors, WritesSixteenBitsAsTheyAre) {
  const Tensor x = Tensor::from({1.0f, -2.5f, 0.333f, 1e-3f, 7.0f, 0.0f}, {2, 3});
  const Folder folder;
  const auto file = folder / "narrow";
  save_safetensors(file, {{"b", x.to(DType::bf16)}, {"h", x.to(DType::f16)}, {"f", x}});
  const Tensors found = load_safetensors(file);
  EXPECT_EQ(found.at("b").to_vector(), x.to(DType::bf16).to(DType::f32).to_vector());
  EXPECT_EQ(found.at("h").to_vector(), x.to(DType::f16).to(DType::f32).to_vector());
  EXPECT_EQ(found.at("f").to_vector(), x.to_vector());
  EXPECT_THROW(save_safetensors(file, {{"q", x.to(DType::i8)}}), Error);
}

TEST(Safetensors, ReadsTheNamesThatAreAskedFor) {
  const Folder folder;
  save_safetensors(folder / "out", {{"a", Tensor::full({2}, 1.0f)},
                                    {"b", Tensor::full({1, 3}, 2.0f)},
                                    {"c", Tensor::full({2}, 3.0f)}});
  const Tensors some = load_safetensors(folder / "out", {"c", "a", "z", "a"});
  expect_same(some, {{"a", Tensor::full({2}, 1.0f)}, {"c", Tensor::full({2}, 3.0f)}});
  EXPECT_TRUE(load_safetensors(folder / "out", {}).empty());
  const Tensors sketch = sketch_safetensors(folder / "out");
  ASSERT_EQ(sketch.size(), 3u);
  EXPECT_EQ(sketch.at("b").shape(), (Shape{1, 3}));
  EXPECT_EQ(sketch.at("b").strides(), (Shape{0, 0}));  // a number stands for all
  EXPECT_TRUE(has(error_of([&] { load_safetensors(folder / "none", {"a"}); }), "none: No such"));
}

TEST(Safetensors, WritesViewsInRowMajorOrder) {
  const Folder folder;
  const Tensor x = Tensor::randn({4, 6}, 2);
  save_safetensors(folder / "out", {{"t", x.transpose(0, 1)}, {"s", x.slice(1, 1, 6, 2)}});
  const Tensors back = load_safetensors(folder / "out");
  EXPECT_EQ(back.at("t").to_vector(), x.transpose(0, 1).to_vector());
  EXPECT_EQ(back.at("s").to_vector(), x.slice(1, 1, 6, 2).to_vector());
}

TEST(Safetensors, LoadsOddButValidFiles) {
  EXPECT_TRUE(parse_safetensors(as_bytes(file_of("{}"))).tensors.empty());
  EXPECT_TRUE(parse_safetensors(as_bytes(file_of("{}      "))).tensors.empty());
  EXPECT_TRUE(parse_safetensors(as_bytes(file_of("{\"__metadata__\":{}}"))).metadata.empty());
  // Any order in the header, offsets unaligned, BOOL bytes that are neither 0 nor 1.
  const TensorFile file = parse_safetensors(
      as_bytes(file_of("{\"y\":{\"shape\":[1],\"data_offsets\":[3,7],\"dtype\":\"F32\"},"
                       "\"x\":{\"dtype\":\"BOOL\",\"shape\":[3],\"data_offsets\":[0,3]},"
                       "\"e\":{\"dtype\":\"F32\",\"shape\":[2,0],\"data_offsets\":[3,3]}}",
                       std::string("\0\x07\x01\0\0\x80?", 7))));
  EXPECT_EQ(file.tensors.at("y").item(), 1.0f);
  EXPECT_EQ(bools(file.tensors.at("x")), (std::vector<uint8_t>{0, 1, 1}));
}

TEST(Safetensors, LongTensorsAreConvertedInBlocks) {
  const int64_t n = 20'001;
  std::string data;
  for (int64_t i = 0; i < n; ++i) {
    const int16_t x = static_cast<int16_t>(i);
    data.append(reinterpret_cast<const char*>(&x), 2);
  }
  const TensorFile file = parse_safetensors(as_bytes(
      file_of("{\"x\":{\"dtype\":\"I16\",\"shape\":[20001],\"data_offsets\":[0,40002]}}", data)));
  const std::vector<int64_t> ids = file.tensors.at("x").to_ids();
  for (int64_t i = 0; i < n; ++i) ASSERT_EQ(ids[i], i);
}

// Loads or throws fovea::Error; anything else escapes and fails the test.
bool loads(const std::string& bytes) {
  try {
    parse_safetensors(as_bytes(bytes));
    return true;
  } catch (const Error&) {
    return false;
  }
}

TEST(Safetensors, EveryTruncationIsRejected) {
  for (const char* name : {"same_bytes.safetensors", "every_dtype.safetensors"}) {
    const std::string whole = read_bytes(golden(name));
    ASSERT_TRUE(loads(whole));
    for (size_t n = 0; n < whole.size(); ++n) ASSERT_FALSE(loads(whole.substr(0, n))) << n;
  }
}

TEST(Safetensors, EverySingleByteFlipLoadsOrIsRejected) {
  std::string bytes = read_bytes(golden("same_bytes.safetensors"));
  int loaded = 0;
  for (size_t i = 0; i < bytes.size(); ++i) {
    const char kept = bytes[i];
    for (int value = 0; value < 256; ++value) {
      bytes[i] = static_cast<char>(value);
      loaded += loads(bytes) ? 1 : 0;
    }
    bytes[i] = kept;
  }
  EXPECT_GT(loaded, 256 * 71);  // at least every change of the 71 data bytes
  EXPECT_LT(loaded, 256 * static_cast<int>(bytes.size()));
}

TEST(Safetensors, SavingOverTheMappedFileKeepsBothWhole) {
  const Folder folder;
  const auto path = folder / "model";
  save_safetensors(path, {{"x", Tensor::full({1000}, 1.0f)}});
  const std::string before = read_bytes(path);
  const int file = ::open(path.c_str(), O_RDONLY);
  void* mapped = ::mmap(nullptr, before.size(), PROT_READ, MAP_SHARED, file, 0);
  ASSERT_NE(mapped, MAP_FAILED);

  Tensors loaded = load_safetensors(path);
  loaded["y"] = Tensor::full({500}, 2.0f);
  save_safetensors(path, loaded);

  EXPECT_EQ(std::memcmp(mapped, before.data(), before.size()), 0);
  expect_same(load_safetensors(path), loaded);
  EXPECT_EQ(load_safetensors(path).at("x").to_vector(), std::vector<float>(1000, 1.0f));
  EXPECT_EQ(folder.files(), 1);
  ::munmap(mapped, before.size());
  ::close(file);
}

TEST(Safetensors, AFailedSaveLeavesNothing) {
  const Folder folder;
  EXPECT_THROW(save_safetensors(folder / "absent/out", same_bytes()), Error);
  EXPECT_THROW(save_safetensors(folder / "x", {{"__metadata__", Tensor::zeros({1})}}), Error);
  EXPECT_THROW(save_safetensors(folder / "x", {{"undefined", Tensor()}}), Error);
  EXPECT_THROW(save_safetensors(folder / "x", {{"\xff", Tensor::zeros({1})}}), Error);
  EXPECT_THROW(save_safetensors(folder / "x", same_bytes(), {{"k", "\xff"}}), Error);
  EXPECT_THROW(save_safetensors(folder / ".", same_bytes()), Error);
  EXPECT_THROW(save_safetensors("/dev/null", same_bytes()), Error);
  EXPECT_EQ(folder.files(), 0);
}

TEST(AtomicFile, WithoutCommitTheOldFileStays) {
  const Folder folder;
  test::write_bytes(folder / "f", "old");
  {
    AtomicFile file(folder / "f");
    file.write("new", 3);
    EXPECT_EQ(folder.files(), 2);
  }
  EXPECT_EQ(read_bytes(folder / "f"), "old");
  EXPECT_EQ(folder.files(), 1);
}

TEST(AtomicFile, WritesThroughALink) {
  const Folder folder;
  test::write_bytes(folder / "real", "old");
  std::filesystem::create_symlink("real", folder / "link");
  AtomicFile file(folder / "link");
  file.write("new", 3);
  file.commit();
  EXPECT_TRUE(std::filesystem::is_symlink(folder / "link"));
  EXPECT_EQ(read_bytes(folder / "real"), "new");
}

TEST(ExpectShape, NamesTensorExpectedAndFound) {
  const Tensor x = Tensor::zeros({2, 3});
  EXPECT_NO_THROW(expect_shape("w_q", x, {2, 3}));
  EXPECT_NO_THROW(expect_shape("w_q", x, {-1, 3}));
  EXPECT_THROW(expect_shape("w_q", x, {2}), Error);
  EXPECT_THROW(expect_shape("w_q", Tensor(), {2}), Error);
  try {
    expect_shape("w_q", x, {4, 3});
    FAIL();
  } catch (const Error& error) {
    const std::string line = error.what();
    for (const char* part : {"'w_q'", "[4, 3]", "[2, 3]"}) {
      EXPECT_NE(line.find(part), std::string::npos) << line;
    }
  }
}

}  // namespace
}  // namespace fovea
