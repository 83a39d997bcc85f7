#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "fovea/explain.h"
#include "fovea/io.h"
#include "fovea/nn.h"
#include "fovea/ops.h"
#include "where.h"

// Against Captum's numbers on the same weights: golden/make.py wrote them.
namespace fovea::explain {
namespace {

const Tensors& golden() {
  static const auto all =
      load_safetensors(test::source_dir() + "/tests/explain/golden/captum.safetensors");
  return all;
}

Tensor of(const std::string& name) { return golden().at(name); }

Tensor pictures_maps(const Tensor& x) {
  const auto w = [](const char* name) { return of(std::string("pictures/weights/") + name); };
  const Tensor first =
      relu(conv2d(x, w("first.weight"), w("first.bias"), {.pad_y = 1, .pad_x = 1}));
  return relu(conv2d(first, w("second.weight"), w("second.bias"),
                     {.stride_y = 2, .stride_x = 2, .pad_y = 1, .pad_x = 1}));
}

Tensor pictures_output(const Tensor& maps) {
  const Tensor flat = maps.reshape({maps.size(0), 80});
  return log_softmax(
      linear(flat, of("pictures/weights/output.weight"), of("pictures/weights/output.bias")));
}

Tensor words(const Tensor& x) {
  static nn::Weights weights;
  static const nn::Recurrent net = [] {
    nn::Recurrent made = nn::recurrent(
        weights, "net", {.cell = nn::Cell::gru, .input = 5, .hidden = 7, .bidirectional = true});
    Tensors from;
    const std::string prefix = "words/weights/net.";
    for (const auto& [name, t] : golden()) {
      if (name.starts_with(prefix)) from["net." + name.substr(prefix.size())] = t;
    }
    weights.load(from);
    return made;
  }();
  const Tensor v = mean(tanh(net(x.transpose(0, 1)).sequence), {0});
  return log_softmax(linear(v, of("words/weights/output.weight"), of("words/weights/output.bias")));
}

struct Model {
  std::string name;
  Outputs outputs;
  int64_t target;
};
std::vector<Model> both() {
  return {{"pictures", [](const Tensor& x) { return pictures_output(pictures_maps(x)); }, 1},
          {"words", words, 2}};
}

// To 1e-4 of the largest.
void expect_golden(const Tensor& found, const std::string& name) {
  const Tensor expected = of(name);
  ASSERT_EQ(found.shape(), expected.shape()) << name;
  const std::vector<float> a = found.to_vector(), b = expected.to_vector();
  float largest = 0;
  for (const float x : b) largest = std::max(largest, std::abs(x));
  ASSERT_GT(largest, 0.01f) << name;
  for (size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 1e-4f * largest) << name << i;
}

TEST(Captum, OutputsAreTheSame) {
  for (const Model& m : both()) {
    expect_golden(m.outputs(of(m.name + "/x").unsqueeze(0)).select(0, 0), m.name + "/y");
  }
}

TEST(Captum, SaliencyIsTheSame) {
  for (const Model& m : both()) {
    const Tensor x = of(m.name + "/x");
    expect_golden(saliency(m.outputs, x, m.target).values, m.name + "/plain");
    expect_golden(saliency(m.outputs, x, m.target, {.kind = Saliency::times_input}).values,
                  m.name + "/times_input");
  }
}

TEST(Captum, IntegratedGradientsAreTheSameAndComplete) {
  for (const Model& m : both()) {
    const Tensor x = of(m.name + "/x"), blank = of(m.name + "/blank");
    SaliencyConfig c{.kind = Saliency::integrated, .baseline = blank};
    const Attribution few = saliency(m.outputs, x, m.target, c);
    EXPECT_LE(few.missing, 0.01) << m.name;
    const NoGrad off;
    const std::vector<float> ends = m.outputs(stack({x, blank}, 0)).select(1, m.target).to_vector();
    const float whole = ends[0] - ends[1];
    EXPECT_NEAR(sum(few.values).item(), whole, 0.01f * std::abs(whole)) << m.name;
    c.steps = 400;
    c.most = 400;
    expect_golden(saliency(m.outputs, x, m.target, c).values, m.name + "/integrated");
  }
}

TEST(Captum, GradCamIsTheSame) {
  const Tensor maps = pictures_maps(of("pictures/x").unsqueeze(0)).detach();
  Tensor leaf = maps.clone();
  leaf.set_requires_grad();
  const Tensor y = pictures_output(leaf).select(1, 1);
  expect_golden(grad_cam(leaf, y, Cam::own).select(0, 0), "pictures/gradcam_places");
  const Tensor again = pictures_output(leaf).select(1, 1);
  expect_golden(grad_cam(leaf, again).select(0, 0), "pictures/gradcam");
}

}  // namespace
}  // namespace fovea::explain
