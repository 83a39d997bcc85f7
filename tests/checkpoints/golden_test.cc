// What transformers computes with small random models, and what we do.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>

#include "checkpoints/checkpoint.h"
#include "checkpoints/golden.h"
#include "fovea/ops.h"
#include "fovea/runtime.h"
#include "fovea/search.h"
#include "tensor/impl.h"

namespace fovea::checkpoints {
namespace {

using test::Copied;
using test::expected;
using test::golden;

// The largest difference, as a share of the largest value.
double off_by(const Tensor& found, const Tensor& wanted) {
  const std::vector<float> a = found.to_vector(), b = wanted.to_vector();
  EXPECT_EQ(a.size(), b.size());
  double largest = 0, off = 0;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    largest = std::max(largest, std::abs(static_cast<double>(b[i])));
    off = std::max(off, std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i])));
    if (std::isnan(a[i])) return 1e9;
  }
  return off / largest;
}

constexpr double kNear = 1e-4;

Tensor decoder_logits(const Checkpoint& c, const Tensor& ids) {
  const NoGrad off;
  return models::logits(c.model, models::decode_all(c.model, ids.unsqueeze(0))).select(0, 0);
}

std::vector<int64_t> greedy(const Checkpoint& c, const Tensor& prompt, int64_t n) {
  const NoGrad off;
  const int64_t T = prompt.numel();
  const auto writer =
      models::generator(c.model, prompt.slice(0, 0, T - 1).contiguous().unsqueeze(0));
  return models::search(*writer, {.first = {prompt.to_ids().back()}}, {.longest = n})[0][0].tokens;
}

void expect_decoder(const Checkpoint& c, const Tensors& e, double near = kNear) {
  for (int n = 0; n < 3; ++n) {
    const auto ids = e.find("ids." + std::to_string(n));
    if (ids == e.end()) continue;
    EXPECT_LT(off_by(decoder_logits(c, ids->second), e.at("logits." + std::to_string(n))), near)
        << c.about.folder << " " << n;
  }
  if (!e.contains("greedy")) return;
  EXPECT_EQ(greedy(c, e.at("prompt"), 50), e.at("greedy").to_ids()) << c.about.folder;
}

class Decoders : public testing::TestWithParam<const char*> {};
TEST_P(Decoders, SayWhatTransformersSays) {
  const Checkpoint c = open(golden(GetParam()));
  EXPECT_EQ(c.about.purpose, Purpose::writes);
  expect_decoder(c, expected(GetParam()));
}
INSTANTIATE_TEST_SUITE_P(All, Decoders,
                         testing::Values("gpt2", "gpt2_inner", "gpt2_untied", "llama",
                                         "llama_scaled", "mistral", "qwen2", "qwen3", "gemma2",
                                         "gemma3"),
                         [](const auto& one) { return std::string(one.param); });

TEST(Golden, WeightsInSixteenBitsAreNear) {
  const Checkpoint c = open(golden("gpt2_bf16"));
  EXPECT_TRUE(c.about.stored.contains("BF16"));
  expect_decoder(c, expected("gpt2_bf16"), 2e-2);
}

// ---- What weights are kept as
// --------------------------------------------------------------------

TEST(Kept, MatricesAreAsTheyAreStored) {
  const Checkpoint c = open(golden("gpt2_bf16"));
  for (const auto& [name, t] : c.model.weights.all()) {
    const bool matrix = t.rank() == 2 && name.ends_with(".weight");
    EXPECT_EQ(t.dtype(), matrix ? DType::bf16 : DType::f32) << name;
  }
  EXPECT_EQ(c.about.lost, 0.0);
  const Checkpoint floats = open(golden("gpt2_bf16"), KeptAs::float32);
  for (const auto& [name, t] : floats.model.weights.all()) EXPECT_EQ(t.dtype(), DType::f32);
  const Tensor ids = expected("gpt2_bf16").at("ids.0");
  EXPECT_LT(off_by(decoder_logits(c, ids), decoder_logits(floats, ids)), 1e-6);
}

