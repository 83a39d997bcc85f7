#include "tasks/estimate.h"

#include <algorithm>

#include "fovea/error.h"
#include "train/loop.h"
#include "train/meter.h"

namespace fovea::tasks {

team::Work measured_work(const Task& task, TaskConfig& config, const Watching& watching) {
  constexpr size_t kMost = 9;
  constexpr double kSeconds = 10;
  const std::unique_ptr<Run> run = task.begin(*as_saved(task, config), nullptr);
  const train::TrainConfig c = run->copy_of_config()->train;
  const train::Learner learner = run->learner(watching);
  train::check(learner, c);
  if (learner.shared) {
    throw Error("train",
                "--estimate is of machines that share a step's batches, and with "
                "--context-ranks they share each of them");
  }
  std::vector<double> seconds;
  const double began = train::clock_seconds();
  const auto batches = train::batches_of_epoch(learner.lengths, c, 0);
  for (size_t i = 0; i <= kMost; ++i) {
    const double before = train::clock_seconds();
    if (i > 1 && before > began + kSeconds) break;
    learner.loss(batches[i % batches.size()], i + 1).loss.backward();
    for (const auto& [name, tensor] : learner.parameters) Tensor(tensor).zero_grad();
    if (i > 0) seconds.push_back(train::clock_seconds() - before);  // the first warms up
  }
  std::ranges::nth_element(seconds, seconds.begin() + static_cast<int64_t>(seconds.size() / 2));
  const int64_t moments = c.optimizer.method == train::Method::sgd ? 1 : 2;
  const int64_t shared = (moments + (c.average > 0 ? 1 : 0)) * int64_t{sizeof(float)};
  return {.seconds = seconds[seconds.size() / 2] * static_cast<double>(c.batches),
          .weights = run->weights(),
          .kept = train::memory_of(1, c) - shared,
          .shared = shared};
}

}  // namespace fovea::tasks
