#include "checkpoints/families.h"

#include <fmt/format.h>

#include <cmath>

#include "checkpoints/rope.h"
#include "fovea/error.h"
#include "fovea/ops.h"

namespace fovea::checkpoints {
namespace {

using nn::NormKind;

nn::WithBias with(bool bias) { return bias ? nn::WithBias::yes : nn::WithBias::no; }

nn::Activation gated(const Config& c, const std::string& key, nn::Activation a) {
  using nn::Activation;
  if (a == Activation::silu) return Activation::swiglu;
  if (a == Activation::gelu) return Activation::geglu;
  if (a == Activation::gelu_tanh) return Activation::geglu_tanh;
  c.refuse(key, "and a gated MLP by it is not known here");
}

void read_llama_sizes(const Config& c, int64_t head_depth, models::TransformerConfig& n) {
  n.target_vocabulary = c.integer("vocab_size");
  n.depth = c.integer("hidden_size");
  n.blocks = c.integer("num_hidden_layers", {1, 512});
  n.heads = c.integer("num_attention_heads", {1, 1024});
  n.key_heads = c.integer("num_key_value_heads", n.heads, {1, 1024});
  if (n.heads % n.key_heads != 0) {
    c.refuse("num_key_value_heads", fmt::format("expected a divisor of the {} heads", n.heads));
  }
  n.head_depth = c.integer("head_dim", head_depth, {1, 4096});
  if (n.head_depth == 0 && n.depth % n.heads != 0) {
    c.refuse("num_attention_heads", fmt::format("and does not divide hidden_size {}", n.depth));
  }
  if (n.head_depth == 0) n.head_depth = n.depth / n.heads;
  n.mlp_width = c.integer("intermediate_size");
}

void add_llama_block(ModelPlan& p, const LlamaStyle& style, int64_t b) {
  const models::TransformerConfig& n = p.network;
  const int64_t W = n.depth, M = n.mlp_width, d = n.head_depth, q = n.heads * d,
                kv = n.key_heads * d;
  const std::string ours = fmt::format("decoder.{}.", b), theirs = fmt::format("layers.{}.", b);
  const std::string self = theirs + "self_attn.", mlp = theirs + "mlp.";
  add_linear(p.recipe, ours + "self.in",
             {.from = {self + "q_proj", self + "k_proj", self + "v_proj"},
              .rows = {q, kv, kv},
              .in = W,
              .bias = style.qkv_bias});
  add_linear(p.recipe, ours + "self.out",
             {.from = {self + "o_proj"}, .rows = {W}, .in = q, .bias = style.out_bias});
  if (style.qk_norm) {
    add_norm(p.recipe, ours + "self.query_norm", self + "q_norm", d, NormKind::rms);
    add_norm(p.recipe, ours + "self.key_norm", self + "k_norm", d, NormKind::rms);
  }
  add_linear(p.recipe, ours + "mlp.up",
             {.from = {mlp + "gate_proj", mlp + "up_proj"},
              .rows = {M, M},
              .in = W,
              .bias = style.mlp_bias});
  add_linear(p.recipe, ours + "mlp.down",
             {.from = {mlp + "down_proj"}, .rows = {W}, .in = M, .bias = style.mlp_bias});
  add_norm(p.recipe, ours + "self_norm", theirs + "input_layernorm", W, NormKind::rms);
  add_norm(p.recipe, ours + "mlp_norm", theirs + "post_attention_layernorm", W, NormKind::rms);
}

}  // namespace

std::vector<int64_t> windows_in(const Config& c, int64_t blocks, int64_t window,
                                const std::function<bool(int64_t)>& sliding) {
  std::vector<int64_t> all;
  const std::vector<std::string> types = c.texts("layer_types");
  if (!types.empty() && static_cast<int64_t>(types.size()) != blocks) {
    c.refuse("layer_types", fmt::format("expected {} of them", blocks));
  }
  for (int64_t b = 0; b < blocks; ++b) {
    bool slides = sliding(b);
    if (!types.empty()) {
      const std::string& type = types[static_cast<size_t>(b)];
      slides = type == "sliding_attention";
      if (!slides && type != "full_attention") {
        c.refuse("layer_types", "and known here are full_attention and sliding_attention");
      }
    }
    all.push_back(slides ? window : 0);
  }
  return all;
}

ModelPlan llama_plan(const Config& c, const StoredTensors& stored, const LlamaStyle& style) {
  ModelPlan p{.purpose = Purpose::writes};
  models::TransformerConfig& n = p.network;
  read_llama_sizes(c, style.head_depth, n);
  n.activation =
      gated(c, style.activation_key, activation_in(c, style.activation_key, style.activation));
  n.norm = NormKind::rms;
  n.epsilon = static_cast<float>(c.real("rms_norm_eps", style.epsilon));
  n.positions = nn::Positions::rotary;
  n.rotary = rotary_in(c, n.head_depth, 10000.0);
  n.biases = {.in = with(style.qkv_bias), .out = with(style.out_bias), .mlp = with(style.mlp_bias)};
  if (style.qk_norm) n.qk_epsilon = n.epsilon;
  n.tied = !stored.has("lm_head.weight");
  if (n.tied && !c.flag("tie_word_embeddings", style.tied)) {
    throw Error("open",
                "tensor 'lm_head.weight' is missing, and the config says that it is not "
                "the embedding (tie_word_embeddings)");
  }
  p.longest = c.integer("max_position_embeddings", 0, {1, int64_t{1} << 30});

  const int64_t W = n.depth;
  add_tensor(p.recipe, "target.weight", "embed_tokens.weight", {n.target_vocabulary, W});
  if (!n.tied) add_tensor(p.recipe, "output.weight", "lm_head.weight", {n.target_vocabulary, W});
  add_norm(p.recipe, "decoder.norm", "norm", W, NormKind::rms);
  for (int64_t b = 0; b < n.blocks; ++b) add_llama_block(p, style, b);
  p.passed_by = {"rotary_emb.inv_freq"};
  return p;
}

void add_qwen_windows(ModelPlan& p, const Config& c) {
  if (!c.flag("use_sliding_window", false)) {
    for (const std::string& type : c.texts("layer_types")) {
      if (type != "full_attention") c.refuse("layer_types", "and use_sliding_window is false");
    }
    return;
  }
  models::TransformerConfig& n = p.network;
  const int64_t window = c.integer("sliding_window", 4096, {1, int64_t{1} << 30});
  const int64_t first = c.integer("max_window_layers", 28, {0, 512});
  for (const int64_t w : windows_in(c, n.blocks, window, [=](int64_t b) { return b >= first; })) {
    n.each.push_back({.window = w, .rotary = n.rotary});
  }
}

void become_gemma(ModelPlan& p, const Config& c) {
  models::TransformerConfig& n = p.network;
  n.order = nn::NormOrder::around;
  n.embedding_scale = std::sqrt(static_cast<float>(n.depth));
  n.score_scale = static_cast<float>(1.0 / std::sqrt(c.real("query_pre_attn_scalar", 256)));
  if (c.flag("use_bidirectional_attention", false)) {
    c.refuse("use_bidirectional_attention", "and this architecture is read as a decoder here");
  }
  for (int64_t b = 0; b < n.blocks; ++b) {
    const std::string ours = fmt::format("decoder.{}.", b), theirs = fmt::format("layers.{}.", b);
    const auto norm = [&](const char* own, const char* name) {
      add_norm(p.recipe, ours + own, theirs + name, n.depth, NormKind::rms);
    };
    norm("self_after", "post_attention_layernorm");
    norm("mlp_norm", "pre_feedforward_layernorm");
    norm("mlp_after", "post_feedforward_layernorm");
  }
  // Norms are by 1 + w.
  for (auto& [name, from] : p.recipe) {
    const bool norm = name.ends_with("norm.weight") || name.ends_with("after.weight");
    if (norm) from.plus = 1.0f;
  }
}

}  // namespace fovea::checkpoints