// As many bytes as foreseen, the allocator's steps and the largest tensor on its way besides.
TEST(Kept, MemoryIsThatOfTheType) {
  int64_t before_this = INT64_MAX;
  for (const KeptAs kept : {KeptAs::float32, KeptAs::bf16, KeptAs::int8}) {
    const CheckpointInfo foreseen = about(golden("gpt2"), kept);
    EXPECT_LT(foreseen.memory_bytes, before_this);
    before_this = foreseen.memory_bytes;
    reset_memory_peak();
    const int64_t before = memory_in_use();
    const Checkpoint c = open(golden("gpt2"), kept);
    int64_t largest = 0, count = 0;
    for (const auto& [name, t] : c.model.weights.all()) {
      largest = std::max(largest, t.numel() * size_of(DType::f32));
      count += t.dtype() == DType::i8 ? 2 : 1;
    }
    const int64_t all = foreseen.memory_bytes + foreseen.memory_bytes / 8 + 64 * count;
    EXPECT_LE(memory_in_use() - before, all) << name_of(kept);
    EXPECT_LE(memory_peak() - before, all + 2 * largest + (1 << 16)) << name_of(kept);
  }
}

class KeptAsInt8 : public testing::TestWithParam<const char*> {};
TEST_P(KeptAsInt8, IsNear) {
  const Tensors e = expected(GetParam());
  const Checkpoint c = open(golden(GetParam()), KeptAs::int8), exact = open(golden(GetParam()));
  EXPECT_GT(c.about.lost, 1e-4);
  EXPECT_LT(c.about.lost, 1e-2);
  EXPECT_LT(c.about.memory_bytes, exact.about.memory_bytes);
  EXPECT_LT(off_by(decoder_logits(c, e.at("ids.0")), e.at("logits.0")), 5e-2);
  for (const auto& [name, t] : c.model.weights.all()) {  // |w − s·q| ≤ s/2
    if (t.dtype() != DType::i8) continue;
    const std::vector<float> was = exact.model.weights.all().at(name).to_vector();
    const std::vector<float> is = t.to(DType::f32).to_vector();
    const std::vector<float> s = t.impl()->scale.to_vector();
    for (size_t i = 0; i < was.size(); ++i) {
      ASSERT_LE(std::abs(was[i] - is[i]), s[i / static_cast<size_t>(t.size(1))] * 0.50001f) << name;
    }
  }
}
INSTANTIATE_TEST_SUITE_P(All, KeptAsInt8,
                         testing::Values("gpt2", "gpt2_untied", "llama", "mistral", "qwen3",
                                         "gemma3"),
                         [](const auto& one) { return std::string(one.param); });

TEST(Kept, EveryKindOfModelOpensInEveryType) {
  const NoGrad off;
  for (const KeptAs kept : {KeptAs::bf16, KeptAs::int8}) {
    for (const char* name : {"bert_fills", "albert_tells", "distilbert_tells"}) {
      const Checkpoint c = open(golden(name), kept);
      const Tensors e = expected(name);
      EXPECT_LT(off_by(said_of(c, e.at("ids.0").unsqueeze(0)).select(0, 0), e.at("logits.0")), 0.1)
          << name;
    }
    const Checkpoint t5 = open(golden("t5"), kept), vit = open(golden("vit"), kept);
    const Tensors e = expected("t5"), seen = expected("vit");
    const Tensor encoded = models::encode(t5.model, e.at("source"), e.at("lengths"));
    const Tensor states = models::decode_all(t5.model, e.at("target"),
                                             models::project(t5.model, encoded, e.at("lengths")));
    EXPECT_LT(off_by(models::logits(t5.model, states), e.at("logits")), 0.1);
    const Tensor rows =
        models::encode(vit.model.config, vit.model.encoder, (*vit.picture)(seen.at("pictures")));
    EXPECT_LT(off_by(said(*vit.head, Purpose::sees, rows), seen.at("logits")), 0.1);
  }
}

TEST(Kept, NamesAreKnownAndOthersRefused) {
  for (const KeptAs kept : all_kept()) EXPECT_EQ(kept_as(name_of(kept)), kept);
  EXPECT_THROW(kept_as("int4"), Error);
}

TEST(Golden, NothingNeedsAGradient) {
  const Checkpoint c = open(golden("gpt2"));
  for (const auto& [name, t] : c.model.weights.all()) EXPECT_FALSE(t.requires_grad()) << name;
}

