#pragma once

#include <span>
#include <string>
#include <vector>

#include "fovea/text.h"
#include "fovea/train.h"
#include "tasks/translate/translate.h"

namespace fovea::tasks::translation {

// Unique sources in the order they first come, each with all its translations.
struct References {
  std::vector<std::string> sources;
  text::References targets;
};
References group_by_source(std::span<const text::Pair>);

// BLEU, chrF, exact match and token error rate.
train::Scores text_scores(const Coder& target, std::span<const std::string> hypotheses,
                          const text::References&);

// −log p a token, under the model as it would be used.
double mean_loss(const Translator&, std::span<const text::Pair>, const ShareDone&);

}  // namespace fovea::tasks::translation
