// Trainings that begin with a model that somebody else trained, and models that are given back.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "checkpoints/folder.h"
#include "checkpoints/origin.h"
#include "errors.h"
#include "fovea/io.h"
#include "io/json.h"
#include "tasks/given_back.h"
#include "tasks/run_folder.h"
#include "tasks/task.h"
#include "tasks/train.h"
#include "tests/checkpoints/golden.h"
#include "tests/io/files.h"

namespace fovea::tasks {
namespace {

namespace fs = std::filesystem;
using checkpoints::Origin;
using checkpoints::test::Copied;
using checkpoints::test::golden;
using test::error_of;
using test::Folder;
using test::has;
using test::read_bytes;

std::string data(const std::string& name) {
  return (fs::path(test::source_dir()) / "tests/tasks/golden" / name).string();
}

// A model to begin with, by a task that trains it further.
struct Begun {
  const char* task;
  const char* model;
};
std::string name_of_begun(const testing::TestParamInfo<Begun>& p) {
  return std::string(p.param.task) + "_" + p.param.model;
}

Given data_for(const std::string& task) {
  if (task == "lm") return {{"file", data("further.txt")}};
  if (task == "documents") {
    return {{"data", data("further.tsv")}, {"valid", data("further.tsv")}, {"test-share", "0"}};
  }
  return {{"tsv", data("further_pairs.tsv")}, {"valid-sentences", "0"}, {"watch", "loss"}};
}

Given small_further(const Begun& b, const fs::path& model) {
  Given typed = data_for(b.task);
  typed["from"] = model.string();
  typed["steps"] = "4";
  typed["validate-every"] = "2";
  typed["rate"] = "0.002";
  typed["dropout"] = "0.1";
  return typed;
}

void train_small(const Begun& b, const RunFolder& run, const Given& typed,
                 const Watching& watching = {}) {
  const Task& t = task(b.task);
  train_run(t, run, *config_from(t, typed), Existing::refuse, watching);
}

// ---- The losses of PyTorch and transformers
// ------------------------------------------------------

std::vector<double> losses_of(const std::string& name, Given typed) {
  const Task& t = task(name);
  typed.insert({{"steps", "50"},
                {"rate", "0.003"},
                {"weight-decay", "0.05"},
                {"beta2", "0.98"},
                {"optimizer", "adamw"},
                {"decay", "constant"},
                {"warmup", "0"},
                {"dropout", "0"},
                {"validate-every", "50"},
                {"clip", "1"}});
  const auto config = config_from(t, typed);
  const std::unique_ptr<Run> run = t.begin(*as_saved(t, *config), nullptr);
  train::Learner learner = run->learner({});
  std::vector<double> losses;
  learner.loss = [&losses, loss = learner.loss](std::span<const int64_t> which, uint64_t seed) {
    train::StepLoss step = loss(which, seed);
    losses.push_back(step.total / step.count);
    return step;
  };
  const Folder folder;
  train::train(folder / "run", learner, run->copy_of_config()->train);
  return losses;
}

void expect_losses(const std::string& name, const std::string& model, const std::string& freeze,
                   const std::string& expected) {
  Given typed = data_for(name);
  typed["from"] = golden(model).string();
  typed["freeze"] = freeze;
  const std::vector<double> losses = losses_of(name, typed);
  const auto right =
      read_json(data("further.json"))[name + "." + expected].get<std::vector<double>>();
  ASSERT_EQ(losses.size(), right.size());
  double worst = 0;
  for (size_t i = 0; i < right.size(); ++i) {
    worst = std::max(worst, std::abs(losses[i] - right[i]));
    EXPECT_NEAR(losses[i], right[i], 1e-3) << "step " << i + 1;
  }
  testing::Test::RecordProperty("worst", std::to_string(worst));
  EXPECT_LT(right.back(), right.front() / 2);
}

TEST(Further, GptHasTheLossesOfTransformers) { expect_losses("lm", "gpt2", "none", "all"); }
TEST(Further, FrozenGptHasTheLossesOfTransformers) { expect_losses("lm", "gpt2", "1", "frozen"); }
TEST(Further, CappedGemmaHasTheLossesOfTransformers) {
  expect_losses("lm", "gemma2", "none", "capped");
}
TEST(Further, BertHasTheLossesOfTransformers) {
  expect_losses("documents", "bert_tells", "none", "all");
}
TEST(Further, FrozenBertHasTheLossesOfTransformers) {
  expect_losses("documents", "bert_tells", "1", "frozen");
}

// ---- Every kind of model
// -------------------------------------------------------------------------

std::string what_is_left(const RunFolder& run) {
  std::string all;
  for (const char* file : {"config.json", "log.jsonl", "model.safetensors"}) {
    all += read_bytes(run / file);
  }
  for (const auto& [name, tensor] : load_safetensors(run / "state.safetensors")) {
    if (tensor.dtype() != DType::f32) continue;
    const std::vector<float> values = tensor.to_vector();
    all += name;
    all.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
  }
  return all;
}

class EveryBegun : public testing::TestWithParam<Begun> {};

// A run that was stopped goes on without the folder that it began with, bit by bit as one that was
// not, and every verb opens it.
TEST_P(EveryBegun, GoesOnWithoutItsOrigin) {
  const Begun b = GetParam();
  const Folder folder;
  const RunFolder whole(folder / "whole"), parts(folder / "parts");
  const Task& t = task(b.task);
  const Copied model(b.model);
  const Given typed = small_further(b, model.path());
  train_small(b, whole, typed);
  std::atomic<bool> stop = false;
  train_small(b, parts, typed,
              {.progress = [&](const train::Progress& p) { stop = p.step >= 3; }, .stop = &stop});
  fs::remove_all(model.path());
  train_run(t, parts, *parts.config_of(t), Existing::go_on, {});
  EXPECT_TRUE(what_is_left(parts) == what_is_left(whole));

  EXPECT_EQ(parts.not_of_a_run(t), "");
  const auto run = t.open(parts);
  const std::vector<Input> inputs = {Text{"the old ship"}};
  const auto said = run->predict(inputs, *t.predict_settings(), {.maps = Maps::keep});
  EXPECT_FALSE(said[0].at(0).pictures.empty());
  EXPECT_TRUE(run->inside(inputs[0])->attention);
  EXPECT_TRUE(run->blocks(2));
  EXPECT_GT(run->evaluate({}, *t.evaluate_settings(), {}).count, 0);
  EXPECT_FALSE(run->pieces(inputs[0]).empty() && std::string(b.task) == "lm");
}

// Given back, it is a model that fovea opens, with the same logits.
TEST_P(EveryBegun, IsGivenBack) {
  const Begun b = GetParam();
  const Folder folder;
  const RunFolder trained(folder / "run");
  train_small(b, trained, small_further(b, golden(b.model)));
  const auto run = task(b.task).open(trained);
  write_folder(run->given_back(), folder / "model");
  const RunFolder back(folder / "model");
  ASSERT_TRUE(back.is_checkpoint());
  const auto opened = back.task().open(back);
  const Input text = Text{"the old ship"};
  const auto ours = run->logits(text), theirs = opened->logits(text);
  if (std::string(b.task) == "translate") {
    const std::vector<Input> inputs = {text};
    const auto of = [&](const tasks::Run& r, const Settings& s) {
      return r.predict(inputs, s)[0][0].text;
    };
    const auto how = back.task().predict_settings();
    from_options({{"beam", "1"}, {"length", "12"}}, *how);
    const auto own = task(b.task).predict_settings();
    from_options({{"longest", "12"}}, *own);
    EXPECT_EQ(of(*run, *own), of(*opened, *how));
    return;
  }
  const std::vector<float> a = ours->at("logits").to_vector(), c = theirs->at("logits").to_vector();
  ASSERT_EQ(a.size(), c.size());
  for (size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], c[i], 1e-5);
}

INSTANTIATE_TEST_SUITE_P(
    Models, EveryBegun,
    testing::Values(Begun{"lm", "gpt2"}, Begun{"lm", "llama"}, Begun{"lm", "mistral"},
                    Begun{"lm", "qwen3"}, Begun{"lm", "gemma2"}, Begun{"lm", "gemma3"},
                    Begun{"documents", "bert_tells"}, Begun{"documents", "bert_fills"},
                    Begun{"documents", "roberta_fills"}, Begun{"documents", "distilbert_fills"},
                    Begun{"documents", "albert_tells"}, Begun{"translate", "marian"},
                    Begun{"translate", "t5"}, Begun{"translate", "t5_gated"}),
    name_of_begun);

// ---- Given back
// ----------------------------------------------------------------------------------

class EveryModel : public testing::TestWithParam<const char*> {};

TEST_P(EveryModel, IsGivenBackAsItWas) {
  const Origin origin = Origin::of(golden(GetParam()));
  const Tensors back = origin.theirs(origin.weights(0));
  Tensors stored;
  for (const fs::path& file : checkpoints::weight_files(golden(GetParam()))) {
    stored.merge(load_safetensors(file));
  }
  ASSERT_FALSE(back.empty());
  for (const auto& [name, t] : back) {
    ASSERT_TRUE(stored.contains(name)) << name;
    const std::vector<float> now = t.to_vector(), before = stored.at(name).to_vector();
    ASSERT_EQ(t.shape(), stored.at(name).shape()) << name;
    // Gemma's norms are kept as 1 + w, T5's last one as w/√W.
    const std::string type = origin.config().text("model_type");
    const bool rounded = (type.starts_with("gemma") && name.find("norm") != std::string::npos) ||
                         (type == "t5" && name == "decoder.final_layer_norm.weight");
    for (size_t i = 0; i < now.size(); ++i) {
      if (rounded) {
        ASSERT_NEAR(now[i], before[i], 1e-6) << name;
      } else {
        ASSERT_EQ(now[i], before[i]) << name;
      }
    }
    stored.erase(name);
  }
  for (const auto& [name, t] : stored) {  // what no model computes with
    EXPECT_TRUE(has(name, "shared") || has(name, "embed_tokens") || has(name, "lm_head") ||
                has(name, "decoder.bias") || has(name, "predictions.bias") || has(name, "pooler"))
        << name;
  }
}

INSTANTIATE_TEST_SUITE_P(Models, EveryModel,
                         testing::Values("gpt2", "gpt2_inner", "gpt2_untied", "gpt2_bf16", "llama",
                                         "llama_scaled", "mistral", "qwen2", "qwen3", "gemma2",
                                         "gemma3", "bert_fills", "bert_tells", "roberta_fills",
                                         "roberta_tells", "distilbert_fills", "distilbert_tells",
                                         "albert_fills", "albert_tells", "marian", "t5", "t5_gated",
                                         "vit", "deit"),
                         [](const auto& p) { return std::string(p.param); });

Given scratch(const std::string& positions) {
  Given typed = data_for("lm");
  typed.insert({{"positions", positions},
                {"steps", "3"},
                {"blocks", "2"},
                {"query-depth", "16"},
                {"heads", "2"},
                {"context", "24"},
                {"validate-every", "3"}});
  return typed;
}

std::unique_ptr<const Run> trained_lm(const RunFolder& run, const Given& typed) {
  const Task& t = task("lm");
  train_run(t, run, *config_from(t, typed), Existing::refuse, {});
  return t.open(run);
}

void expect_same_opened(const Given& typed, const std::string& type) {
  const Folder folder;
  const auto run = trained_lm(RunFolder(folder / "run"), typed);
  write_folder(run->given_back(), folder / "model");
  const RunFolder back(folder / "model");
  EXPECT_EQ(read_json(back / "config.json")["model_type"], type);
  const auto opened = back.task().open(back);
  const Input text = Text{"the old ship\nnobody kn"};
  const Tensors ours = *run->logits(text), theirs = *opened->logits(text);
  EXPECT_EQ(ours.at("ids").to_ids(), theirs.at("ids").to_ids());
  const std::vector<float> a = ours.at("logits").to_vector(), b = theirs.at("logits").to_vector();
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 1e-5);
}

