// A decoder-only Transformer: training steps, greedy generation with a cache, and linear attention,
// timed.
//   lm             a worker: a JSON request a line on stdin, a JSON answer a line on stdout
//     {"load": {"blocks": 6, "width": 384, "heads": 6, "context": 256, "vocabulary": V,
//               "weights": FILE, "batches": FILE,       batches, where it trains: ids i64
//               "type": "bf16"}}                        [N,B,T+1]; type: what blocks compute in
//     {"train": {"from": 0, "steps": 5}}                 one step for each of these batches
//     {"generate": {"prompt": [1, 2, 3], "count": 64}}   one sequence, greedily
//     {"linear": {"length": 1024, "width": 256, "heads": 4, "backward": true, "seconds": 0.2}}
//     {"machine": {"bytes": 4194304}}                    bytes/s when so many are read
// bench/lm.py drives it beside its peers.
#include <optional>
#include <string>
#include <vector>

#include "fovea/io.h"
#include "fovea/ops.h"
#include "fovea/runtime.h"
#include "fovea/train.h"
#include "fovea/transformer.h"
#include "serve.h"

namespace {

using fovea::Tensor;
using fovea::bench::Json;
using fovea::bench::now_ns;
namespace models = fovea::models;
namespace nn = fovea::nn;

constexpr float kRate = 3e-4f, kDecay = 0.1f, kClip = 1.0f;
constexpr int64_t kNever = 0;  // the token that ends a text is never the likeliest here

models::TransformerConfig config_of(const Json& options) {
  return {.target_vocabulary = options.at("vocabulary"),
          .blocks = options.at("blocks"),
          .depth = options.at("width"),
          .heads = options.at("heads"),
          .positions = nn::Positions::learned,
          .longest = options.at("context")};
}

class Language {
 public:
  explicit Language(const Json& options)
      : model_(models::transformer(config_of(options), 0)),
        optimizer_({.method = fovea::train::Method::adamw, .weight_decay = kDecay},
                   model_.weights.all()) {
    if (options.value("type", std::string()) == "bf16") loss_.type = fovea::DType::bf16;
    model_.weights.load(fovea::load_safetensors(options.at("weights").get<std::string>()));
    if (!options.contains("batches")) return;
    ids_ = fovea::load_safetensors(options.at("batches").get<std::string>()).at("ids");
    loss_of(0).backward();  // everyone's first pass, which takes memory or compiles, goes untimed
    forget_gradients();
  }

  Json train(const Json& options) {
    return fovea::bench::timed_steps(options, [&](int64_t i) { return step(i); });
  }

  Json generate(const Json& options) {
    const fovea::NoGrad no_grad;
    const std::vector<int64_t> prompt = options.at("prompt");
    const int64_t start = now_ns(), read = static_cast<int64_t>(prompt.size()) - 1;
    const auto writer =
        models::generator(model_, Tensor::from_ids(prompt, {1, read + 1}).slice(1, 0, read));
    const auto found = models::search(*writer, {.first = {prompt.back()}, .ends = {kNever}},
                                      {.longest = options.at("count")});
    return {{"tokens", found[0][0].tokens}, {"ns", now_ns() - start}};
  }

 private:
  Tensor loss_of(int64_t i) { return models::loss(model_, ids_.select(0, i), loss_).loss; }

  void forget_gradients() {
    for (const auto& [name, weight] : model_.weights.all()) Tensor(weight).zero_grad();
  }

  float step(int64_t i) {
    forget_gradients();
    const Tensor loss = loss_of(i);
    loss.backward();
    fovea::train::clip_by_norm(model_.weights.all(), kClip);
    optimizer_.step(kRate);
    return loss.item();
  }

  models::Transformer model_;
  fovea::train::Optimizer optimizer_;
  models::LossConfig loss_;
  Tensor ids_;
};

// Causal self-attention by linear heads over one sequence: projections, attention, projection.
Json time_linear(const Json& options) {
  const int64_t L = options.at("length"), W = options.at("width"), H = options.at("heads");
  const bool backward = options.at("backward");
  nn::Weights weights(1);
  const nn::MultiHead heads =
      nn::multi_head(weights, "linear", {.width = W, .heads = H, .groups = {nn::linear_heads(H)}});
  const Tensor x = Tensor::randn({1, L, W}, 1), dy = Tensor::randn({1, L, W}, 2);
  const auto call = [&] {
    for (const auto& [name, weight] : weights.all()) Tensor(weight).zero_grad();
    const Tensor y = heads.self(x, {.mask = fovea::masks::causal()});
    if (backward) y.backward(dy);
  };
  std::optional<fovea::NoGrad> off;
  if (!backward) off.emplace();
  call();
  std::vector<int64_t> ns;
  for (double total = 0; total < options.at("seconds").get<double>() || ns.size() < 3;) {
    const int64_t start = now_ns();
    call();
    ns.push_back(now_ns() - start);
    total += static_cast<double>(ns.back()) / 1e9;
  }
  return {{"ns", ns}};
}

Json time_reading(const Json& options) {
  const int64_t bytes = options.at("bytes");
  return {{"bytes_per_second", fovea::bench::read_bandwidth(fovea::threads(), bytes).best}};
}

}  // namespace

int main(int argc, char** argv) {
  return fovea::bench::serve_model<Language>(
      argc, argv, {{"train", &Language::train}, {"generate", &Language::generate}},
      {{"linear", time_linear}, {"machine", time_reading}});
}
