#include <gtest/gtest.h>

#include <cmath>

#include "fovea/ops.h"
#include "tensor/impl.h"
#include "tests/device/shadow.h"
#include "tests/errors.h"

// Tensors on a device that is none of the CPU's (tests/device/shadow.h), while others are on it.
namespace fovea {
namespace {

using test::error_of;

class OnADevice : public testing::Test {
 protected:
  OnADevice() : host_(Device::cpu) { kernels::use_kernels(Device::cuda, &test::shadow_kernels()); }

 private:
  DefaultDevice host_;
};

Tensor there(const Shape& shape, uint64_t seed) {
  return Tensor::randn(shape, seed).to(Device::cuda);
}

TEST_F(OnADevice, TensorsGoThereAndBack) {
  const Tensor x = Tensor::randn({3, 4}, 1), y = x.transpose(0, 1).to(Device::cuda);
  EXPECT_EQ(x.device(), Device::cpu);
  EXPECT_EQ(y.device(), Device::cuda);
  EXPECT_EQ(y.shape(), (Shape{4, 3}));
  EXPECT_EQ(y.to_vector(), x.transpose(0, 1).to_vector());
  EXPECT_EQ(y.select(0, 1).to(Device::cpu).to_vector(), x.select(1, 1).to_vector());
  EXPECT_EQ(y.to(Device::cuda).impl(), y.impl());
  EXPECT_EQ(y.slice(0, 1, 2).slice(1, 2, 3).item(), x.to_vector()[2 * 4 + 1]);
  EXPECT_EQ(Tensor::zeros({0, 3}).to(Device::cuda).numel(), 0);
  const Tensor ids = Tensor::from_ids(std::vector<int64_t>{5, 7}, {2}).to(Device::cuda);
  EXPECT_EQ(ids.to_ids(), (std::vector<int64_t>{5, 7}));
}

TEST_F(OnADevice, TheHostDoesNotRead) {
  const Tensor x = there({2}, 1);
  EXPECT_EQ(error_of([&] { x.data<float>(); }),
            "[data] the tensor is on cuda, where the host cannot read; take to(Device::cpu)");
  EXPECT_THROW(Tensor(x).mutable_data<float>(), Error);
  const volatile float* const numbers = raw(x);
  EXPECT_DEATH((void)*numbers, "host code touched memory of the device");
}

TEST_F(OnADevice, CallsAreHeldToWhatTheyAreGiven) {
  const Tensor x = there({64}, 1);
  float here = 0;
  const kernels::Kernels& shadow = kernels::on(Device::cuda);
  EXPECT_EQ(error_of([&] { shadow.fill(1, 1.0f, &here); }),
            "[shadow] a call points to memory of the host");
  EXPECT_DEATH(shadow.fill(1 << 20, 1.0f, raw(x)), "a call went beyond what it was given");
}

TEST_F(OnADevice, ResultsAreWhereInputsAre) {
  const Tensor x = there({4, 6}, 1), w = there({3, 6}, 2), b = there({3}, 3);
  for (const Tensor& t : {x + 1.0f, 2.0f / x, x * x, softmax(x), sum(x, {0}), max(x, {1}),
                          linear(x, w, b), matmul(x, w.transpose(0, 1)), layer_norm(x, {}, {}),
                          dropout(x, 0.5f, 1), pad(x, 0, 1, 1, 2.0f), concatenate({x, x}, 0),
                          less(x, x).to(DType::f32), pow(x * x, 2.0f), clamp(x, -1, 1)}) {
    EXPECT_EQ(t.device(), Device::cuda);
    for (const float v : t.to_vector()) EXPECT_TRUE(std::isfinite(v));
  }
  EXPECT_EQ(argmax(x, 1).device(), Device::cpu);  // ids are the host's
}

TEST_F(OnADevice, FloatsOfTwoDevicesDoNotMeet) {
  const Tensor x = there({4, 6}, 1), y = Tensor::randn({4, 6}, 2);
  EXPECT_EQ(error_of([&] { x + y; }),
            "[add] tensors of shapes [4, 6] and [4, 6] are on cuda and cpu; bring them together "
            "with to()");
  EXPECT_THROW(matmul(x, y.transpose(0, 1)), Error);
  EXPECT_THROW(linear(x, y), Error);
  EXPECT_THROW(layer_norm(x, y.select(0, 0), {}), Error);
  EXPECT_THROW(concatenate({x, y}, 0), Error);
  EXPECT_THROW(where(less(x, x), x, y), Error);
  EXPECT_THROW(Tensor(x).add_(y), Error);
  EXPECT_THROW((x * x).backward(y), Error);
}

// Ids and masks that the host made are brought along.
TEST_F(OnADevice, IdsAndMasksComeAlong) {
  const Tensor x = Tensor::randn({5, 3}, 1), d = x.to(Device::cuda);
  const Tensor ids = Tensor::from_ids(std::vector<int64_t>{4, 0, 4}, {3});
  const Tensor mask = Tensor::from_bools(std::vector<uint8_t>{1, 0, 1}, {3});
  EXPECT_EQ(embedding(d, ids).to_vector(), embedding(x, ids).to_vector());
  EXPECT_EQ(where(mask, d, d * 2.0f).to_vector(), where(mask, x, x * 2.0f).to_vector());
  const Tensor targets = Tensor::from_ids(std::vector<int64_t>{0, 1, 2, -100, 0}, {5});
  EXPECT_FLOAT_EQ(cross_entropy(d, targets).item(), cross_entropy(x, targets).item());
  EXPECT_THROW(embedding(d, Tensor::from_ids(std::vector<int64_t>{9}, {1})), Error);
}

TEST_F(OnADevice, GradientsGoBackToWhereATensorCameFrom) {
  Tensor x = Tensor::randn({3, 4}, 1);
  x.set_requires_grad();
  const Tensor loss = sum(square(x.to(Device::cuda)));
  EXPECT_EQ(loss.device(), Device::cuda);
  loss.backward();
  ASSERT_EQ(x.grad().device(), Device::cpu);
  EXPECT_EQ(x.grad().to_vector(), (x.detach() * 2.0f).to_vector());
}

TEST_F(OnADevice, FloatsAreMadeOnTheDefaultDevice) {
  const Tensor before = Tensor::randn({2, 3}, 4);
  const DefaultDevice now(Device::cuda);
  const std::vector<float> some{1, 2};
  for (const Tensor& t : {Tensor::zeros({2}), Tensor::full({2}, 3.0f), Tensor::from(some, {2}),
                          Tensor::rand({2}, 1), Tensor::scalar(1.0f)}) {
    EXPECT_EQ(t.device(), Device::cuda);
  }
  EXPECT_EQ(Tensor::zeros({2}, DType::i64).device(), Device::cpu);
  EXPECT_EQ(Tensor::zeros({2}, DType::boolean).device(), Device::cpu);
  EXPECT_EQ(Tensor::arange(3).to(DType::f32).device(), Device::cuda);
  EXPECT_EQ(Tensor::randn({2, 3}, 4).to_vector(), before.to_vector());
  Tensor copy = Tensor::zeros({2, 3});
  copy.copy_(before);
  EXPECT_EQ(copy.to_vector(), before.to_vector());
}

TEST(Devices, AreKnownByName) {
  EXPECT_EQ(device("cpu"), Device::cpu);
  EXPECT_EQ(device("cuda"), Device::cuda);
  EXPECT_EQ(error_of([] { device("gpu"); }),
            "[device] there is no device \"gpu\"; there are cpu, cuda and auto");
  EXPECT_EQ(devices()[0], Device::cpu);
  EXPECT_EQ(describe(Device::cpu), "CPU");
  EXPECT_EQ(describe(Device::cuda).find("[cuda]"), std::string::npos)
      << "a sentence, without the call";
}

}  // namespace
}  // namespace fovea
