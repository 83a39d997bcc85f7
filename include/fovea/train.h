#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "fovea/api.h"
#include "fovea/tensor.h"

// Training, for every task: what to minimise comes from a Learner, how from a TrainConfig; what
// happened goes to a run folder.
namespace fovea::train {

enum class Method : uint8_t { adam, adamw, sgd };  // of the optimizer
FOVEA_API const char* name_of(Method);
FOVEA_API Method method(const std::string& name);

// Parameters with a rate and a decay of their own: biases and norms that do not decay, an encoder
// that learns slowly.
struct ParameterGroup {
  std::function<bool(const std::string& name)> has;
  float rate = 1.0f;                  // times the step's
  std::optional<float> weight_decay;  // instead of the optimizer's
};

struct OptimizerConfig {
  Method method = Method::adam;
  float beta1 = 0.9f, beta2 = 0.999f, epsilon = 1e-8f;
  float momentum = 0.9f;  // sgd
  float weight_decay = 0.0f;
  std::vector<ParameterGroup> groups;  // the first that has a parameter's name counts, if any does
};

// Updates in place from grad(), in one fused pass over a group's tensors; one without a gradient is
// left as it is.
class FOVEA_API Optimizer {
 public:
  Optimizer(const OptimizerConfig&, Tensors);
  void step(float rate, float gradient_scale = 1.0f);
  Tensors state() const;  // moments by name; the step count as "step"
  void load(const Tensors& state);

