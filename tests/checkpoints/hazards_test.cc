// Folders that are broken, hostile or of a kind that is not read: one line each, before any data.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "checkpoints/checkpoint.h"
#include "checkpoints/folder.h"
#include "checkpoints/golden.h"
#include "errors.h"

namespace fovea::checkpoints {
namespace {

namespace fs = std::filesystem;
using fovea::test::error_of;
using fovea::test::has;
using test::Copied;

std::string opened(const Copied& folder) {
  return error_of([&] { open(folder.path()); });
}

#define EXPECT_SAYS(message, part)  \
  do {                              \
    const std::string m = message;  \
    EXPECT_TRUE(has(m, part)) << m; \
  } while (false)

TEST(Hazards, PicklesAreRefusedWithHowToConvert) {
  const Copied gpt2("gpt2");
  fs::rename(gpt2.path() / "model.safetensors", gpt2.path() / "pytorch_model.bin");
  const std::string message = opened(gpt2);
  EXPECT_SAYS(message, "pytorch_model.bin");
  EXPECT_SAYS(message, "save_pretrained");
  fs::remove(gpt2.path() / "pytorch_model.bin");
  EXPECT_SAYS(opened(gpt2), "has no model.safetensors");
}

TEST(Hazards, ShardsStayInTheFolder) {
  for (const char* name : {"../gpt2/model.safetensors", "/etc/passwd", "a/b.safetensors", "..", "",
                           "a\\b.safetensors", "model.bin"}) {
    const Copied llama("llama");
    nlohmann::ordered_json index = llama.json("model.safetensors.index.json");
    index["weight_map"]["lm_head.weight"] = name;
    llama.write("model.safetensors.index.json", index.dump());
    EXPECT_SAYS(opened(llama), "expected the name of a .safetensors file");
  }
}

TEST(Hazards, EveryShardIsThereAndEveryTensorOnce) {
  const Copied llama("llama"), twice("llama"), absent("llama");
  fs::remove(llama.path() / "model-00002-of-00003.safetensors");
  EXPECT_SAYS(opened(llama), "model-00002-of-00003.safetensors, which is not there");

  const Tensors first = load_safetensors(twice.path() / "model-00001-of-00003.safetensors");
  Tensors second = load_safetensors(twice.path() / "model-00002-of-00003.safetensors");
  second.insert(*first.begin());
  save_safetensors(twice.path() / "model-00002-of-00003.safetensors", second);
  EXPECT_SAYS(opened(twice), "and again in");

  Tensors third = load_safetensors(absent.path() / "model-00003-of-00003.safetensors");
  const std::string name = third.begin()->first;
  third.erase(third.begin());
  save_safetensors(absent.path() / "model-00003-of-00003.safetensors", third);
  const std::string message = opened(absent);
  EXPECT_SAYS(message, "is missing");
  EXPECT_SAYS(message, name.substr(name.find('.') + 1));
}

TEST(Hazards, TheIndexIsRead) {
  EXPECT_SAYS(error_of([] { shards_in("[]", "index"); }), "no index of shards");
  EXPECT_SAYS(error_of([] { shards_in(R"({"weight_map": {"a": 3}})", "index"); }), "names files");
  EXPECT_SAYS(error_of([] { shards_in(R"({"weight_map": {}})", "index"); }), "lists no tensors");
  EXPECT_SAYS(error_of([] { shards_in("{", "index"); }), "not JSON");
  EXPECT_EQ(shards_in(R"({"weight_map": {"b": "y.safetensors", "a": "x.safetensors"}})", "index"),
            (std::vector<std::string>{"x.safetensors", "y.safetensors"}));
}

TEST(Hazards, HeadersThatLieAreNotBelieved) {
  const Copied cut("gpt2"), longer("gpt2"), empty("gpt2");
  fs::resize_file(cut.path() / "model.safetensors", 2000);
  EXPECT_SAYS(opened(cut), "model.safetensors");
  std::string text = "\xff\xff\xff\xff\xff\xff\xff\x7f{}";
  longer.write("model.safetensors", text);
  EXPECT_SAYS(opened(longer), "header length");
  empty.write("model.safetensors", "");
  EXPECT_SAYS(opened(empty), "too short");
}

TEST(Hazards, SizesAreHeldAgainstTheHeaders) {
  const Copied gpt2("gpt2");
  gpt2.edit({{"n_embd", 32}});
  EXPECT_SAYS(opened(gpt2), "and the config asks for");
  gpt2.edit({{"n_embd", 16}, {"vocab_size", 1e15}});
  EXPECT_SAYS(opened(gpt2), "expected a whole number in");
  gpt2.edit({{"vocab_size", 16'000'000}, {"n_embd", 16'000'000}, {"n_head", 1000}});
  EXPECT_SAYS(opened(gpt2), "and the config asks for");
  gpt2.edit({{"vocab_size", 61}, {"n_embd", 16}, {"n_head", 5}});
  EXPECT_SAYS(opened(gpt2), "does not divide");
  gpt2.edit({{"n_head", 4}, {"n_layer", -1}});
  EXPECT_SAYS(opened(gpt2), "n_layer is -1");
  gpt2.edit({{"n_layer", "two"}});
  EXPECT_SAYS(opened(gpt2), "n_layer is \"two\"");
  gpt2.edit({{"n_layer", nullptr}});
  EXPECT_SAYS(opened(gpt2), "has no n_layer");
}

TEST(Hazards, WhatIsNotUnderstoodIsRefusedByName) {
  const auto says = [](const char* golden, const nlohmann::ordered_json& change, const char* part) {
    const Copied folder(golden);
    folder.edit(change);
    EXPECT_SAYS(opened(folder), part);
  };
  says("gpt2", {{"model_type", "gtp2"}}, "gpt2");
  says("gpt2", {{"model_type", "mamba"}}, "an architecture that is not known here");
  says("gpt2", {{"activation_function", "mish"}}, "activation_function is \"mish\"");
  says("gpt2", {{"scale_attn_by_inverse_layer_idx", true}}, "scale_attn_by_inverse_layer_idx");
  says("gpt2", {{"auto_map", {{"AutoModel", "modeling.Model"}}}}, "it is not run");
  says("gpt2", {{"quantization_config", {{"bits", 4}}}}, "only weights as plain numbers");
  says("llama", {{"rope_parameters", {{"rope_type", "longrope"}, {"rope_theta", 1e4}}}},
       "rope_type is \"longrope\"");
  says("llama", {{"rope_parameters", {{"rope_type", "default"}, {"partial_rotary_factor", 0.5}}}},
       "partial_rotary_factor");
  says("qwen2", {{"layer_types", {"full_attention", "chunked_attention"}}}, "layer_types");
  says("bert_fills", {{"position_embedding_type", "relative_key"}}, "position_embedding_type");
  says("albert_fills", {{"num_hidden_groups", 2}}, "num_hidden_groups");
  says("t5", {{"feed_forward_proj", "gated-tanh"}}, "feed_forward_proj");
  says("marian", {{"normalize_before", true}}, "normalize_before");
  says("vit", {{"patch_size", 5}}, "patch_size");
}

// With the pooler that transformers saves, or without it; another head is none that is known.
TEST(Hazards, EncodersByThemselvesAreThoseThatTheConfigCallsSo) {
  for (const auto& [name, model, head] :
       {std::array<const char*, 3>{"bert_fills", "BertModel", "cls."},
        {"roberta_fills", "RobertaModel", "lm_head."},
        {"distilbert_fills", "DistilBertModel", "vocab_"},
        {"albert_fills", "AlbertModel", "predictions."},
        {"vit", "ViTModel", "classifier."}}) {
    const Copied folder(name);
    folder.edit({{"architectures", {model}}});
    const bool pools = std::string(name).starts_with("bert") || name == std::string("vit");
    folder.change_weights([&, head = head](Tensors& all) {
      std::erase_if(all, [&](const auto& entry) { return entry.first.starts_with(head); });
      if (pools) all["pooler.dense.weight"] = Tensor::zeros({16, 16});
    });
    EXPECT_FALSE(open(folder.path()).head.has_value()) << name;
    folder.change_weights([](Tensors& all) { all["qa_outputs.weight"] = Tensor::zeros({2, 16}); });
    EXPECT_SAYS(opened(folder), "'qa_outputs.weight' is none that this architecture has");
  }
}

TEST(Hazards, TensorsThatNothingIsMadeOfAreRefused) {
  const Copied more("gpt2"), type("gpt2"), adapter("gpt2"), headless("bert_fills"), untied("qwen2");
  more.change_weights([](Tensors& all) { all["score.weight"] = Tensor::zeros({2, 16}); });
  EXPECT_SAYS(opened(more), "'score.weight' is none that this architecture has");
  type.change_weights([](Tensors& all) {
    all.at("transformer.wte.weight") = Tensor::zeros({61, 16}, DType::i64);
  });
  EXPECT_SAYS(opened(type), "expected floating-point numbers");
  adapter.write("adapter_config.json", "{}");
  EXPECT_SAYS(opened(adapter), "merge");
  headless.change_weights([](Tensors& all) {
    std::erase_if(all, [](const auto& entry) { return entry.first.starts_with("cls."); });
  });
  EXPECT_SAYS(opened(headless), "'cls.predictions.transform.dense.bias' [16] is missing");
  untied.change_weights([](Tensors& all) { all.erase("lm_head.weight"); });
  EXPECT_SAYS(opened(untied), "tie_word_embeddings");
}

TEST(Hazards, NumbersOfEightBitsAreRefusedByTheirType) {
  const Copied gpt2("gpt2");
  std::string header = R"({"wte.weight":{"dtype":"F8_E4M3","shape":[4],"data_offsets":[0,4]}})";
  header.resize((header.size() + 7) / 8 * 8, ' ');
  const uint64_t n = header.size();
  gpt2.write("model.safetensors",
             std::string(reinterpret_cast<const char*>(&n), 8) + header + "abcd");
  EXPECT_SAYS(opened(gpt2), "F8_E4M3");
}

TEST(Hazards, WhatIsACheckpointIsKnown) {
  EXPECT_TRUE(is_checkpoint(test::golden("gpt2")));
  EXPECT_FALSE(is_checkpoint(test::golden("nothing")));
  EXPECT_FALSE(is_checkpoint(fs::path(fovea::test::source_dir()) / "tests"));
  const Copied run("gpt2"), broken("gpt2");
  run.edit({{"task", "lm"}});
  EXPECT_FALSE(is_checkpoint(run.path()));
  broken.write("config.json", "{");
  EXPECT_FALSE(is_checkpoint(broken.path()));
}

}  // namespace
}  // namespace fovea::checkpoints
