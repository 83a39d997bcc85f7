#include <gtest/gtest.h>

#include <memory>
#include <numeric>

#include "fovea/ops.h"

// Memory that is not the library's.
namespace fovea {
namespace {

std::shared_ptr<std::vector<float>> counting(int64_t n) {
  auto numbers = std::make_shared<std::vector<float>>(n);
  std::iota(numbers->begin(), numbers->end(), 0.0f);
  return numbers;
}

TEST(Borrow, SharesTheMemoryAndHoldsItsOwner) {
  auto numbers = counting(6);
  std::weak_ptr<std::vector<float>> alive = numbers;
  float* data = numbers->data();
  Tensor t = Tensor::borrow(data, {2, 3}, {3, 1}, std::move(numbers));
  EXPECT_EQ(t.data<float>(), data);
  EXPECT_TRUE(t.is_contiguous());
  const Tensor row = t.select(0, 1);
  t = {};
  ASSERT_FALSE(alive.expired());
  data[5] = 50;
  EXPECT_EQ(row.to_vector(), (std::vector<float>{3, 4, 50}));
}

TEST(Borrow, TheOwnerGoesWithTheLastTensor) {
  auto numbers = counting(6);
  std::weak_ptr<std::vector<float>> alive = numbers;
  float* data = numbers->data();
  Tensor t = Tensor::borrow(data, {6}, {1}, std::move(numbers));
  Tensor view = t.slice(0, 2, 4);
  t = {};
  EXPECT_FALSE(alive.expired());
  view = {};
  EXPECT_TRUE(alive.expired());
}

TEST(Borrow, AnyStrides) {
  const auto numbers = counting(6);
  float* data = numbers->data();
  const Tensor columns = Tensor::borrow(data, {3, 2}, {1, 3}, nullptr);
  EXPECT_FALSE(columns.is_contiguous());
  EXPECT_EQ(columns.to_vector(), (std::vector<float>{0, 3, 1, 4, 2, 5}));
  const Tensor backwards = Tensor::borrow(data + 5, {6}, {-1}, nullptr);
  EXPECT_EQ(backwards.to_vector(), (std::vector<float>{5, 4, 3, 2, 1, 0}));
  EXPECT_EQ(backwards.as_strided({2}, {1}, -5).to_vector(), (std::vector<float>{0, 1}));
  EXPECT_THROW(backwards.as_strided({2}, {1}, 0), Error);  // one past the end
  const Tensor same = Tensor::borrow(data + 2, {2, 2}, {0, 0}, nullptr);
  EXPECT_EQ(same.to_vector(), (std::vector<float>{2, 2, 2, 2}));
}

TEST(Borrow, IsALeafLikeAnyOther) {
  const auto numbers = counting(4);
  Tensor t = Tensor::borrow(numbers->data(), {2, 2}, {1, 2}, nullptr);
  t.set_requires_grad();
  sum(t * t).backward();
  EXPECT_EQ(t.grad().to_vector(), (std::vector<float>{0, 4, 2, 6}));
}

TEST(Borrow, OtherTypesAndNothing) {
  int64_t ids[] = {4, 5};
  EXPECT_EQ(Tensor::borrow(ids, {2}, {1}, nullptr, DType::i64).to_ids(),
            (std::vector<int64_t>{4, 5}));
  EXPECT_EQ(Tensor::borrow(nullptr, {0, 3}, {3, 1}, nullptr).numel(), 0);
}

TEST(Borrow, WhatCannotBeIsRefused) {
  float x = 0;
  EXPECT_THROW(Tensor::borrow(&x, {1, 2}, {1}, nullptr), Error);
  EXPECT_THROW(Tensor::borrow(nullptr, {1}, {1}, nullptr), Error);
  EXPECT_THROW(Tensor::borrow(&x, {-1}, {1}, nullptr), Error);
  EXPECT_THROW(Tensor::borrow(&x, {3}, {INT64_MAX / 2 + 1}, nullptr), Error);
  EXPECT_THROW(Tensor::borrow(&x, {2}, {INT64_MIN}, nullptr), Error);
}

}  // namespace
}  // namespace fovea
