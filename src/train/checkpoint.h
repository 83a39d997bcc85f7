#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "fovea/io.h"
#include "fovea/train.h"
#include "train/streamed.h"

namespace fovea::train {

// Where a run stands, between two steps.
struct RunState {
  int64_t step = 0;      // done so far
  int64_t epoch = 0;     // done so far
  int64_t position = 0;  // batches of the next epoch done so far
  int64_t validations = 0;
  int64_t validated_step = -1;  // of the last validation
  int64_t stale = 0;            // validations since the best
  int64_t reductions = 0;       // plateaus met
  int64_t best_step = 0;
  double best_score = 0;
  Scores best;
  double loss_total = 0, loss_count = 0;  // since the last line of the log
  int64_t log_bytes = 0;
  double seconds = 0;
  double seen = 0;  // of the learner's units, in all steps; NaN where a former version began
};

struct Checkpoint {
  RunState state;
  Metadata run;  // what may not change between resumptions
  Tensors weights, buffers, optimizer, average;
};

// The run's data, seed, batches and optimizer: with others the state means nothing.
Metadata identity_of(const Learner&, const TrainConfig&);

// As text that reads back exactly.
std::string text_of(const Scores&);
Scores parse_scores(const std::string&);
std::string text_of(const RunState&);
RunState parse_state(const std::string&);

// One that is to be written, its tensors piece by piece.
struct StreamedCheckpoint {
  const RunState& state;
  const Metadata& run;
  StreamedTensors weights, buffers, optimizer, average;
};
void save_state(team::Team&, const std::filesystem::path&, const StreamedCheckpoint&);
// None where there is no such file. Throws where it is no state, or of another run than `run`.
std::optional<Checkpoint> load_state(const std::filesystem::path&, const Metadata& run);
// The same without its tensors.
std::optional<RunState> read_state(const std::filesystem::path&, const Metadata& run);

// The best weights, with their step.
void save_best(team::Team&, const std::filesystem::path&, const StreamedTensors&, int64_t step);
// None where there is no such file, or it is of another step.
std::optional<Tensors> load_best(const std::filesystem::path&, int64_t step);

// Temporary files of saves that were killed.
void remove_leftovers(const std::filesystem::path& folder);

}  // namespace fovea::train