 private:
  OptimizerConfig config_;
  std::vector<Tensors> parameters_;  // by group, those of none last
  Tensors moments_;
  int64_t steps_ = 0;
};

// Scales gradients down to this norm over all of them; returns the norm before. 0: only returns it.
FOVEA_API float clip_by_norm(const Tensors&, float largest);

enum class Decay : uint8_t { constant, cosine, inverse_root, plateau };  // of the rate
FOVEA_API const char* name_of(Decay);
FOVEA_API Decay decay(const std::string& name);

// Whose weights a run ends with: the best validation's, or the last's. Where few examples validate,
// the best is a matter of chance, and averaged weights at the end of a falling rate are the better.
enum class Kept : uint8_t { best, last };
FOVEA_API const char* name_of(Kept);

struct ScheduleConfig {
  Decay decay = Decay::constant;
  float rate = 1e-3f;
  float floor = 0.0f;    // the smallest rate, as a share of `rate`
  int64_t warmup = 0;    // steps of linear growth
  float factor = 0.5f;   // plateau: multiplies the rate …
  int64_t patience = 1;  // … after this many validations without a better score
};
// The rate at step 1, 2, …; `progress` in [0,1] is how much of the run is done (cosine), and
// `reductions` how often a plateau was met.
FOVEA_API float rate_at(const ScheduleConfig&, int64_t step, double progress, int64_t reductions);

struct TrainConfig {
  OptimizerConfig optimizer;
  ScheduleConfig schedule;
  int64_t steps = 0;  // the end of the run; 0: no such limit (one of the three must be)
  int64_t epochs = 0;
  double minutes = 0;           // wall-clock, over all resumptions
  int64_t batch_tokens = 4096;  // examples × the longest among them
  int64_t batch_examples = 0;   // at most; 0: no limit
  bool like_lengths = true;     // of the examples of a batch; see Learner::lengths
  int64_t batches = 1;          // of a step: their gradients add up, weighed by StepLoss::count
  float clip = 1.0f;            // 0: none
  float average = 0.0f;         // decay of the moving average used to validate; 0: none
  int64_t validate_every = 0;   // steps; 0: after each epoch
  Kept keep = Kept::best;
  int64_t stop_after = 0;  // validations without a better score; 0: never
  int64_t save_every = 0;  // steps between checkpoints; 0: at validations only
  uint64_t seed = 1;
};

// Bytes that training keeps for so many weights: they, their gradients, moments and averages, and
// the sums of gradients that wait for those of further batches.
FOVEA_API int64_t memory_of(int64_t weights, const TrainConfig&);

// Ordered names and values, as they are shown and logged.
using Scores = std::vector<std::pair<std::string, double>>;

// Of one batch. Where a step has several, its gradient is Σ count·d loss/Σ count: that of their
// mean over all units together.
struct StepLoss {
  Tensor loss;       // [], to differentiate: a mean over `count`
  double total = 0;  // the loss to report: summed …
  double count = 0;  // … over this many of Learner::unit
};

// validate() may throw this when *stop became true: the run is saved as it was before.
struct Stopped {};

struct SharedBatches;  // src/train/shared.h

// What is trained.
struct Learner {
  Tensors parameters;
  // What a pass changes in place and no gradient does, such as running statistics: saved, resumed
  // and kept with the best weights. Averages pass them by: they follow the data by themselves.
  // Where a step has several batches, each begins with what the last step left, and the step leaves
  // the mean of what they made of it.
  Tensors buffers;
  // Tokens of each example, for batches of like lengths, which pad least. Those are not for a model
  // that normalises by the statistics of a batch, where an example shows how long it is: the
  // batches' statistics then differ from one another and from the running ones.
  std::vector<int64_t> lengths;
  std::function<StepLoss(std::span<const int64_t> examples, uint64_t seed)> loss;
  // Before each step, the share of the run that is done, in [0,1]: for what changes with it.
  std::function<void(double done)> before_step;
  std::function<Scores()> validate;  // with the weights to be judged in place
  std::string watch = "loss";        // the score that decides which weights are kept
  bool higher_is_better = false;
  std::string unit = "examples";  // what StepLoss::count counts, in the plural: "tokens"
  // Where it is there, the ranks of a team do not share a step's batches but each of them: all call
  // loss(), whose tensor is the sum of this rank's part, and whose total and count are of all.
  std::shared_ptr<SharedBatches> shared;
};

// One epoch's batches: examples shuffled, sorted by length within large pools (like_lengths), cut
// by tokens, and the batches shuffled. A function of the seed and the epoch alone.
FOVEA_API std::vector<std::vector<int64_t>> batches_of_epoch(const std::vector<int64_t>& lengths,
                                                             const TrainConfig&, int64_t epoch);

struct Progress {
  int64_t step = 0;
  int64_t epoch = 0, batch = 0, batches = 0;  // the epoch at hand, from 1, and its batches done
  double loss = 0;                            // of the latest steps, a unit
  float rate = 0;
  double units_per_second = 0;
  std::string unit;                      // the learner's
  double seconds = 0, seconds_left = 0;  // left: −1 where unknown
  double done = 0;                       // share of the run, in [0,1]
  const Scores* validated = nullptr;     // after a validation
  bool better = false;
};

enum class Ended : uint8_t { finished, stopped_early, interrupted };  // why a run ended
struct Finished {
  Ended why = Ended::finished;
  int64_t steps = 0, epochs = 0;
  double seen = 0;   // of the learner's units, in all steps; NaN where nobody counted
  std::string unit;  // the learner's
  double seconds = 0;
  Scores best;  // of the weights kept
  int64_t best_step = 0;
};

// Trains until the limit, early stop, or *stop; of several limits the first one met ends it. The
// folder gets log.jsonl (no clock in it), model.safetensors (the best weights so far) and
// state.safetensors (all that is needed to go on):
//   {"step":10,"epoch":1,"loss":2.31,"rate":0.001,"grad_norm":1.7}   the loss since the last one
//   {"step":50,"valid":{"loss":1.9,"accuracy":0.41}}
// Where the state is there already, it goes on from it, bit-equal to a run that never stopped;
// only what depends on the share that is done (a cosine, before_step) follows the clock where that
// is a share of `minutes`. A finished run returns at once, unless its limit was raised. Data, seed,
// batches and method must be the former ones.
// At the end the best weights (averages, where those are on) are in the parameters, with the
// buffers of that step; interrupted, the latest. A loss or gradient that is not finite throws,
// naming the step; the last checkpoint stays. A folder serves one process at a time.
FOVEA_API Finished train(const std::filesystem::path& run, Learner&, const TrainConfig&,
                         const std::function<void(const Progress&)>& report = {},
                         const std::atomic<bool>* stop = nullptr);

}  // namespace fovea::train
