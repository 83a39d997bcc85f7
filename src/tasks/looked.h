#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tasks/explain.h"
#include "tasks/run_folder.h"
#include "tasks/task.h"

// Where a model looked while it learned: one held-out example, at each validation, in looks.json.
namespace fovea::tasks {

struct LookedAt {
  int64_t step = 0;
  std::string output;  // what came of the example
  std::vector<report::Picture> pictures;
};
struct LookHistory {
  std::string input;
  std::vector<LookedAt> each;  // by step
};
// Nothing where the run keeps none.
LookHistory looks_of(const RunFolder&);

class LookKeeper {
 public:
  // Of a run that goes on, with what it has kept. Models that show nothing are left alone, as are
  // those that read files.
  LookKeeper(const Task&, const RunFolder&, const Run&, bool goes_on);
  void look();              // with the weights to be judged in place
  void keep(int64_t step);  // what was seen last; what lies behind the step was of another end

 private:
  RunFolder folder_;
  const Run& run_;
  LookHistory looks_;
  std::optional<LookedAt> latest_;
};

// At most so many are kept, about evenly spread over the steps.
inline constexpr size_t kMostLooks = 64;
void thin(std::vector<LookedAt>&, size_t most);

}  // namespace fovea::tasks