class Encoders : public testing::TestWithParam<const char*> {};
TEST_P(Encoders, SayWhatTransformersSays) {
  const NoGrad off;
  const std::string name = GetParam();
  const Checkpoint c = open(golden(name));
  const bool fills = name.ends_with("fills");
  EXPECT_EQ(c.about.purpose, fills ? Purpose::fills : Purpose::tells);
  const Tensors e = expected(name);
  for (int n = 0; n < 3; ++n) {
    const Tensor found = said_of(c, e.at("ids." + std::to_string(n)).unsqueeze(0)).select(0, 0);
    EXPECT_LT(off_by(found, e.at("logits." + std::to_string(n))), kNear) << n;
  }
  const Tensor lengths = e.at("batch.lengths");
  Tensor found = said_of(c, e.at("batch.ids"), lengths);
  if (fills) {  // what padding says is nobody's business
    const int64_t L = found.size(1);
    const Tensor places = Tensor::arange(L).unsqueeze(0).expand({3, L});
    const Tensor own = less(places.contiguous(), lengths.unsqueeze(1).expand({3, L}).contiguous());
    found = where(own.unsqueeze(2), found, Tensor::scalar(0));
  }
  EXPECT_LT(off_by(found, e.at("batch.logits")), kNear);
  const std::vector<std::string> classes = {"bad", "fair", "good"};
  EXPECT_EQ(c.about.classes, fills ? std::vector<std::string>() : classes);
}
INSTANTIATE_TEST_SUITE_P(All, Encoders,
                         testing::Values("bert_fills", "bert_tells", "roberta_fills",
                                         "roberta_tells", "distilbert_fills", "distilbert_tells",
                                         "albert_fills", "albert_tells"),
                         [](const auto& one) { return std::string(one.param); });

models::DecodeConfig translating(const Checkpoint& c) {
  models::DecodeConfig d;
  d.special = {*c.generation.first, c.generation.ends, c.generation.never};
  d.enough = models::Enough::better;
  return d;
}

class Translators : public testing::TestWithParam<const char*> {};
TEST_P(Translators, SayWhatTransformersSays) {
  const NoGrad off;
  const Checkpoint c = open(golden(GetParam()));
  EXPECT_EQ(c.about.purpose, Purpose::translates);
  const Tensors e = expected(GetParam());
  const Tensor source = e.at("source"), lengths = e.at("lengths");
  const Tensor encoded = models::encode(c.model, source, lengths);
  const Tensor states =
      models::decode_all(c.model, e.at("target"), models::project(c.model, encoded, lengths));
  EXPECT_LT(off_by(models::logits(c.model, states), e.at("logits")), kNear);

  models::DecodeConfig d = translating(c);
  d.longest = 50;
  d.special.ends = {};
  const auto written = models::decode(c.model, source.transpose(0, 1).contiguous(), lengths, d);
  for (int64_t row = 0; row < 2; ++row) {
    EXPECT_EQ(written[static_cast<size_t>(row)][0].tokens, e.at("greedy").select(0, row).to_ids());
  }
  d = translating(c);
  d.longest = 20;
  d.beam = 4;
  const auto beams = models::decode(c.model, source.transpose(0, 1).contiguous(), lengths, d);
  for (size_t row = 0; row < 2; ++row) {
    EXPECT_EQ(beams[row][0].tokens, e.at("beam." + std::to_string(row)).to_ids()) << row;
  }
}
INSTANTIATE_TEST_SUITE_P(All, Translators, testing::Values("marian", "t5", "t5_gated"),
                         [](const auto& one) { return std::string(one.param); });

class Seeing : public testing::TestWithParam<const char*> {};
TEST_P(Seeing, SayWhatTransformersSays) {
  const NoGrad off;
  const Checkpoint c = open(golden(GetParam()));
  EXPECT_EQ(c.about.purpose, Purpose::sees);
  const Tensors e = expected(GetParam());
  const Tensor rows =
      models::encode(c.model.config, c.model.encoder, (*c.picture)(e.at("pictures")));
  EXPECT_LT(off_by(said(*c.head, Purpose::sees, rows), e.at("logits")), kNear);
}
INSTANTIATE_TEST_SUITE_P(All, Seeing, testing::Values("vit", "deit"),
                         [](const auto& one) { return std::string(one.param); });

TEST(ByThemselves, RowsAreThoseOfTransformers) {
  const NoGrad off;
  const Checkpoint bert = open(golden("bert_reads")), vit = open(golden("vit_views"));
  EXPECT_EQ(bert.about.purpose, Purpose::reads);
  EXPECT_EQ(vit.about.purpose, Purpose::views);
  const Tensors e = expected("bert_reads"), seen = expected("vit_views");
  for (const char* n : {"0", "1", "2"}) {
    const Tensor ids = e.at(std::string("ids.") + n).unsqueeze(0);
    const Tensor rows = models::encode(bert.model, ids).select(0, 0);
    EXPECT_LT(off_by(rows, e.at(std::string("rows.") + n)), kNear) << n;
  }
  const Tensor rows =
      models::encode(vit.model.config, vit.model.encoder, (*vit.picture)(seen.at("pictures")));
  EXPECT_LT(off_by(rows, seen.at("rows")), kNear);
  EXPECT_TRUE(bert.about.classes.empty() && vit.about.classes.empty());
}