TEST(GivenBackModel, FromScratchIsGpt2) { expect_same_opened(scratch("learned"), "gpt2"); }
TEST(GivenBackModel, FromScratchIsGpt2WithItsOwnOutput) {
  Given typed = scratch("learned");
  typed.insert({{"tied", "false"}, {"activation", "gelu_tanh"}, {"mlp-width", "24"}});
  expect_same_opened(typed, "gpt2");
}
TEST(GivenBackModel, FromScratchIsLlama) {
  Given typed = scratch("rotary");
  typed.insert({{"norm", "rms"}, {"activation", "swiglu"}, {"key-heads", "1"}});
  expect_same_opened(typed, "llama");
}

TEST(GivenBackModel, FromScratchWithSubwords) {
  Given typed = scratch("learned");
  typed.insert({{"unit", "subwords"}, {"vocab", "60"}});
  expect_same_opened(typed, "gpt2");
}

TEST(GivenBackModel, SaysWhatHasNoCounterpart) {
  const auto why = [&](Given typed) {
    const Folder folder;
    const auto run = trained_lm(RunFolder(folder / "run"), typed);
    return error_of([&] { run->given_back(); });
  };
  const std::string norms = why(scratch("rotary"));
  EXPECT_TRUE(has(norms, "Llama") && has(norms, "--norm layer") && has(norms, "--activation gelu"))
      << norms;
  EXPECT_TRUE(has(why(scratch("alibi")), "--positions alibi"));
  Given post = scratch("learned");
  post.insert({{"norm-order", "post"}});
  EXPECT_TRUE(has(why(post), "--norm-order post"));
  Given words = scratch("learned");
  words.insert({{"unit", "words"}});
  const Folder folder;
  EXPECT_TRUE(has(trained_lm(RunFolder(folder / "w"), words)->given_back().no_tokenizer, "words"));
}

