#include "models/tiny.h"

namespace fovea::models::tests {
namespace {

// Rows of a Jacobian are passes over one graph, each for one input alone. They leave nothing
// behind: neither what nobody asked for nor what was taken.
TEST(Jacobian, AThousandRowsInFlatMemory) {
  Seq2SeqConfig config = tiny(kWirings[2]);
  for (const nn::Cell cell : {nn::Cell::gru, nn::Cell::lstm}) {
    config.cell = cell;
    const Seq2Seq m = model_of(config);
    const Tensor loss_ = loss(m, batch_of(sentences())).loss, one = Tensor::scalar(1.0f);
    for (const char* name : {"source.weight", "target.weight", "decoder.0.weight_hh"}) {
      const std::vector<Tensor> inputs{m.weights.all().at(name)};
      const std::vector<float> first = gradients(loss_, one, inputs)[0].to_vector();
      const int64_t held = memory_in_use();
      for (int row = 0; row < 1000; ++row) gradients(loss_, one, inputs);
      EXPECT_EQ(memory_in_use(), held) << nn::name_of(cell) << ", " << name;
      EXPECT_EQ(gradients(loss_, one, inputs)[0].to_vector(), first);
    }
  }
}

}  // namespace
}  // namespace fovea::models::tests
