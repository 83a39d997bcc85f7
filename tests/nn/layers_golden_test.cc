#include <gtest/gtest.h>

#include "core/allocator.h"
#include "fovea/io.h"
#include "fovea/layers.h"
#include "fovea/ops.h"
#include "fovea/runtime.h"
#include "on_device.h"
#include "tests/nn/check.h"
#include "where.h"

// Against PyTorch's numbers: golden/make_layers.py wrote them.
namespace fovea::nn {
namespace {

constexpr int64_t kWidth = 12, kHeads = 3, kMlp = 20;

const Tensors& golden_layers() {
  static const auto all =
      load_safetensors(test::source_dir() + "/tests/nn/golden/layers.safetensors");
  return all;
}

Tensor at(const std::string& name) { return golden_layers().at(name); }

constexpr double kForward = 1e-5, kGradient = 1e-4;

// The layer's output for PyTorch's weights and inputs, and all gradients.
template <class Forward>
void expect_golden(const std::string& name, Weights& weights, const Forward& forward) {
  weights.load(below(golden_layers(), name + "/weights/"));
  Tensors inputs;
  for (const char* input : {"x", "memory"}) {
    if (golden_layers().contains(name + "/" + input)) {
      inputs[input] = at(name + "/" + input).clone().set_requires_grad();
    }
  }
  const Tensor out = forward(inputs);
  expect_near(out, at(name + "/out"), name, kForward, kForward);
  out.backward(at(name + "/d_out"));
  for (const auto& [key, t] : inputs) {
    expect_near(t.grad(), at(name + "/gradients/" + key), "gradient of " + key, kGradient, 1e-5);
  }
  for (const auto& [key, t] : weights.learned()) {
    ASSERT_TRUE(t.grad()) << key;
    expect_near(t.grad(), at(name + "/gradients/" + key), "gradient of " + key, kGradient, 1e-5);
  }
}

class LayersGolden : public testing::Test {
 protected:
  void SetUp() override { poison_memory(true); }
  void TearDown() override {
    poison_memory(false);
    use_isa("");
  }
};

TEST_F(LayersGolden, SelfAttention) {
  for (const std::string& set : test::tested_isas()) {
    SCOPED_TRACE(set);
    use_isa(set);
    for (const bool causal : {false, true}) {
      Weights w;
      const MultiHead m = multi_head(w, "heads", {.width = kWidth, .heads = kHeads});
      HeadsPass pass;
      if (causal) pass.mask = masks::causal();
      expect_golden(causal ? "heads_causal" : "heads_self", w,
                    [&](const Tensors& in) { return m.self(in.at("x"), pass); });
    }
  }
}

TEST_F(LayersGolden, CrossAttention) {
  for (const bool padded : {false, true}) {
    Weights w;
    const MultiHead m =
        multi_head(w, "heads", {.width = kWidth, .heads = kHeads}, Looks::elsewhere);
    const Tensor lengths = padded ? at("lengths") : Tensor();
    expect_golden(padded ? "heads_padded" : "heads_cross", w, [&](const Tensors& in) {
      return m.cross(in.at("x"), m.project(in.at("memory"), lengths));
    });
  }
}

struct Layer {
  NormOrder order;
  Activation activation;
  bool cross;
};

class BlockGolden : public testing::TestWithParam<Layer> {};

std::string name_of(const Layer& l) {
  return std::string(l.cross ? "decoder" : "encoder") + "_" + name_of(l.order) + "_" +
         name_of(l.activation);
}

TEST_P(BlockGolden, ValuesAndGradients) {
  const Layer& l = GetParam();
  Weights w;
  const Block b = block(w, "block",
                        {.heads = {.width = kWidth, .heads = kHeads},
                         .mlp_width = kMlp,
                         .activation = l.activation,
                         .order = l.order,
                         .cross = l.cross});
  expect_golden(name_of(l), w, [&](const Tensors& in) {
    BlockPass pass;
    if (!l.cross) {
      const Tensor own = at("own"), x = in.at("x");
      pass.self.mask = masks::lengths(own);
      const Tensor counts = less(Tensor::arange(x.size(1)).unsqueeze(0), own.unsqueeze(1));
      return b(x, pass) * counts.to(DType::f32).unsqueeze(2);
    }
    const KeyValues source = b.cross.project(in.at("memory"), at("lengths"));
    pass.self.mask = masks::causal();
    pass.source = &source;
    return b(in.at("x"), pass);
  });
}

INSTANTIATE_TEST_SUITE_P(Layers, BlockGolden,
                         testing::Values(Layer{NormOrder::post, Activation::relu, false},
                                         Layer{NormOrder::pre, Activation::relu, false},
                                         Layer{NormOrder::post, Activation::gelu, false},
                                         Layer{NormOrder::pre, Activation::gelu, false},
                                         Layer{NormOrder::post, Activation::relu, true},
                                         Layer{NormOrder::pre, Activation::relu, true}),
                         [](const auto& l) { return name_of(l.param); });

}  // namespace
}  // namespace fovea::nn
