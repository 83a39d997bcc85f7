#pragma once

#include <optional>
#include <string>
#include <vector>

#include "checkpoints/origin.h"
#include "fovea/nn.h"
#include "fovea/train.h"
#include "tasks/coder.h"
#include "tasks/fields.h"
#include "tasks/run_folder.h"

// Trainings that begin with a model that somebody else trained (checkpoints/origin.h). Its weights
// become the run's, and what else it has goes into RUN/from: its own folder is needed no more.
namespace fovea::tasks {

struct FurtherConfig {
  std::string from;              // the model's folder; empty: from scratch
  std::string freeze = "none";   // "none", "all", or how many blocks
  std::string model, attention;  // what it is, for people

  bool on() const { return !from.empty(); }
};
void check(const FurtherConfig&);  // that nothing is frozen where there is no model to begin with
void visit_further(Fields&, FurtherConfig&, const std::string& which);

// Of the folder that the settings name, or, where a run goes on or is opened, of RUN/from; sets
// what the settings say for people. Throws, in a line, where it is no such model.
checkpoints::Origin origin_of(FurtherConfig&, const RunFolder* former,
                              const checkpoints::WantedModel&);

// Throws where options of a model from scratch were set: those of its Transformer, or others by
// name.
void expect_unset(const models::TransformerConfig& set, const models::TransformerConfig& usual,
                  std::vector<std::string> others = {});
// Throws where the tokenizer gives ids that the model has no rows for.
void check_vocabulary(const Coder&, int64_t rows);

// To be learned, but for tables that are computed and what is frozen: embeddings and the first
// blocks. A run that goes on gets values of none.
nn::Weights begun_weights(const checkpoints::Origin&, const FurtherConfig&, uint64_t seed,
                          const RunFolder* former);

// Groups of parameters: those given, and tensors whose steps are larger or smaller than theirs.
std::vector<train::ParameterGroup> groups_of(const checkpoints::Origin&, train::Method,
                                             const train::ParameterGroup& plain);

}  // namespace fovea::tasks
