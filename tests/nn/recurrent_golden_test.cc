#include <gtest/gtest.h>

#include <cmath>

#include "core/allocator.h"
#include "fovea/io.h"
#include "fovea/nn.h"
#include "fovea/ops.h"
#include "fovea/runtime.h"
#include "on_device.h"
#include "tests/nn/check.h"
#include "where.h"

// Against PyTorch's numbers: golden/make_recurrent.py wrote them.
namespace fovea::nn {
namespace {

constexpr int64_t kInput = 5, kHidden = 11, kLayers = 2;

const Tensors& golden_recurrent() {
  static const auto all =
      load_safetensors(test::source_dir() + "/tests/nn/golden/recurrent.safetensors");
  return all;
}

struct Run {
  Weights weights;
  Tensor x;
  Recurrent::Output out;
};

// Forward and backward with PyTorch's weights; padded steps of x hold `padding`.
Run run(Cell cell, float padding) {
  const std::string name = name_of(cell);
  Run r;
  const Recurrent net = recurrent(r.weights, "net", {cell, kInput, kHidden, kLayers, true});
  r.weights.load(below(golden_recurrent(), name + "/weights/", "net."));
  const Tensor lengths = golden_recurrent().at("lengths"), x = golden_recurrent().at(name + "/x");
  const Tensor valid = less(Tensor::arange(x.size(0)).unsqueeze(1), lengths.unsqueeze(0));
  r.x = where(valid.unsqueeze(2), x, Tensor::full(x.shape(), padding)).set_requires_grad();
  r.out = net(r.x, lengths);
  Tensor loss = sum(r.out.sequence * golden_recurrent().at(name + "/d_sequence"));
  for (int64_t l = 0; l < kLayers; ++l) {
    loss = loss + sum(r.out.last[l].h * golden_recurrent().at(name + "/d_h").select(0, l));
    if (cell == Cell::lstm) {
      loss = loss + sum(r.out.last[l].c * golden_recurrent().at(name + "/d_c").select(0, l));
    }
  }
  loss.backward();
  return r;
}

void expect_golden(Cell cell, const Run& r) {
  const std::string name = name_of(cell);
  expect_near(r.out.sequence, golden_recurrent().at(name + "/sequence"), "sequence");
  for (int64_t l = 0; l < kLayers; ++l) {
    expect_near(r.out.last[l].h, golden_recurrent().at(name + "/h").select(0, l), "h");
    if (cell == Cell::lstm) {
      expect_near(r.out.last[l].c, golden_recurrent().at(name + "/c").select(0, l), "c");
    } else {
      EXPECT_FALSE(r.out.last[l].c);
    }
  }
  expect_near(r.x.grad(), golden_recurrent().at(name + "/gradients/x"), "gradient of x");
  for (const auto& [key, t] : r.weights.all()) {
    ASSERT_TRUE(t.grad()) << key;
    expect_near(t.grad(), golden_recurrent().at(name + "/gradients/" + key.substr(4)),
                "gradient of " + key);
  }
}

class Golden : public testing::TestWithParam<Cell> {
 protected:
  void SetUp() override { poison_memory(true); }
  void TearDown() override {
    poison_memory(false);
    use_isa("");
  }
};

TEST_P(Golden, ValuesAndGradientsOnEveryInstructionSet) {
  for (const std::string& set : test::tested_isas()) {
    SCOPED_TRACE(set);
    use_isa(set);
    expect_golden(GetParam(), run(GetParam(), 0.0f));
  }
}

TEST_P(Golden, PaddingHasNoInfluence) { expect_golden(GetParam(), run(GetParam(), NAN)); }

INSTANTIATE_TEST_SUITE_P(Cells, Golden, testing::Values(Cell::rnn, Cell::gru, Cell::lstm),
                         [](const auto& cell) { return name_of(cell.param); });

}  // namespace
}  // namespace fovea::nn
