#include "checkpoints/counterpart.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "fovea/error.h"

namespace fovea::checkpoints {
namespace {

using nn::Activation;
using nn::WithBias;
using Json = Config::Json;

// Settings that an architecture does not have, as options of a training.
class Differences {
 public:
  void expect(bool holds, const std::string& setting) {
    if (!holds) settings_.push_back(setting);
  }
  void refuse_any(const char* architecture) const {
    if (settings_.empty()) return;
    throw Error("export", fmt::format("transformers has no architecture for this model: it would "
                                      "be {}, but for {}",
                                      architecture, fmt::join(settings_, ", ")));
  }

 private:
  std::vector<std::string> settings_;
};

void compare_common(const models::TransformerConfig& n, Differences& d) {
  d.expect(n.order == nn::NormOrder::pre, fmt::format("--norm-order {}", name_of(n.order)));
  d.expect(!n.linear, "--linear");
  d.expect(n.score == "scaled_dot", "--score " + n.score);
  d.expect(n.weighting == "softmax", "--weighting " + n.weighting);
}

int64_t mlp_of(const models::TransformerConfig& n) {
  return n.mlp_width > 0 ? n.mlp_width : 4 * n.depth;
}

Json gpt2_config(const models::TransformerConfig& n) {
  Differences d;
  compare_common(n, d);
  d.expect(n.norm == nn::NormKind::layer, fmt::format("--norm {}", name_of(n.norm)));
  d.expect(n.key_heads == 0 || n.key_heads == n.heads, fmt::format("--key-heads {}", n.key_heads));
  d.expect(!nn::is_gated(n.activation), fmt::format("--activation {}", name_of(n.activation)));
  d.refuse_any("GPT-2");
  const char* activation = n.activation == Activation::relu   ? "relu"
                           : n.activation == Activation::gelu ? "gelu"
                                                              : "gelu_new";
  return {{"architectures", {"GPT2LMHeadModel"}},
          {"model_type", "gpt2"},
          {"vocab_size", n.target_vocabulary},
          {"n_positions", n.longest},
          {"n_embd", n.depth},
          {"n_layer", n.blocks},
          {"n_head", n.heads},
          {"n_inner", mlp_of(n)},
          {"activation_function", activation},
          {"layer_norm_epsilon", n.epsilon}};
}

Json llama_config(const models::TransformerConfig& n) {
  Differences d;
  compare_common(n, d);
  d.expect(n.norm == nn::NormKind::rms, fmt::format("--norm {}", name_of(n.norm)));
  d.expect(n.activation == Activation::swiglu,
           fmt::format("--activation {}", name_of(n.activation)));
  d.refuse_any("Llama");
  constexpr double kBase = 10000.0;
  return {{"architectures", {"LlamaForCausalLM"}},
          {"model_type", "llama"},
          {"vocab_size", n.target_vocabulary},
          {"hidden_size", n.depth},
          {"intermediate_size", mlp_of(n)},
          {"num_hidden_layers", n.blocks},
          {"num_attention_heads", n.heads},
          {"num_key_value_heads", n.key_heads > 0 ? n.key_heads : n.heads},
          {"head_dim", models::head_depth(n)},
          {"hidden_act", "silu"},
          {"max_position_embeddings", n.longest},
          {"rms_norm_eps", n.epsilon},
          {"rope_theta", kBase},
          {"rope_parameters", {{"rope_type", "default"}, {"rope_theta", kBase}}},
          {"attention_bias", n.biases.in == WithBias::yes},
          {"mlp_bias", n.biases.mlp == WithBias::yes}};
}

}  // namespace

Origin counterpart_of(const models::TransformerConfig& n) {
  const bool learned = n.positions == nn::Positions::learned;
  if (!learned && n.positions != nn::Positions::rotary) {
    throw Error("export", fmt::format("transformers has no architecture for this model: of its "
                                      "decoders with these blocks, GPT-2 has learned positions and "
                                      "Llama rotary ones; found --positions {}",
                                      name_of(n.positions)));
  }
  Json config = learned ? gpt2_config(n) : llama_config(n);
  config["tie_word_embeddings"] = n.tied;
  config["bos_token_id"] = nullptr;
  config["eos_token_id"] = nullptr;
  config["pad_token_id"] = 0;
  std::map<std::string, Shape> listed;
  if (!n.tied) listed["lm_head.weight"] = {n.target_vocabulary, n.depth};
  return Origin::made(config, listed);
}

}  // namespace fovea::checkpoints