TEST(GivenBackModel, FolderIsWholeOrNotThere) {
  const Folder folder;
  const Origin origin = Origin::of(golden("gpt2"));
  GivenBack g = given_back(origin, origin.weights(0));
  fs::create_directory(folder / "full");
  std::ofstream(folder / "full" / "mine.txt") << "mine";
  EXPECT_TRUE(has(error_of([&] { write_folder(g, folder / "full"); }), "full"));
  EXPECT_EQ(read_bytes(folder / "full" / "mine.txt"), "mine");
  g.files.push_back(folder / "nowhere.json");
  EXPECT_TRUE(has(error_of([&] { write_folder(g, folder / "new"); }), "nowhere.json"));
  EXPECT_FALSE(fs::exists(folder / "new"));
  EXPECT_EQ(folder.files(), 1);
}

// ---- What is refused
// -----------------------------------------------------------------------------

std::string refused(const Begun& b, const fs::path& model, const Given& more = {}) {
  const Folder folder;
  Given typed = small_further(b, model);
  for (const auto& [name, value] : more) typed[name] = value;
  const std::string error = error_of([&] { train_small(b, RunFolder(folder / "run"), typed); });
  EXPECT_FALSE(fs::exists(folder / "run"));
  EXPECT_EQ(error.find('\n'), std::string::npos);
  return error;
}

