#include "checkpoints/families.h"

// BERT whose first position is the one after the padding's id.
namespace fovea::checkpoints {

extern const Architecture architecture_roberta = {
    "roberta", "RoBERTa", "roberta.",
    [](const Config& c, const StoredTensors& stored) {
      BertSizes sizes = bert_sizes(c);
      sizes.begins = c.integer("pad_token_id", 1, {0, 1 << 20}) + 1;
      ModelPlan p = bert_plan(c, {}, sizes);
      add_bert_head(p, c, stored,
                    {.dense = "lm_head.dense",
                     .norm = "lm_head.layer_norm",
                     .decoder = "lm_head.decoder",
                     .bias = "lm_head.bias",
                     .tells_dense = "classifier.dense",
                     .tells_out = "classifier.out_proj"});
      if (p.purpose == Purpose::fills) p.head->curve = HeadPlan::Curve::gelu;
      p.passed_by.insert(p.passed_by.end(), {"pooler.dense.weight", "pooler.dense.bias"});
      return p;
    },
    "RobertaForSequenceClassification"};

}  // namespace fovea::checkpoints
