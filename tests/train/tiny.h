#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "core/random.h"
#include "fovea/io.h"
#include "fovea/ops.h"
#include "fovea/runtime.h"
#include "fovea/train.h"
#include "tests/errors.h"
#include "tests/io/files.h"
#include "tests/reduced.h"

// A small model with dropout and a tied weight, on made-up data, to be trained in milliseconds.
namespace fovea::train::tests {

using test::Folder;
using test::read_bytes;
using test::reduced;

// Words of a sentence vote for its class, which is its first word's remainder.
struct Tiny {
  static constexpr int64_t kWords = 12, kWidth = 8, kClasses = 4;

  explicit Tiny(int64_t examples = 23) {
    const RandomKey key = random_key(5, Purpose::data);
    for (int64_t i = 0; i < examples; ++i) {
      const int64_t length = 2 + bits32(key, 100 * i) % 6;
      sentences.emplace_back();
      for (int64_t t = 0; t < length; ++t) {
        sentences.back().push_back(1 + bits32(key, 100 * i + t + 1) % (kWords - 1));
      }
      learner.lengths.push_back(length);
    }
    learner.parameters = {{"table", Tensor::randn({kWords, kWidth}, 1)},
                          {"weight", Tensor::randn({kWidth, kClasses}, 2)},
                          {"bias", Tensor::zeros({kClasses})},
                          {"unused", Tensor::randn({3}, 3)}};
    for (auto& [name, tensor] : learner.parameters) tensor.set_requires_grad();
    learner.parameters["tied"] = learner.parameters["weight"];
    learner.loss = [this](std::span<const int64_t> batch, uint64_t seed) {
      before_loss(++steps);
      const Tensor loss = forward(batch, 0.3f, seed);
      const double count = static_cast<double>(batch.size());
      return StepLoss{loss, loss.item() * count, count};
    };
    learner.validate = [this] {
      ++validations;
      std::vector<int64_t> all(sentences.size());
      for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<int64_t>(i);
      return Scores{{"loss", forward(all, 0.0f, 0).item()}};
    };
  }
  Tiny(const Tiny&) = delete;
  Tiny& operator=(const Tiny&) = delete;

  Tensor forward(std::span<const int64_t> batch, float drop, uint64_t seed) const {
    size_t longest = 0;
    for (const int64_t i : batch) longest = std::max(longest, sentences[i].size());
    std::vector<int64_t> ids(batch.size() * longest), classes;
    for (size_t b = 0; b < batch.size(); ++b) {
      const auto& sentence = sentences[batch[b]];
      std::copy(sentence.begin(), sentence.end(), ids.begin() + b * longest);
      classes.push_back(sentence[0] % kClasses);
    }
    const int64_t B = static_cast<int64_t>(batch.size()), L = static_cast<int64_t>(longest);
    const Tensor words = embedding(at("table"), Tensor::from_ids(ids, {B, L}));  // [B,L,E]
    const Tensor x = dropout(mean(words, {1}), drop, seed);
    const Tensor logits = matmul(x, at("weight")) + at("bias");
    return cross_entropy(logits, Tensor::from_ids(classes, {B}));
  }
  const Tensor& at(const char* name) const { return learner.parameters.at(name); }

  Learner learner;
  std::vector<std::vector<int64_t>> sentences;
  int64_t steps = 0, validations = 0;  // of this process
  std::function<void(int64_t)> before_loss = [](int64_t) {};
};

inline TrainConfig tiny_config() {
  TrainConfig c;
  c.schedule = {.decay = Decay::cosine, .rate = 0.05f, .floor = 0.1f, .warmup = 3};
  c.optimizer.method = Method::adamw;
  c.optimizer.weight_decay = 0.01f;
  c.batch_tokens = 24;
  c.average = 0.9f;
  c.seed = 7;
  return c;
}

// The bits, so that NaN and −0 count too.
inline bool same_bits(const Tensors& a, const Tensors& b) {
  if (a.size() != b.size()) return false;
  for (const auto& [name, tensor] : a) {
    const auto other = b.find(name);
    if (other == b.end() || other->second.shape() != tensor.shape()) return false;
    const size_t bytes = static_cast<size_t>(tensor.numel() * size_of(tensor.dtype()));
    const auto data = [](const Tensor& t) -> const void* {
      if (t.dtype() == DType::i64) return t.data<int64_t>();
      return t.data<float>();
    };
    const Tensor x = tensor.to(Device::cpu), y = other->second.to(Device::cpu);
    if (std::memcmp(data(x), data(y), bytes) != 0) return false;
  }
  return true;
}

inline Tensors copy_of(const Tensors& parameters) {
  Tensors copies;
  for (const auto& [name, tensor] : parameters) copies[name] = tensor.detach().clone();
  return copies;
}

// All but the clock.
inline void expect_same_run(const std::filesystem::path& a, const std::filesystem::path& b) {
  EXPECT_EQ(read_bytes(a / "log.jsonl"), read_bytes(b / "log.jsonl"));
  EXPECT_EQ(read_bytes(a / "model.safetensors"), read_bytes(b / "model.safetensors"));
  TensorFile x = read_safetensors(a / "state.safetensors");
  TensorFile y = read_safetensors(b / "state.safetensors");
  EXPECT_TRUE(same_bits(x.tensors, y.tensors));
  x.metadata.erase("seconds");
  y.metadata.erase("seconds");
  EXPECT_EQ(x.metadata, y.metadata);
}

}  // namespace fovea::train::tests
