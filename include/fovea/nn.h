#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "fovea/api.h"
#include "fovea/attention.h"
#include "fovea/cell.h"
#include "fovea/tensor.h"

// Layers: values that hold their learned tensors and are called like functions. Sequences are
// time-major, [T,B,·], so that a step is a contiguous block.
namespace fovea {
class GruSteps;
class LinearSteps;
}  // namespace fovea
namespace fovea::nn {

enum class Init : uint8_t {
  zeros,
  uniform,     // ±1/√fan_in; fan_in counts all dimensions but the first
  xavier,      // ±√(6/(fan_in + fan_out))
  orthogonal,  // square blocks of orthonormal rows: recurrent weights
  normal,      // N(0, 0.1²)
  small,       // N(0, 0.02²)
  ones,
};

// The tensors of a model by name: those that are learned, and buffers, which are saved and resumed
// with them but which no optimizer touches (a batch norm's running statistics). What a tensor
// starts from depends on the seed and its name alone, so that a new layer changes no other.
class FOVEA_API Weights {
 public:
  // So that a model is made of a seed.
  Weights(uint64_t seed = 0) : seed_(seed) {}  // NOLINT(google-explicit-constructor)
  // Names and shapes alone, to be counted before memory is taken: no tensor has more than a number.
  static Weights sketch();
  // Those that there are, as they are: what is added is the one of its name, and needs no gradient.
  static Weights given(Tensors);
  // The same to be learned, contiguous ones of their own: those that `held` names are buffers.
  static Weights begun(Tensors, std::function<bool(const std::string& name)> held);
  // A new leaf that requires a gradient, `gain` times as large as it would start; a name used twice
  // throws.
  Tensor add(const std::string& name, const Shape&, Init, float gain = 1.0f);
  // A new buffer, filled with one value; whoever computes with it writes it in place.
  Tensor add_buffer(const std::string& name, const Shape&, float value);
  const Tensors& learned() const { return learned_; }
  const Tensors& buffers() const { return buffers_; }
  const Tensors& all() const { return all_; }  // both: what a file of the model holds
  int64_t count() const;                       // numbers that are learned
  // Copies values in; throws, naming the tensor, what was expected and what was found, where one
  // is missing, unknown or of another shape.
  void load(const Tensors& from);

 private:
  Tensor enter(const std::string& name, const Tensor&, Tensors& kind);

  enum class From : uint8_t { seed, shapes, tensors, learners };
  Tensor given(const std::string& name, const Shape&);

  uint64_t seed_;
  From from_ = From::seed;
  Tensors given_, learned_, buffers_, all_;
  std::function<bool(const std::string&)> held_;
};

// Throws, as load() does, unless both have the same names and shapes.
FOVEA_API void expect_tensors(const Tensors& expected, const Tensors& found);

// y = x·Wᵀ + b over the last dimension.
struct FOVEA_API Linear {
  Tensor weight, bias;  // [O,I], [O] or undefined
  Tensor operator()(const Tensor& x) const;
};
enum class WithBias : uint8_t { no, yes };
FOVEA_API Linear linear(Weights&, const std::string& name, int64_t in, int64_t out,
                        WithBias = WithBias::yes);

struct FOVEA_API Embedding {
  Tensor table;                                // [V,E]
  Tensor operator()(const Tensor& ids) const;  // i64 [..] → [..,E]
};
FOVEA_API Embedding embedding(Weights&, const std::string& name, int64_t vocabulary, int64_t width);

// y_t = x_t·Wᵀ + b (+ addend_t) at many steps t of one pass. A step's backward gives dx_t alone;
// dW = Σ_t dy_tᵀ x_t is one product over all steps, taken when the last of them is through.
class FOVEA_API SteppedLinear {
 public:
  explicit SteppedLinear(const Linear&);
  Tensor operator()(const Tensor& x, const Tensor& addend = {});  // [B,I] → [B,O]

 private:
  std::shared_ptr<LinearSteps> steps_;
};

// ---- Recurrent cells; weights by PyTorch's names, so that its weights load ----------------------
using fovea::Cell;
using fovea::gates_of;
using fovea::name_of;
using State = CellState;
FOVEA_API Cell cell(const std::string& name);

// One layer's weights in one direction.
struct FOVEA_API CellWeights {
  Cell cell = Cell::gru;
  Linear input;      // [G·H,I]
  Linear recurrent;  // [G·H,H]
  int64_t hidden() const { return recurrent.weight.size(1); }
};
FOVEA_API CellWeights cell_weights(Weights&, const std::string& name, Cell, int64_t input,
                                   int64_t hidden);

// One pass of a cell over many steps: W_h's gradient is one product for all of them.
class FOVEA_API Stepper {
 public:
  explicit Stepper(const CellWeights&);
  // With a part of the input that is known step by step, by weights [G·H,F] of its own.
  Stepper(const CellWeights&, const Tensor& w_fed);
  // gates_x [B,G·H] is the input's product, bias included, but for what is fed, [B,F] (undefined:
  // nothing). Rows where `active` (bool [B]; undefined: all) is false keep their state.
  State operator()(const Tensor& gates_x, const State& before, const Tensor& active = {},
                   const Tensor& fed = {});

 private:
  Cell cell_;
  SteppedLinear recurrent_;
  std::optional<SteppedLinear> fed_;
  std::shared_ptr<GruSteps> whole_;  // where the device has products and cell in one
};

struct RecurrentConfig {  // layers of cells, one way or both
  Cell cell = Cell::gru;
  int64_t input = 0, hidden = 0;
  int64_t layers = 1;
  bool bidirectional = false;
};

struct FOVEA_API Recurrent {
  RecurrentConfig config;
  std::vector<CellWeights> cells;  // by layer, forward then backward

  struct Output {
    Tensor sequence;          // [T,B,H·directions]
    std::vector<State> last;  // by layer; [B,H·directions], at each row's own last step
  };
  // x [T,B,I]; lengths i64 [B], undefined: all T. Dropout between layers.
  Output operator()(const Tensor& x, const Tensor& lengths = {}, float dropout = 0.0f,
                    uint64_t seed = 0) const;
};
FOVEA_API Recurrent recurrent(Weights&, const std::string& name, const RecurrentConfig&);

}  // namespace fovea::nn
