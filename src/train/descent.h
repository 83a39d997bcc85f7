#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "fovea/train.h"
#include "team/team.h"
#include "train/average.h"
#include "train/gradient_sum.h"
#include "train/shards.h"
#include "train/streamed.h"

namespace fovea::train {

// A loss or a norm that no step can be made of.
struct NotFinite : Error {
  NotFinite(const char* what, double value);
};

// The weights that learn, and what changes them: gradients, clipping, the optimizer, the average.
// The ranks of a team share a step's batches, and each keeps what belongs to its part of the
// weights; all calls are made by all of them.
class Descent {
 public:
  using Batches = std::span<const std::vector<int64_t>>;
  Descent(Learner&, const TrainConfig&, team::Team&);

  struct Taken {
    double total = 0, count = 0;  // the loss, summed over so many units
    double norm = 0;              // of the gradient, before it is clipped
  };
  // Step `number`, from 1, of one batch or several. Throws NotFinite.
  Taken step(Batches, int64_t number, float rate);

  // While f works, which does not throw, the averages are in the parameters.
  void with_averages(const std::function<void()>& f);

  // To be saved: the optimizer's state, and the averages (the weights, where there are none) by
  // all names.
  StreamedTensors optimizer_state();
  StreamedTensors averages();
  // From those of the first rank, which alone gives them.
  void load_optimizer(const Tensors& state);
  void load_averages(const Tensors&, const std::string& source);
  // Its values, to all.
  void spread() {
    shards_.spread(weights_);
    shards_.spread(learner_.buffers);
  }

  // Of the weights, and of the loss and the gradient of a batch: equal where ranks compute alike.
  std::string probe(std::span<const int64_t> batch) const;

 private:
  struct Learned {
    TreeSum gradients, buffers;
    std::vector<StepLoss> losses;  // without their tensors
  };
  StepLoss backward(std::span<const int64_t> batch, uint64_t seed) const;
  Learned learn(Batches, int64_t first, int64_t number) const;
  void learn_shared(Batches, int64_t number, Taken&);
  std::vector<PartialSum> shared_gradients() const;
  uint64_t seed_of(int64_t number, int64_t batch) const;
  void add_losses(const std::vector<StepLoss>& own, Taken&) const;
  void set_buffers(std::vector<PartialSum> own, int64_t batches) const;
  std::vector<const char*> moments() const;
  // Of pieces like the shards' own, that of a weight.
  Streamed streamed(const std::string& weight, const Tensors& pieces);

  Learner& learner_;
  const TrainConfig& config_;
  team::Team& team_;
  const Tensors weights_;  // distinct
  Shards shards_;
  Optimizer optimizer_;
  Average average_;
};

}  // namespace fovea::train