TEST(FurtherRefused, ModelsOfAnotherKind) {
  EXPECT_TRUE(has(refused({"lm", "bert_fills"}, golden("bert_fills")), "fills in masked tokens"));
  EXPECT_TRUE(has(refused({"lm", "marian"}, golden("marian")), "translates"));
  EXPECT_TRUE(has(refused({"documents", "gpt2"}, golden("gpt2")), "GPT-2 writes on"));
  EXPECT_TRUE(has(refused({"documents", "vit"}, golden("vit")), "classes of pictures"));
  EXPECT_TRUE(has(refused({"translate", "gpt2"}, golden("gpt2")), "GPT-2 writes on"));
}

TEST(FurtherRefused, FoldersThatAreNone) {
  const Folder folder;
  EXPECT_TRUE(has(refused({"lm", ""}, folder / "nowhere"), "no config.json with a model_type"));
  const Begun b{"lm", "gpt2"};
  train_small(b, RunFolder(folder / "run"), small_further(b, golden("gpt2")));
  EXPECT_TRUE(has(refused(b, folder / "run"), "fovea export"));
}

TEST(FurtherRefused, ATokenizerOfAnotherModel) {
  const Copied model("gpt2");
  nlohmann::ordered_json tokenizer = model.json("tokenizer.json");
  tokenizer["model"]["vocab"]["zzz"] = 61;
  model.write("tokenizer.json", tokenizer.dump());
  EXPECT_TRUE(has(refused({"lm", "gpt2"}, model.path()), "not of one model"));
  fs::remove(model.path() / "tokenizer.json");
  EXPECT_FALSE(refused({"lm", "gpt2"}, model.path()).empty());
}

