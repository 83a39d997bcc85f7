// Convolution, forward and backward, timed.
//   convolution    a worker: a JSON request a line on stdin, a JSON answer a line on stdout
//     {"case": {"stride": 1, "pad": 1, "groups": 1, …}, "pass": "forward" or "both",
//      "inputs": FILE, "outputs": FILE, "seconds": 0.25, "reps": 3}
//      inputs: x [N,C,Y,X], w [O,C/groups,K,K], d_y; outputs: y, and d_x, d_w of both passes
// bench/convolution.py drives it beside its peer.
#include <string>
#include <vector>

#include "fovea/io.h"
#include "fovea/ops.h"
#include "fovea/tensor.h"
#include "serve.h"

namespace {

using fovea::Tensor;
using fovea::bench::Json;

class Layer {
 public:
  explicit Layer(const Json& request)
      : inputs_(fovea::load_safetensors(request.at("inputs").get<std::string>())),
        both_(request.at("pass") == "both") {
    const Json& c = request.at("case");
    how_.stride_y = how_.stride_x = c.at("stride");
    how_.pad_y = how_.pad_x = c.at("pad");
    how_.groups = c.at("groups");
  }

  fovea::Tensors step() const {
    if (!both_) return {{"y", fovea::conv2d(inputs_.at("x"), inputs_.at("w"), {}, how_)}};
    const Tensor x = inputs_.at("x").detach().set_requires_grad(true);
    const Tensor w = inputs_.at("w").detach().set_requires_grad(true);
    const Tensor y = fovea::conv2d(x, w, {}, how_);
    y.backward(inputs_.at("d_y"));
    return {{"y", y.detach()}, {"d_x", x.grad()}, {"d_w", w.grad()}};
  }

 private:
  fovea::Tensors inputs_;
  fovea::Conv2d how_;
  bool both_;
};

Json timed(const Layer& layer, const Json& request) {
  const int64_t reps = request.value("reps", 3);
  const double seconds = request.value("seconds", 0.0);
  std::vector<int64_t> ns;
  const int64_t begin = fovea::bench::now_ns();
  while (static_cast<int64_t>(ns.size()) < reps ||
         static_cast<double>(fovea::bench::now_ns() - begin) < 1e9 * seconds) {
    const int64_t start = fovea::bench::now_ns();
    layer.step();
    ns.push_back(fovea::bench::now_ns() - start);
  }
  return {{"ns", ns}};
}

}  // namespace

int main() {
  fovea::bench::serve([](const Json& request) {
    const Layer layer(request);
    const fovea::Tensors result = layer.step();
    if (request.contains("outputs")) {
      fovea::save_safetensors(request.at("outputs").get<std::string>(), result);
    }
    return timed(layer, request);
  });
  return 0;
}
