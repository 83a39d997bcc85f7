#include "checkpoints/families.h"

namespace fovea::checkpoints {

extern const Architecture architecture_bert = {
    "bert", "BERT", "bert.",
    [](const Config& c, const StoredTensors& stored) {
      ModelPlan p = bert_plan(c, {}, bert_sizes(c));
      add_bert_head(p, c, stored,
                    {.dense = "cls.predictions.transform.dense",
                     .norm = "cls.predictions.transform.LayerNorm",
                     .decoder = "cls.predictions.decoder",
                     .bias = "cls.predictions.bias",
                     .tells_dense = "bert.pooler.dense",
                     .tells_out = "classifier"});
      p.passed_by.insert(p.passed_by.end(),
                         {"cls.seq_relationship.weight", "cls.seq_relationship.bias"});
      if (p.purpose == Purpose::reads) {
        p.passed_by.insert(p.passed_by.end(), {"pooler.dense.weight", "pooler.dense.bias"});
      }
      return p;
    },
    "BertForSequenceClassification"};

}  // namespace fovea::checkpoints
