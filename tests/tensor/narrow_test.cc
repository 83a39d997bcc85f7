// Weights that nobody learns, in 16 and 8 bits.
#include <gtest/gtest.h>

#include <new>

#include "errors.h"
#include "fovea/ops.h"
#include "fovea/runtime.h"
#include "tensor/impl.h"

namespace fovea {
namespace {

using test::error_of;
using test::has;

constexpr DType kNarrow[] = {DType::bf16, DType::f16, DType::i8};

// What a row of n products with weights is off by, in float32, and besides.
void expect_close(const Tensor& found, const Tensor& expected, const std::vector<float>& off = {}) {
  ASSERT_EQ(found.shape(), expected.shape());
  const std::vector<float> a = found.to_vector(), b = expected.to_vector();
  for (size_t i = 0; i < a.size(); ++i) {
    ASSERT_NEAR(a[i], b[i], 2e-5f + (off.empty() ? 0.0f : off[i])) << i;
  }
}

// Many rows of x become 8 bits too where weights have 8: max|x|/254·Σ|w| at most, for rows of one
// part [B,L,65].
std::vector<float> off_in_bytes(const Tensor& x, const Tensor& w) {
  const Tensor most = max(abs(x.detach()), {-1}, Keep::yes), sizes = sum(abs(w), {1});
  return (most * sizes * (1.0f / 254.0f)).to_vector();
}

// And 16 bits where weights are bf16: 2⁻⁸·Σ|x·w| at most.
std::vector<float> off_in_bf16(const Tensor& x, const Tensor& w) {
  return (matmul(abs(x.detach()), abs(w).transpose(0, 1)) * 0x1p-8f).to_vector();
}

std::vector<float> off_of_many_rows(DType type, const Tensor& x, const Tensor& w) {
  if (type == DType::i8) return off_in_bytes(x, w);
  return type == DType::bf16 ? off_in_bf16(x, w) : std::vector<float>();
}

TEST(NarrowTensor, LinearIsThatOfTheSameWeightsInFloats) {
  const Tensor w = Tensor::randn({37, 65}, 1), bias = Tensor::randn({37}, 2);
  for (const DType type : kNarrow) {
    SCOPED_TRACE(name_of(type));
    const Tensor kept = w.to(type), floats = kept.to(DType::f32);
    EXPECT_EQ(kept.dtype(), type);
    for (const int64_t rows : {1, 3, 30}) {
      Tensor x = Tensor::randn({2, rows, 65}, 3), y = x.clone();
      x.set_requires_grad();
      y.set_requires_grad();
      const Tensor out = linear(x, kept, bias), expected = linear(y, floats, bias);
      const bool many = 2 * rows >= 20;
      expect_close(out, expected, many ? off_of_many_rows(type, x, floats) : std::vector<float>());
      const Tensor d = Tensor::randn(out.shape(), 4);
      out.backward(d);
      expected.backward(d);
      expect_close(x.grad(), y.grad());
    }
  }
}

TEST(NarrowTensor, EmbeddingTakesRows) {
  const Tensor table = Tensor::randn({9, 21}, 5);
  const Tensor ids = Tensor::from_ids(std::vector<int64_t>{8, 0, 3, 3, 7, 1}, {2, 3});
  for (const DType type : kNarrow) {
    const Tensor kept = table.to(type);
    EXPECT_EQ(embedding(kept, ids).to_vector(), embedding(kept.to(DType::f32), ids).to_vector());
    EXPECT_THROW(embedding(kept, Tensor::from_ids(std::vector<int64_t>{9}, {1})), Error);
  }
}

TEST(NarrowTensor, TakesTheMemoryOfItsBits) {
  const Tensor w = Tensor::randn({256, 1024}, 6);
  for (const DType type : kNarrow) {
    const int64_t before = memory_in_use();
    const Tensor kept = w.to(type);
    const int64_t own = 256 * 1024 * size_of(type);
    EXPECT_GE(memory_in_use() - before, own);
    EXPECT_LE(memory_in_use() - before, own + own / 8 + 4096);
    const Tensor x = Tensor::randn({1, 1024}, 7);
    reset_memory_peak();
    const int64_t held = memory_in_use();
    linear(x, kept);
    EXPECT_LE(memory_peak() - held, 64 * 1024) << "no copy of the weights";
  }
}

// The stride of a dimension of one element means nothing.
TEST(NarrowTensor, RowsFollowOneAnotherWhateverTheStrideOfOne) {
  const Tensor x = Tensor::randn({2, 1, 3, 4}, 5).transpose(1, 2);  // [2,3,1,4]
  ASSERT_TRUE(x.is_contiguous());
  const Tensor same = Tensor::from(x.to_vector(), x.shape());
  for (const DType type : kNarrow) {
    EXPECT_EQ(x.to(type).to(DType::f32).to_vector(), same.to(type).to(DType::f32).to_vector());
  }
}

TEST(NarrowTensor, IsNotLearnedAndNotComputedWithOtherwise) {
  const Tensor w = Tensor::randn({4, 8}, 8);
  for (const DType type : kNarrow) {
    Tensor kept = w.to(type);
    EXPECT_THROW(kept.set_requires_grad(), Error);
    EXPECT_THROW(kept + kept, Error);
    EXPECT_THROW(matmul(kept, kept), Error);
    EXPECT_THROW(kept.to_vector(), Error);
    EXPECT_EQ(kept.clone().to(DType::f32).to_vector(), kept.to(DType::f32).to_vector());
  }
  EXPECT_TRUE(has(error_of([&] { w.to(DType::i8).transpose(0, 1); }), "i8 weights have no views"));
  EXPECT_EQ(w.to(DType::bf16).transpose(0, 1).contiguous().to(DType::f32).to_vector(),
            w.to(DType::bf16).to(DType::f32).transpose(0, 1).contiguous().to_vector());
}

TEST(NarrowTensor, ADeviceWithoutTheTypeRefusesByName) {
  static kernels::Kernels plain;
  plain = kernels::kCpu;
  plain.takes = nullptr;
  plain.allocate = [](size_t bytes) { return ::operator new (bytes, std::align_val_t{64}); };
  plain.give_back = [](void* p) { ::operator delete (p, std::align_val_t{64}); };
  kernels::use_kernels(Device::cuda, &plain);
  {
    const Tensor x = Tensor::randn({1, 8}, 9).to(Device::cuda);
    const Tensor w = Tensor::randn({4, 8}, 10).to(DType::bf16).to(Device::cuda);
    EXPECT_TRUE(
        has(error_of([&] { linear(x, w); }), "weight is bf16, which cuda does not compute with"));
    EXPECT_TRUE(has(error_of([&] { embedding(w, Tensor::arange(2)); }),
                    "table is bf16, which cuda does not compute"));
    EXPECT_EQ(linear(x, w.to(DType::f32)).numel(), 4);
  }
  kernels::use_kernels(Device::cuda, nullptr);
}

}  // namespace
}  // namespace fovea
