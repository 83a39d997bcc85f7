#include <cmath>

#include "core/allocator.h"
#include "fovea/io.h"
#include "fovea/runtime.h"
#include "models/tiny.h"
#include "on_device.h"
#include "where.h"

// Against PyTorch's numbers: make_golden.py wrote them.
namespace fovea::models::tests {
namespace {

const Tensors& golden() {
  static const Tensors all =
      load_safetensors(test::source_dir() + "/tests/models/golden/seq2seq.safetensors");
  return all;
}

Tensors below(const std::string& prefix) {
  Tensors found;
  for (const auto& [name, t] : golden()) {
    if (name.starts_with(prefix)) found[name.substr(prefix.size())] = t;
  }
  return found;
}

struct Case {
  std::string name;
  Seq2SeqConfig config;
  float label_smoothing = 0.0f;
};

std::vector<Case> cases() {
  Seq2SeqConfig bahdanau = tiny(), fed = tiny(kWirings[2]), local = tiny(kWirings[1]);
  Seq2SeqConfig fixed = tiny();
  fed.cell = nn::Cell::lstm;
  fed.hidden = 5;
  fed.layers = 2;
  fed.score = "multiplicative";
  local.score = "dot";
  local.locality = Locality::local_m;
  local.window = 1;
  fixed.context = Context::fixed;
  fixed.hidden = 5;
  fixed.layers = 2;
  fixed.bidirectional = false;
  return {{"bahdanau_gru_additive", bahdanau},
          {"luong_lstm_multiplicative_fed", fed, 0.1f},
          {"luong_gru_dot_local", local},
          {"fixed_gru", fixed}};
}

Batch batch() {
  const Tensor out = golden().at("target_out");
  const Tensor begin = Tensor::from_ids(std::vector<int64_t>(out.size(1), kBegin), {out.size(1)});
  std::vector<int64_t> in = begin.to_ids(), ids = out.to_ids();
  in.insert(in.end(), ids.begin(), ids.end() - out.size(1));
  return {.source = golden().at("source"),
          .source_lengths = golden().at("source_lengths"),
          .target_in = Tensor::from_ids(in, out.shape()),
          .target_out = out};
}

void expect_near(const Tensor& found, const Tensor& expected, const std::string& what) {
  ASSERT_TRUE(found) << what;
  ASSERT_EQ(found.shape(), expected.shape()) << what;
  const auto a = found.to_vector(), b = expected.to_vector();
  for (size_t i = 0; i < a.size(); ++i) {
    ASSERT_NEAR(a[i], b[i], 2e-6 + 3e-5 * std::abs(b[i])) << what << " at " << i;
  }
}

class Golden : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override { poison_memory(true); }
  void TearDown() override {
    poison_memory(false);
    use_isa("");
  }
};

TEST_P(Golden, LossAndGradientsOnEveryInstructionSet) {
  const Case& c = GetParam();
  for (const std::string& set : test::tested_isas()) {
    SCOPED_TRACE(set);
    use_isa(set);
    Seq2Seq m = seq2seq(c.config, 3);
    m.weights.load(below(c.name + "/weights/"));
    const Loss l = loss(m, batch(), {.label_smoothing = c.label_smoothing});
    EXPECT_EQ(l.tokens, 12);
    expect_near(l.loss, golden().at(c.name + "/loss"), "loss");
    l.loss.backward();
    for (const auto& [name, t] : m.weights.all()) {
      expect_near(t.grad(), golden().at(c.name + "/gradients/" + name), "gradient of " + name);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Seq2Seq, Golden, testing::ValuesIn(cases()),
                         [](const auto& c) { return c.param.name; });

}  // namespace
}  // namespace fovea::models::tests