TEST(FurtherRefused, WhatIsOfAModelFromScratch) {
  const Begun b{"lm", "gpt2"};
  EXPECT_TRUE(has(refused(b, golden("gpt2"), {{"blocks", "3"}}), "--blocks"));
  EXPECT_TRUE(has(refused(b, golden("gpt2"), {{"unit", "words"}}), "--unit"));
  EXPECT_TRUE(has(refused(b, golden("gpt2"), {{"freeze", "some"}}), "--freeze"));
  EXPECT_TRUE(has(refused(b, golden("gpt2"), {{"freeze", "3"}}), "2 blocks"));
  EXPECT_TRUE(has(refused(b, "", {{"freeze", "1"}}), "--from"));
}

// A head that is missing, or tells other classes, is a new one; the encoder is what it was.
TEST(Further, HeadsAreNewWhereClassesAre) {
  const std::vector<std::string> classes = {"ham", "spam"};
  for (const char* name : {"bert_fills", "bert_tells", "roberta_fills", "albert_fills"}) {
    const Origin origin = Origin::of(golden(name), {checkpoints::Purpose::tells, classes});
    EXPECT_EQ(origin.classes(), classes);
    const Tensors a = origin.weights(1), b = origin.weights(2), c = origin.weights(1);
    EXPECT_EQ(a.at("head.out.weight").shape(), (Shape{2, 16}));
    EXPECT_NE(a.at("head.out.weight").to_vector(), b.at("head.out.weight").to_vector());
    EXPECT_EQ(a.at("head.out.weight").to_vector(), c.at("head.out.weight").to_vector());
    EXPECT_EQ(a.at("encoder.0.self.in.weight").to_vector(),
              b.at("encoder.0.self.in.weight").to_vector());
  }
  // Classes that it tells already, in any order, keep its head and its order.
  const Origin same =
      Origin::of(golden("bert_tells"), {checkpoints::Purpose::tells, {"good", "bad", "fair"}});
  EXPECT_EQ(same.classes(), (std::vector<std::string>{"bad", "fair", "good"}));
  EXPECT_EQ(same.weights(1).at("head.out.weight").to_vector(),
            same.weights(2).at("head.out.weight").to_vector());
}

// The inner model by itself, as BertModel is saved.
TEST(Further, AnEncoderWithoutAHeadGetsOne) {
  const Copied model("bert_tells");
  model.edit({{"architectures", {"BertModel"}}, {"id2label", nullptr}, {"label2id", nullptr}});
  model.change_weights([](Tensors& all) {
    Tensors inner;
    for (const auto& [name, t] : all) {
      if (name.starts_with("bert.")) inner[name.substr(5)] = t;
    }
    all = inner;
  });
  const Origin origin = Origin::of(model.path(), {checkpoints::Purpose::tells, {"a", "b"}});
  const Tensors back = origin.theirs(origin.weights(1));
  EXPECT_TRUE(back.contains("bert.pooler.dense.weight"));
  EXPECT_TRUE(back.contains("classifier.weight"));
  EXPECT_FALSE(back.contains("pooler.dense.weight"));
}

TEST(Further, FreezesAllButTheHead) {
  const Folder folder;
  const Begun b{"documents", "bert_fills"};
  Given typed = small_further(b, golden("bert_fills"));
  typed["freeze"] = "all";
  const RunFolder run(folder / "run");
  train_small(b, run, typed);
  const Tensors kept = load_safetensors(run / "model.safetensors");
  const Tensors before =
      Origin::of(golden("bert_fills"), {checkpoints::Purpose::tells, {"bad", "fair", "good"}})
          .weights(1);
  ASSERT_EQ(kept.size(), before.size());
  for (const auto& [name, t] : before) {
    EXPECT_EQ(kept.at(name).to_vector() == t.to_vector(), !name.starts_with("head.")) << name;
  }
}

}  // namespace
}  // namespace fovea::tasks
