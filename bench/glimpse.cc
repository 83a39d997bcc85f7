// The recurrent attention model: training steps, timed.
//   glimpse        a worker: a JSON request a line on stdin, a JSON answer a line on stdout
//     {"load": {"canvas": 60, "glimpses": 8, "sensor": 12, "scales": 3, "parts": 128, "hidden":
//     256,
//               "locator": 128, "cell": "rnn", "weights": FILE, "batches": FILE}}
//               batches: images [N,B,Y,X], classes i64 [N,B], noise [N,T−1,B,2]
//     {"train": {"from": 0, "steps": 5}}                 one step for each of these batches
// bench/glimpse.py drives it beside its peer.
#include "fovea/glimpse.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "fovea/io.h"
#include "fovea/runtime.h"
#include "fovea/train.h"
#include "machine.h"
#include "serve.h"

namespace {

using fovea::Tensor;
using Json = nlohmann::json;
namespace models = fovea::models;

constexpr float kRate = 1e-3f, kClip = 5.0f, kReward = 0.1f;

int64_t now_ns() { return static_cast<int64_t>(fovea::bench::now_seconds() * 1e9); }

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
    std::vector<float> losses;
    std::vector<int64_t> ns;
    const int64_t first = options.at("from"), steps = options.at("steps");
    for (int64_t i = first; i < first + steps; ++i) {
      const int64_t start = now_ns();
      losses.push_back(step(i));
      ns.push_back(now_ns() - start);
    }
    return {{"losses", losses}, {"ns", ns}};
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

class Worker {
 public:
  Json answer(const Json& request) {
    if (request.contains("load")) {
      viewer_.reset();
      viewer_.emplace(request["load"]);
      return {{"threads", fovea::threads()}, {"isa", fovea::isa()}};
    }
    if (!viewer_) throw fovea::Error("bench", "nothing is loaded");
    if (request.contains("train")) return viewer_->train(request["train"]);
    throw fovea::Error("bench", "load or train expected");
  }

 private:
  std::optional<Viewer> viewer_;
};

}  // namespace

int main(int argc, char**) {
  if (argc > 1) {
    fmt::print(stderr, "usage: glimpse\n");
    return 2;
  }
  Worker worker;
  fovea::bench::serve(worker);
  return 0;
}
