#pragma once

#include <memory>

#include "fovea/train.h"
#include "tasks/lm/lm.h"
#include "team/team.h"
#include "train/shared.h"

// Windows of text over the ranks of a team, each of which holds a part of every window: for
// contexts that no machine has room for. A window is cut into pairs of chunks by its length alone
// (ranks/cut.h), rows of a pair are computed by themselves but for attention (models/parts.h), and
// sums over pairs go by a tree: so no bit depends on the number of ranks.
namespace fovea::tasks::lm {

inline constexpr int64_t kLeastShared = 64;  // tokens of a window: two for each pair

// Throws where the model, or windows so long, cannot be shared by the team.
void check_shared(const LanguageModel&, int64_t window, const team::Team&);

// For a training of windows so long.
std::shared_ptr<train::SharedBatches> shared_batches(int64_t window);
// ids i64 [B,window+1].
train::StepLoss shared_loss(const LanguageModel&, const Tensor& ids, const models::LossConfig&,
                            team::Team&, train::SharedBatches&);
// −log p of each token but the first, [B·window] on all ranks.
std::vector<float> shared_losses(const LanguageModel&, const Tensor& ids, team::Team&);

}  // namespace fovea::tasks::lm
