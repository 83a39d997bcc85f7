// The recurrent translator's training steps and its greedy decoding, timed.
//   translate      a worker: a JSON request a line on stdin, a JSON answer a line on stdout
//     {"load": {"vocabulary": V, "embedding": E, "hidden": H, "weights": FILE, "batches": FILE}}
//         source, target_in and target_out are i64 [N,T,B] in the file of batches
//     {"train": {"from": 0, "steps": 5}}                    one step for each of these batches
//     {"decode": {"from": 0, "count": 5, "longest": 30}}    sentences of the first batch, one by
//     one
// bench/translate.py drives it beside its peer.
#include <string>
#include <vector>

#include "fovea/io.h"
#include "fovea/runtime.h"
#include "fovea/seq2seq.h"
#include "fovea/train.h"
#include "serve.h"

namespace {

using fovea::Tensor;
using fovea::bench::Json;
using fovea::bench::now_ns;

constexpr float kRate = 1e-3f, kClip = 1.0f;

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
    return fovea::bench::timed_steps(options, [&](int64_t i) { return step(i); });
  }

  Json decode(const Json& options) {
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

}  // namespace

int main(int argc, char** argv) {
  return fovea::bench::serve_model<Translator>(
      argc, argv, {{"train", &Translator::train}, {"decode", &Translator::decode}});
}
