#include "tasks/decoder_fields.h"

#include <vector>

namespace fovea::tasks {

void visit_writer_loss(Fields& f, models::LossConfig& l, const std::string& dropped,
                       const std::string& rows) {
  f.group("Regularisation, and hard attention");
  f.real("dropout", l.dropout, dropped, {0, 0.95});
  f.real("label-smoothing", l.label_smoothing, "share of a target spread over the others",
         {0, 0.9});
  f.named("baseline", l.baseline,
          "hard: a reward is compared with a learned guess, or with that of soft attention",
          std::vector{models::Baseline::learned, models::Baseline::expected});
  f.real("reward-weight", l.reward, "hard: weight of the REINFORCE term", {0, 1e3});
  f.real("entropy-weight", l.entropy, "hard: bonus for the entropy of attention", {0, 1e3});
  f.real("discount", l.discount, "hard: how much later words count in a choice's reward", {0, 1});
  f.real("semi-sampling", l.semi_sampling,
         "hard, learned baseline: share of " + rows + " that take the mean", {0, 1});
}

void visit_search(Fields& f, models::DecodeConfig& d) {
  f.group("Decoding");
  f.integer("beam", d.beam, "hypotheses kept at each step; 1 is greedy", {1, models::kLargestBeam});
  f.real("length-power", d.length_power, "compare by log p / length^POWER", {0, 10});
}

void visit_n_best(Fields& f, models::DecodeConfig& d) {
  f.integer("n-best", d.n_best, "print this many, each with its score", {1, models::kLargestBeam});
}

void visit_cache(Fields& f, DType& kept) {
  f.named("cache", kept,
          "what keys and values of the text so far are kept as: half the bytes take half the time "
          "to read, and cost digits",
          std::vector{DType::f32, DType::bf16});
}

}  // namespace fovea::tasks
