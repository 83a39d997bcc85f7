// The recurrent attention model: training steps, timed.
//   glimpse        a worker: a JSON request a line on stdin, a JSON answer a line on stdout
//     {"load": {"canvas": 60, "glimpses": 8, "sensor": 12, "scales": 3, "parts": 128, "hidden":
//     256,
//               "locator": 128, "cell": "rnn", "weights": FILE, "batches": FILE}}
//               batches: images [N,B,Y,X], classes i64 [N,B], noise [N,T−1,B,2]
//     {"train": {"from": 0, "steps": 5}}                 one step for each of these batches
// bench/glimpse.py drives it beside its peer.
#include "fovea/glimpse.h"

#include <string>
#include <vector>

#include "fovea/io.h"
#include "fovea/runtime.h"
#include "fovea/train.h"
#include "serve.h"

namespace {

using fovea::Tensor;
using fovea::bench::Json;
namespace models = fovea::models;

constexpr float kRate = 1e-3f, kClip = 5.0f, kReward = 0.1f;

models::GlimpseConfig config_of(const Json& options) {
  models::GlimpseConfig c;
  c.height = c.width = options.at("canvas");
  c.glimpses = options.at("glimpses");
  c.sensor = {.size = options.at("sensor"), .scales = options.at("scales")};
  c.parts = options.at("parts");
  c.hidden = options.at("hidden");
  c.locator = options.at("locator");
  c.cell = fovea::nn::cell(options.at("cell").get<std::string>());
  return c;
}

class Viewer {
 public:
  explicit Viewer(const Json& options)
      : model_(models::glimpse(config_of(options), 0)), optimizer_({}, model_.weights.learned()) {
    model_.weights.load(fovea::load_safetensors(options.at("weights").get<std::string>()));
    batches_ = fovea::load_safetensors(options.at("batches").get<std::string>());
    loss_of(0).backward();  // everyone's first pass, which takes memory, goes untimed
    forget_gradients();
  }

  Json train(const Json& options) {
    return fovea::bench::timed_steps(options, [&](int64_t i) { return step(i); });
  }

 private:
  Tensor loss_of(int64_t i) const {
    const Tensor images = batches_.at("images").select(0, i);
    const models::Glimpsed found = models::look_around(
        model_, images, {.draw = true, .noise = batches_.at("noise").select(0, i)});
    models::GlimpseLossConfig how;
    how.reward = kReward;
    return models::loss(found, batches_.at("classes").select(0, i), how).loss;
  }

  void forget_gradients() {
    for (const auto& [name, weight] : model_.weights.learned()) Tensor(weight).zero_grad();
  }

  float step(int64_t i) {
    forget_gradients();
    const Tensor loss = loss_of(i);
    loss.backward();
    fovea::train::clip_by_norm(model_.weights.learned(), kClip);
    optimizer_.step(kRate);
    return loss.item();
  }

  models::Glimpse model_;
  fovea::train::Optimizer optimizer_;
  fovea::Tensors batches_;
};

}  // namespace

int main(int argc, char** argv) {
  return fovea::bench::serve_model<Viewer>(argc, argv, {{"train", &Viewer::train}});
}