// ---- The same said in other ways
// -----------------------------------------------------------------

TEST(Golden, ConfigsOfFormerVersionsAreReadAlike) {
  const Copied llama("llama_scaled"), gated("t5_gated"), gemma("gemma3");
  llama.edit({{"rope_parameters", nullptr},
              {"rope_theta", 5000.0},
              {"rope_scaling",
               {{"type", "llama3"},
                {"factor", 4.0},
                {"low_freq_factor", 1.0},
                {"high_freq_factor", 4.0},
                {"original_max_position_embeddings", 16}}}});
  expect_decoder(open(llama.path()), expected("llama_scaled"));
  gemma.edit({{"rope_parameters", nullptr},
              {"rope_theta", 1e6},
              {"rope_local_base_freq", 1e4},
              {"layer_types", nullptr},
              {"sliding_window_pattern", 2}});
  expect_decoder(open(gemma.path()), expected("gemma3"));
  gated.edit({{"scale_decoder_outputs", nullptr}, {"tie_word_embeddings", false}});
  const Tensors e = expected("t5_gated");
  const NoGrad off;
  const Checkpoint c = open(gated.path());
  const Tensor encoded = models::encode(c.model, e.at("source"), e.at("lengths"));
  const Tensor states = models::decode_all(c.model, e.at("target"),
                                           models::project(c.model, encoded, e.at("lengths")));
  EXPECT_LT(off_by(models::logits(c.model, states), e.at("logits")), kNear);
}

TEST(Golden, NormsOfOldNamesAndBuffersAreKnown) {
  const Copied bert("bert_fills");
  bert.change_weights([](Tensors& all) {
    Tensors renamed;
    for (const auto& [name, t] : all) {
      std::string own = name;
      const auto replace = [&](const std::string& end, const std::string& by) {
        if (own.ends_with(end)) own.replace(own.size() - end.size(), end.size(), by);
      };
      replace("LayerNorm.weight", "LayerNorm.gamma");
      replace("LayerNorm.bias", "LayerNorm.beta");
      renamed[own] = t;
    }
    renamed["bert.embeddings.position_ids"] = Tensor::arange(20).unsqueeze(0);
    all = renamed;
  });
  const NoGrad off;
  const Tensors e = expected("bert_fills");
  EXPECT_LT(
      off_by(said_of(open(bert.path()), e.at("ids.2").unsqueeze(0)).select(0, 0), e.at("logits.2")),
      kNear);
}

TEST(Golden, AnOutputLayerThatIsTheEmbeddingIsKeptOnce) {
  const Copied gpt2("gpt2");
  gpt2.change_weights(
      [](Tensors& all) { all["lm_head.weight"] = all.at("transformer.wte.weight"); });
  const Checkpoint c = open(gpt2.path());
  EXPECT_TRUE(c.model.config.tied);
  expect_decoder(c, expected("gpt2"));
}

TEST(Golden, AHubsCacheFolderOpensThroughItsRef) {
  const Copied gpt2("gpt2");
  namespace fs = std::filesystem;
  const fs::path cache = fs::temp_directory_path() / ("models--a--b-" + std::to_string(::getpid()));
  fs::remove_all(cache);
  fs::create_directories(cache / "refs");
  fs::create_directories(cache / "blobs");
  fs::create_directories(cache / "snapshots" / "0f1e");
  std::ofstream(cache / "refs" / "main") << "0f1e\n";
  for (const char* file : {"config.json", "model.safetensors"}) {  // links, as a hub leaves them
    fs::copy(gpt2.path() / file, cache / "blobs" / file);
    fs::create_symlink(fs::path("../../blobs") / file, cache / "snapshots" / "0f1e" / file);
  }
  expect_decoder(open(cache), expected("gpt2"));
  std::ofstream(cache / "refs" / "main") << "../0f1e";
  EXPECT_THROW(open(cache), Error);
  fs::remove_all(cache);
}

}  // namespace
}  // namespace fovea::checkpoints
