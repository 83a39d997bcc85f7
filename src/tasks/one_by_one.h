#pragma once

#include <string>
#include <vector>

#include "tasks/task.h"

// A set's inputs one by one: what came of each, what should have, and how far apart these are.
namespace fovea::tasks {

struct Answered {
  std::string input, output, expected;
  double score = 0;  // as the model gives it: of classes, the probability of what it says
  // From 0, as expected, to 1. Of classes: 1 − p of the expected one. Of texts: 1 − chrF/100
  // against the nearest expected one.
  double error = 0;
  bool right = false;  // exactly what was expected
  int64_t length = 0;  // words of the input; 0 of an image
};

struct Outcomes {
  std::vector<Answered> all;
  std::string measured;  // what the error is, in words
  bool classes = false;
};

// At most so many from the front of a set; throws where the run's task has no single right answer.
Outcomes one_by_one(const Task&, const Run&, Set, size_t most, const ShareDone&);

}  // namespace fovea::tasks
