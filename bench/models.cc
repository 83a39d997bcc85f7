// A model that somebody else trained, opened from its folder: reading a prompt and writing on,
// timed.
//   models         a worker: a JSON request a line on stdin, a JSON answer a line on stdout
//     {"load": {"folder": DIR, "type": "bf16"}}          stored, float32, bf16 or int8
//     {"generate": {"prompt": [1, 2, 3], "count": 64}}   one sequence, greedily
// bench/models.py drives it beside its peers.
#include <string>
#include <vector>

#include "checkpoints/checkpoint.h"
#include "fovea/search.h"
#include "serve.h"

namespace {

using fovea::Tensor;
using fovea::bench::Json;
using fovea::bench::now_ns;
namespace checkpoints = fovea::checkpoints;
namespace models = fovea::models;

class Opened {
 public:
  explicit Opened(const Json& options)
      : checkpoint_(checkpoints::open(options.at("folder").get<std::string>(),
                                      checkpoints::kept_as(options.at("type")))) {}

  Json generate(const Json& options) {
    const fovea::NoGrad no_grad;
    const std::vector<int64_t> prompt = options.at("prompt");
    const auto read = static_cast<int64_t>(prompt.size()) - 1;
    const int64_t start = now_ns();
    const auto writer = models::generator(
        checkpoint_.model, Tensor::from_ids(prompt, {1, read + 1}).slice(1, 0, read));
    const auto found = models::search(*writer, {.first = {prompt.back()}, .ends = {}},
                                      {.longest = options.at("count")});
    return {{"tokens", found[0][0].tokens}, {"ns", now_ns() - start}};
  }

 private:
  checkpoints::Checkpoint checkpoint_;
};

}  // namespace

int main(int argc, char** argv) {
  return fovea::bench::serve_model<Opened>(argc, argv, {{"generate", &Opened::generate}});
}
