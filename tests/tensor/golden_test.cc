#include <fstream>
#include <nlohmann/json.hpp>

#include "on_device.h"
#include "tests/tensor/check.h"
#include "where.h"

// Against PyTorch's numbers: golden/make.py wrote them.
namespace fovea {
namespace {

using nlohmann::json;

Tensor tensor(const json& j) {
  return Tensor::from(j["values"].get<std::vector<float>>(), j["shape"].get<Shape>());
}

std::vector<double> values(const json& j) { return j["values"].get<std::vector<double>>(); }

const int64_t kTargets[] = {1, 4, -100, 0, 2};

Tensor run(const std::string& name, const Operands& x, BatchNorm& state) {
  const Tensor targets = Tensor::from_ids(kTargets, {5});
  if (name == "gelu") return gelu(x[0]);
  if (name == "layer_norm") return layer_norm(x[0], x[1], x[2]);
  if (name == "rms_norm") return rms_norm(x[0], x[1]);
  if (name == "batch_norm") return batch_norm(x[0], x[1], x[2], state, Mode::train);
  if (name == "cross_entropy") return cross_entropy(x[0], targets, {.label_smoothing = 0.1f});
  if (name == "cross_entropy_sum") {
    return cross_entropy(x[0], targets, {.reduction = Reduction::sum});
  }
  if (name == "conv2d") {
    return conv2d(x[0], x[1], x[2],
                  {.stride_y = 2, .pad_y = 1, .pad_x = 2, .dilation_x = 2, .groups = 2});
  }
  if (name == "conv1d") return conv1d(x[0], x[1], {}, {.stride = 2, .pad = 1});
  if (name == "max_pool2d") return max_pool2d(x[0], {3, 2, 2, 1, 1, 1});
  if (name == "avg_pool2d") return avg_pool2d(x[0], {3, 2, 2, 1, 1, 1});
  if (name == "elu") return elu(x[0], 0.5f);
  if (name == "log_softmax") return log_softmax(x[0], 0);
  throw Error("golden", "no case " + name);
}

TEST(Golden, Operations) {
  std::ifstream file(test::source_dir() + "/tests/tensor/golden/operations.json");
  ASSERT_TRUE(file);
  const json all = json::parse(file);
  ASSERT_EQ(all["cases"].size(), 12u);
  for (const std::string& set : test::tested_isas()) {
    use_isa(set);
    for (const json& c : all["cases"]) {
      SCOPED_TRACE(c["name"].get<std::string>() + " " + set);
      Operands inputs;
      for (const json& j : c["inputs"]) inputs.push_back(tensor(j).set_requires_grad());
      BatchNorm state;
      state.running_mean = Tensor::zeros({3});
      state.running_var = Tensor::full({3}, 1.0f);
      const Tensor y = run(c["name"], inputs, state);
      ASSERT_EQ(y.shape(), c["output"]["shape"].get<Shape>());
      expect_near(y.to_vector(), values(c["output"]), 1e-5, 2e-6, "value");
      y.backward(tensor(c["d_output"]));
      for (size_t i = 0; i < inputs.size(); ++i) {
        expect_near(inputs[i].grad().to_vector(), values(c["gradients"][i]), 1e-4, 5e-6,
                    "gradient " + std::to_string(i));
      }
      if (c["name"] == "batch_norm") {
        expect_near(state.running_mean.to_vector(), values(all["running"][0]), 1e-5, 1e-6, "mean");
        expect_near(state.running_var.to_vector(), values(all["running"][1]), 1e-5, 1e-6, "var");
      }
    }
  }
  use_isa("");
}

}  // namespace
}  // namespace fovea
