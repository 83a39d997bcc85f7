#include <cstdio>

#include "fovea/attention.h"

int main() {
  using namespace fovea;
  Tensor q = Tensor::randn({1, 8, 16, 64}, /*seed=*/1).set_requires_grad();  // [B,H,Lq,D]
  Tensor k = Tensor::randn({1, 2, 32, 64}, 2), v = Tensor::randn({1, 2, 32, 64}, 3);
  Attention sliding = {.mask = masks::causal() & masks::window(8)};
  Attended a = attend(q, k, v, sliding);  // any score, mask and weighting
  a.context.backward(Tensor::full({1, 8, 16, 64}, 1.0f));
  Tensor first_head = a.weights({.heads = {0}});  // only now, and only these: [1,1,16,32]
  std::printf("%s %s\n", to_string(q.grad().shape()).c_str(),
              to_string(first_head.shape()).c_str());
}
