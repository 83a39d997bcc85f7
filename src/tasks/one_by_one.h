#pragma once

#include <string>
#include <vector>

#include "tasks/task.h"

// A set's inputs one by one: what came of each, what should have, and how far apart these are.
namespace fovea::tasks {

struct AnsweredInput {
  // Of a language model: the text, what it guessed in place of its hardest token, and that token.
  std::string input, output, expected;
  // As the model gives it: of classes, the probability of what it says. Of a language model, the
  // share of the tokens that it guessed.
  double score = 0;
  // From 0, as expected. Of classes, to 1: 1 − p of the expected one. Of answers, to 1:
  // 1 − chrF/100 against the nearest expected one. Of a language model: mean −log p of a token.
  double error = 0;
  bool right = false;  // exactly what was expected; of a language model, every token
  int64_t length = 0;  // words of the input; of a language model, tokens; 0 of an image
};

// What rows are about: a class, an answer, or a text that is guessed token by token.
enum class RowKind : uint8_t { classes, answers, texts };
const char* name_of(RowKind);

struct AnsweredInputs {
  std::vector<AnsweredInput> all;
  std::string measured;  // what the error is, in words
  RowKind rows = RowKind::answers;
};

// At most so many from the front of a set; throws where there are no data.
AnsweredInputs one_by_one(const Task&, const Run&, Set, size_t most, const ShareDone&);

}  // namespace fovea::tasks
