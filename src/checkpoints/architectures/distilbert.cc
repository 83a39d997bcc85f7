#include "checkpoints/families.h"

// BERT without types, half as deep; keys of its config are its own.
namespace fovea::checkpoints {
namespace {

ModelPlan distilbert_plan(const Config& c, const StoredTensors& stored) {
  const BertNames names = {.layer = "transformer.layer.",
                           .query = "attention.q_lin",
                           .key = "attention.k_lin",
                           .value = "attention.v_lin",
                           .out = "attention.out_lin",
                           .self_norm = "sa_layer_norm",
                           .up = "ffn.lin1",
                           .down = "ffn.lin2",
                           .mlp_norm = "output_layer_norm"};
  ModelPlan p = bert_plan(c, names,
                          {.depth = c.integer("dim"),
                           .heads = c.integer("n_heads", {1, 1024}),
                           .blocks = c.integer("n_layers", {1, 512}),
                           .mlp = c.integer("hidden_dim"),
                           .activation = activation_in(c, "activation", "gelu")});
  add_bert_head(p, c, stored,
                {.dense = "vocab_transform",
                 .norm = "vocab_layer_norm",
                 .decoder = "vocab_projector",
                 .bias = "vocab_projector.bias",
                 .tells_dense = "pre_classifier",
                 .tells_out = "classifier",
                 .tells_curve = HeadPlan::Curve::relu});
  return p;
}

}  // namespace

extern const Architecture architecture_distilbert = {"distilbert", "DistilBERT", "distilbert.",
                                                     distilbert_plan,
                                                     "DistilBertForSequenceClassification"};

}  // namespace fovea::checkpoints
