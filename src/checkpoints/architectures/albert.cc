#include "checkpoints/families.h"

// BERT with one layer for all blocks, and embeddings that are widened before the first.
namespace fovea::checkpoints {
namespace {

ModelPlan albert_plan(const Config& c, const StoredTensors& stored) {
  for (const char* key : {"num_hidden_groups", "inner_group_num"}) {
    if (c.integer(key, 1, {0, 512}) != 1) c.refuse(key, "and known here is 1");
  }
  BertSizes sizes = bert_sizes(c);
  sizes.activation = activation_in(c, "hidden_act", "gelu_new");
  sizes.embedding = c.integer("embedding_size", 128, {1, 65536});
  sizes.shared = true;
  const BertNames names = {.layer = "encoder.albert_layer_groups.0.albert_layers.0.",
                           .query = "attention.query",
                           .key = "attention.key",
                           .value = "attention.value",
                           .out = "attention.dense",
                           .self_norm = "attention.LayerNorm",
                           .up = "ffn",
                           .down = "ffn_output",
                           .mlp_norm = "full_layer_layer_norm"};
  ModelPlan p = bert_plan(c, names, sizes);
  add_linear(p.recipe, "encoder.widen",
             {.from = {"encoder.embedding_hidden_mapping_in"},
              .rows = {sizes.depth},
              .in = sizes.embedding});
  add_bert_head(p, c, stored,
                {.dense = "predictions.dense",
                 .norm = "predictions.LayerNorm",
                 .decoder = "predictions.decoder",
                 .bias = "predictions.bias",
                 .tells_dense = "albert.pooler",
                 .tells_out = "classifier"});
  p.passed_by.insert(p.passed_by.end(),
                     {"sop_classifier.classifier.weight", "sop_classifier.classifier.bias"});
  if (p.purpose == Purpose::reads) {
    p.passed_by.insert(p.passed_by.end(), {"pooler.weight", "pooler.bias"});
  }
  return p;
}

}  // namespace

extern const Architecture architecture_albert = {"albert", "ALBERT", "albert.", albert_plan,
                                                 "AlbertForSequenceClassification"};

}  // namespace fovea::checkpoints
