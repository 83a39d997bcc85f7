// The recurrent translator's training steps and its greedy decoding, timed.
//   translate      a worker: a JSON request a line on stdin, a JSON answer a line on stdout
//     {"load": {"vocabulary": V, "embedding": E, "hidden": H, "weights": FILE, "batches": FILE}}
//         source, target_in and target_out are i64 [N,T,B] in the file of batches
//     {"train": {"from": 0, "steps": 5}}                    one step for each of these batches
//     {"decode": {"from": 0, "count": 5, "longest": 30}}    sentences of the first batch, one by
//     one
// bench/translate.py drives it beside its peer.
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "fovea/io.h"
#include "fovea/runtime.h"
#include "fovea/seq2seq.h"
#include "fovea/train.h"
#include "machine.h"
#include "serve.h"

namespace {

using fovea::Tensor;
using Json = nlohmann::json;

constexpr float kRate = 1e-3f, kClip = 1.0f;

int64_t now_ns() { return static_cast<int64_t>(fovea::bench::now_seconds() * 1e9); }

Tensor lengths_of(const Tensor& source) {
  const std::vector<int64_t> lengths(static_cast<size_t>(source.size(1)), source.size(0));
  return Tensor::from_ids(lengths, {source.size(1)});
}

class Translator {
 public:
  explicit Translator(const Json& options)
      : model_(fovea::models::seq2seq({.source_vocabulary = options.at("vocabulary"),
                                       .target_vocabulary = options.at("vocabulary"),
                                       .embedding = options.at("embedding"),
                                       .hidden = options.at("hidden")},
                                      0)),
        optimizer_({}, model_.weights.all()),
        batches_(fovea::load_safetensors(options.at("batches").get<std::string>())) {
    model_.weights.load(fovea::load_safetensors(options.at("weights").get<std::string>()));
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

  Json decode(const Json& options) const {
    const fovea::NoGrad no_grad;
    std::vector<std::vector<int64_t>> tokens;
    std::vector<int64_t> ns;
    const int64_t first = options.at("from"), count = options.at("count");
    for (int64_t row = first; row < first + count; ++row) {
      const Tensor source = batch("source", 0).slice(1, row, row + 1).contiguous();
      const int64_t start = now_ns();
      const auto found = fovea::models::decode(model_, source, lengths_of(source),
                                               {.longest = options.at("longest")});
      ns.push_back(now_ns() - start);
      tokens.push_back(found[0][0].tokens);
    }
    return {{"tokens", tokens}, {"ns", ns}};
  }

 private:
  Tensor batch(const char* name, int64_t i) const { return batches_.at(name).select(0, i); }

  float step(int64_t i) {
    const Tensor source = batch("source", i);
    for (const auto& [name, weight] : model_.weights.all()) Tensor(weight).zero_grad();
    const fovea::models::Loss loss =
        fovea::models::loss(model_, {.source = source,
                                     .source_lengths = lengths_of(source),
                                     .target_in = batch("target_in", i),
                                     .target_out = batch("target_out", i)});
    loss.loss.backward();
    fovea::train::clip_by_norm(model_.weights.all(), kClip);
    optimizer_.step(kRate);
    return loss.loss.item();
  }

  fovea::models::Seq2Seq model_;
  fovea::train::Optimizer optimizer_;
  fovea::Tensors batches_;
};

class Worker {
 public:
  Json answer(const Json& request) {
    if (request.contains("load")) {
      translator_.reset();
      translator_.emplace(request["load"]);
      return {{"threads", fovea::threads()}, {"isa", fovea::isa()}};
    }
    if (!translator_) throw fovea::Error("bench", "nothing is loaded");
    if (request.contains("train")) return translator_->train(request["train"]);
    if (request.contains("decode")) return translator_->decode(request["decode"]);
    throw fovea::Error("bench", "load, train or decode expected");
  }

 private:
  std::optional<Translator> translator_;
};

}  // namespace

int main(int argc, char**) {
  if (argc > 1) {
    fmt::print(stderr, "usage: translate\n");
    return 2;
  }
  Worker worker;
  fovea::bench::serve(worker);
  return 0;
}
