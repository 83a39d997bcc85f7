#pragma once

#include "fovea/sample.h"
#include "tasks/opened/opened.h"

// Decoders by themselves: text that goes on.
namespace fovea::tasks::opened {

// What is −1, or 0 where that means nothing else, is as the model's generation_config.json says.
struct WriteSettings final : Settings {
  int64_t length = 0;
  double temperature = -1;  // 0: always the likeliest
  int64_t top_k = -1;       // 0: of all
  double top_p = 0;
  int64_t beam = 0;
  int64_t seed = 0;
  DType cache = DType::f32;
  void visit(Fields&) override;
};
struct StrideSettings final : Settings {
  int64_t context = 0, stride = 0;
  void visit(Fields&) override;
};

// The prompt and what follows, until an end or the limit.
Prediction go_on(const Opened&, const std::string& prompt, const WriteSettings&, const Predicting&);

// −log p of each token by those before it: windows of `context` tokens, each `stride` after the one
// before, of which the tokens that none has scored count.
Evaluation perplexity(const Opened&, const std::string& text, const StrideSettings&,
                      const ShareDone&);

// How likely each next token was, and the one that the model would write.
Inside inside_text(const Opened&, const Ids&, const std::string& title);

}  // namespace fovea::tasks::opened
