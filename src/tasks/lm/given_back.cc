#include "tasks/given_back.h"

#include "checkpoints/counterpart.h"
#include "tasks/lm/lm.h"
#include "tasks/lm/tokenizer_json.h"

namespace fovea::tasks::lm {

GivenBack give_back(const LanguageModel& m) {
  const Tensors& ours = m.model.weights.all();
  if (m.origin) return tasks::given_back(*m.origin, ours);
  models::TransformerConfig n = m.config.network;
  n.longest = m.config.context;
  GivenBack g = tasks::given_back(checkpoints::counterpart_of(n), ours);
  g.made.push_back({"generation_config.json",
                    {{"pad_token_id", text::kPad},
                     {"suppress_tokens", {text::kPad, text::kUnknown, text::kBegin}}}});
  const text::Tokenizer& own = *m.tokenizer.own();
  if (own.unit() != text::Unit::words) {
    g.made.push_back({"tokenizer.json", tokenizer_json(own)});
    g.made.push_back({"tokenizer_config.json",
                      {{"tokenizer_class", "PreTrainedTokenizerFast"},
                       {"pad_token", "<pad>"},
                       {"unk_token", "<unk>"},
                       {"clean_up_tokenization_spaces", false},
                       {"model_max_length", n.longest}}});
  } else {
    g.no_tokenizer = "--unit words has no counterpart among tokenizers";
  }
  return g;
}

}  // namespace fovea::tasks::lm
