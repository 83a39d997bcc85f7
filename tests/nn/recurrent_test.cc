#include "core/allocator.h"
#include "fovea/runtime.h"
#include "tests/nn/check.h"

namespace fovea::nn {
namespace {

constexpr Cell kCells[] = {Cell::rnn, Cell::gru, Cell::lstm};

struct Net {
  Weights weights{7};
  Recurrent layers;
  explicit Net(const RecurrentConfig& config) : layers(recurrent(weights, "net", config)) {
    const NoGrad off;  // biases that can be told apart
    for (const auto& [name, t] : weights.all()) {
      if (t.rank() == 1) t.detach().copy_(Tensor::randn(t.shape(), name.size()) * 0.2f);
    }
  }
  std::vector<Tensor> tensors() const {
    std::vector<Tensor> all;
    for (const auto& [name, t] : weights.all()) all.push_back(t);
    return all;
  }
};

State zero_state(Cell cell, int64_t batch, int64_t hidden) {
  return {Tensor::zeros({batch, hidden}),
          cell == Cell::lstm ? Tensor::zeros({batch, hidden}) : Tensor()};
}

// The same network by steps: what a decoder does.
Recurrent::Output by_steps(const Recurrent& net, const Tensor& x, const Tensor& lengths) {
  const CellWeights& weights = net.cells[0];
  Stepper step(weights);
  const auto gates = unbind(weights.input(x), 0);
  State state = zero_state(weights.cell, x.size(1), weights.hidden());
  std::vector<Tensor> h;
  for (int64_t t = 0; t < x.size(0); ++t) {
    const Tensor now = Tensor::from_ids(std::vector<int64_t>{t}, {1});
    const Tensor active = lengths ? less(now, lengths) : Tensor();
    state = step(gates[t], state, active);
    h.push_back(active ? where(active.unsqueeze(1), state.h, Tensor::scalar(0.0f)) : state.h);
  }
  return {stack(h, 0), {state}};
}

Tensor loss_of(const Recurrent::Output& out) {
  Tensor loss = sum(out.sequence * Tensor::randn(out.sequence.shape(), 31));
  for (const State& s : out.last) {
    loss = loss + sum(s.h * Tensor::randn(s.h.shape(), 32));
    if (s.c) loss = loss + sum(s.c * Tensor::randn(s.c.shape(), 33));
  }
  return loss;
}

TEST(Recurrent, AGraphThatIsKeptOrNeverWalkedIsFreed) {
  for (const Cell cell : kCells) {
    const Net net({.cell = cell, .input = 4, .hidden = 5, .layers = 2, .bidirectional = true});
    const Tensor x = leaf({3, 2, 4}, 1), one = Tensor::scalar(1.0f);
    const int64_t before = memory_in_use();
    net.layers(x);
    by_steps(net.layers, x, {});
    EXPECT_EQ(memory_in_use(), before) << name_of(cell) << ", never walked";
    gradients(loss_of(net.layers(x)), one, net.tensors());
    gradients(loss_of(by_steps(net.layers, x, {})), one, std::vector{x});
    EXPECT_EQ(memory_in_use(), before) << name_of(cell) << ", kept";
  }
}

TEST(Stepper, LikeTheWholeLayer) {
  const int64_t lengths[] = {3, 5, 0};
  for (const Cell cell : kCells) {
    for (const Tensor& n : {Tensor(), Tensor::from_ids(lengths, {3})}) {
      SCOPED_TRACE(std::string(name_of(cell)) + (n ? " lengths" : ""));
      const Net net({cell, 4, 19});
      const Tensor x = leaf({5, 3, 4}, 1);
      poison_memory(true);
      const auto whole = net.layers(x, n), steps = by_steps(net.layers, x, n);
      expect_near(whole.sequence, steps.sequence, "sequence");
      expect_near(whole.last[0].h, steps.last[0].h, "h");
      auto inputs = net.tensors();
      inputs.push_back(x);
      const Tensor one = Tensor::scalar(1.0f);
      const auto expected = gradients(loss_of(steps), one, inputs);
      const Tensor loss = loss_of(whole);
      for (int pass = 0; pass < 2; ++pass) {
        const auto d = gradients(loss, one, inputs);
        for (size_t i = 0; i < d.size(); ++i) {
          expect_near(d[i], expected[i], "gradient " + std::to_string(i), 1e-4, 1e-5);
        }
      }
      poison_memory(false);
    }
  }
}

// Each output alone reaches the weights.
TEST(Recurrent, OneOutputAlone) {
  const Net net({Cell::lstm, 4, 3, 1, true});
  const Tensor x = leaf({4, 2, 4}, 1);
  const auto out = net.layers(x);
  const std::vector<Tensor> inputs{net.weights.all().at("net.weight_hh_l0_reverse"), x};
  std::vector<std::vector<Tensor>> each;
  for (const Tensor& y : {out.sequence, out.last[0].h, out.last[0].c}) {
    each.push_back(gradients(y, Tensor::full(y.shape(), 1.0f), inputs));
  }
  const Tensor all = sum(out.sequence) + sum(out.last[0].h) + sum(out.last[0].c);
  const auto together = gradients(all, Tensor::scalar(1.0f), inputs);
  for (size_t i = 0; i < inputs.size(); ++i) {
    expect_near(each[0][i] + each[1][i] + each[2][i], together[i], "sum", 1e-4, 1e-5);
  }
}

TEST(Recurrent, FullLengthsAreNoLengths) {
  const Net net({Cell::gru, 4, 6, 2, true});
  const Tensor x = Tensor::randn({3, 2, 4}, 1);
  const int64_t full[] = {3, 3};
  EXPECT_EQ(net.layers(x, Tensor::from_ids(full, {2})).sequence.to_vector(),
            net.layers(x).sequence.to_vector());
}

TEST(Recurrent, ARowAloneIsTheSame) {
  for (const Cell cell : kCells) {
    SCOPED_TRACE(name_of(cell));
    const Net net({cell, 4, 6, 2, true});
    const Tensor x = Tensor::randn({5, 3, 4}, 1);
    const int64_t lengths[] = {2, 5, 4};
    const auto all = net.layers(x, Tensor::from_ids(lengths, {3}));
    for (int64_t b = 0; b < 3; ++b) {
      const auto alone = net.layers(x.slice(1, b, b + 1).slice(0, 0, lengths[b]));
      expect_near(all.sequence.slice(1, b, b + 1).slice(0, 0, lengths[b]), alone.sequence, "valid");
      for (const float h : all.sequence.select(1, b).slice(0, lengths[b], 5).to_vector()) {
        ASSERT_EQ(h, 0.0f);
      }
      for (size_t l = 0; l < 2; ++l) {
        expect_near(all.last[l].h.slice(0, b, b + 1), alone.last[l].h, "h");
        if (cell == Cell::lstm) {
          expect_near(all.last[l].c.slice(0, b, b + 1), alone.last[l].c, "c");
        }
      }
    }
  }
}

TEST(Recurrent, DropoutBetweenLayersAlone) {
  const Tensor x = Tensor::randn({3, 2, 4}, 1);
  const Net one({Cell::gru, 4, 6, 1}), two({Cell::gru, 4, 6, 2});
  EXPECT_EQ(one.layers(x, {}, 0.5f, 1).sequence.to_vector(), one.layers(x).sequence.to_vector());
  const auto dropped = two.layers(x, {}, 0.5f, 1).sequence.to_vector();
  EXPECT_EQ(dropped, two.layers(x, {}, 0.5f, 1).sequence.to_vector());
  EXPECT_NE(dropped, two.layers(x, {}, 0.5f, 2).sequence.to_vector());
  EXPECT_NE(dropped, two.layers(x).sequence.to_vector());
}

TEST(Recurrent, SameAtAnyThreadCount) {
  const int before = threads();
  const int64_t lengths[] = {3, 1, 2, 3, 1, 2, 3, 0, 3, 3, 2, 1, 3, 3, 2, 1, 2};
  for (const Cell cell : kCells) {
    std::vector<std::vector<float>> first;
    for (const int n : {1, 3}) {
      set_threads(n);
      const Net net({cell, 33, 130, 2, true});
      const Tensor x = leaf({3, 17, 33}, 1);
      const auto out = net.layers(x, Tensor::from_ids(lengths, {17}));
      loss_of(out).backward();
      std::vector<std::vector<float>> all{out.sequence.to_vector(), x.grad().to_vector()};
      for (const Tensor& t : net.tensors()) all.push_back(t.grad().to_vector());
      if (n == 1) first = all;
      EXPECT_EQ(all, first) << name_of(cell) << " with " << n << " threads";
    }
  }
  set_threads(before);
}

TEST(Recurrent, NothingIsKeptWithoutGradients) {
  const Net net({Cell::lstm, 8, 64, 1, true});
  const Tensor x = Tensor::randn({20, 4, 8}, 1);
  const NoGrad off;
  const int64_t held = memory_in_use();
  const auto out = net.layers(x);
  EXPECT_FALSE(out.sequence.requires_grad());
  EXPECT_LT(memory_in_use() - held, 3 * out.sequence.numel() * int64_t{sizeof(float)});
}

TEST(Recurrent, NamesAreThoseOfPyTorch) {
  const Net net({Cell::lstm, 4, 3, 2, true});
  const Tensors& all = net.weights.all();
  EXPECT_EQ(all.size(), 16u);
  EXPECT_EQ(all.at("net.weight_ih_l0").shape(), (Shape{12, 4}));
  EXPECT_EQ(all.at("net.weight_ih_l1_reverse").shape(), (Shape{12, 6}));
  EXPECT_EQ(all.at("net.bias_hh_l1").shape(), (Shape{12}));
  Weights w;
  cell_weights(w, "cell", Cell::gru, 4, 3);
  EXPECT_TRUE(w.all().contains("cell.weight_hh"));
}

TEST(Recurrent, Misuse) {
  const Net net({Cell::gru, 4, 3});
  EXPECT_EQ(cell("lstm"), Cell::lstm);
  EXPECT_EQ(error_of([] { cell("qrnn"); }), "[cell] expected rnn, gru or lstm, found 'qrnn'");
  EXPECT_EQ(error_of([&] {
              net.layers(Tensor::zeros({2, 5}));
            }),
            "[recurrent] x is [2, 5], expected [T, B, 4], T at least 1");
  const Tensor x = Tensor::zeros({2, 2, 4});
  const int64_t lengths[] = {1, 3};
  EXPECT_EQ(error_of([&] { net.layers(x, Tensor::from_ids(lengths, {2})); }),
            "[recurrent] length 3 is not in 0 … 2");
  EXPECT_EQ(error_of([&] {
              net.layers(x, Tensor::from_ids({lengths, 1}, {1}));
            }),
            "[recurrent] lengths is [1], expected [2]");
  Stepper step(net.layers.cells[0]);
  EXPECT_EQ(error_of([&] {
              step(Tensor::zeros({2, 8}), {Tensor::zeros({2, 3}), {}});
            }),
            "[gru] gates_x is [2, 8], expected [2, 9]");
}

}  // namespace
}  // namespace fovea::nn
