#pragma once

#include <string>

#include "checkpoints/architecture.h"

// What architectures of one family share; an architecture's file says how it differs.
namespace fovea::checkpoints {

// ---- Decoders after Llama: RMS norms before each part, rotary positions, a gated MLP
struct LlamaStyle {
  bool qkv_bias = false, out_bias = false, mlp_bias = false;
  bool qk_norm = false;
  int64_t head_depth = 0;  // 0: depth/heads
  bool tied = false;       // where the config does not say
  double epsilon = 1e-6;
  std::string activation_key = "hidden_act", activation = "silu";
};
ModelPlan llama_plan(const Config&, const StoredTensors&, const LlamaStyle&);
// Every block's window by `layer_types`, or as `sliding` says for a block.
std::vector<int64_t> windows_in(const Config&, int64_t blocks, int64_t window,
                                const std::function<bool(int64_t)>& sliding);
// Qwen's: a window from block `max_window_layers` on, where `use_sliding_window` says so.
void add_qwen_windows(ModelPlan&, const Config&);
// Gemma's: norms around each part by 1 + w, larger embeddings, a score of its own.
void become_gemma(ModelPlan&, const Config&);

// ---- Encoders after BERT: norms after each part, learned positions
struct BertNames {
  std::string embeddings = "embeddings.";  // word_embeddings, position_embeddings, LayerNorm
  std::string layer = "encoder.layer.";    // and the number
  std::string query = "attention.self.query", key = "attention.self.key",
              value = "attention.self.value", out = "attention.output.dense",
              self_norm = "attention.output.LayerNorm", up = "intermediate.dense",
              down = "output.dense", mlp_norm = "output.LayerNorm";
};
struct BertSizes {
  int64_t depth = 0, heads = 0, blocks = 0, mlp = 0;
  nn::Activation activation = nn::Activation::gelu;
  double epsilon = 1e-12;
  int64_t types = 0;      // of tokens; the first is added to every position
  int64_t begins = 0;     // position of the first token
  int64_t embedding = 0;  // narrower; 0: depth
  bool shared = false;    // one layer for all
};
ModelPlan bert_plan(const Config&, const BertNames&, const BertSizes&);
BertSizes bert_sizes(const Config&);

// The head that fills in masked tokens, or that tells classes: by which of its tensors is there;
// none where neither is, and the config asks for none.
struct HeadNames {
  std::string dense, norm, decoder, bias;  // fills: decoder tied where it is not there
  std::string tells_dense, tells_out;
  HeadPlan::Curve tells_curve = HeadPlan::Curve::tanh;
};
void add_bert_head(ModelPlan&, const Config&, const StoredTensors&, const HeadNames&);

// ---- Encoders of pictures after ViT: norms before each part
struct VitNames {
  std::vector<std::string> tokens;  // learned rows before the patches
  std::vector<std::string> out;     // classifiers, one for each of the first rows
};
ModelPlan vit_plan(const Config&, const StoredTensors&, const VitNames&);

// ---- What encoder-decoders share
struct CrossNames {
  std::string q, k, v, out;
};
// Adds NAME.query, NAME.memory and NAME.out.
void add_cross(Recipe&, const std::string& ours, const CrossNames&, const Shape& widths, bool bias);

}  // namespace fovea::checkpoints
