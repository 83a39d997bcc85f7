#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "fovea/ops.h"
#include "fovea/transformer.h"

// Text that goes on, token by token, beside the whole text at once.
namespace fovea::models {
namespace {

constexpr int64_t kGeneratorWords = 8200, kWidth = 128;  // just large enough for a screen
constexpr int64_t kEndless = 0;
const std::vector<int64_t> kText{5, 900, 41, 8000, 17, 3};

Transformer model(nn::Positions positions) {
  Transformer m = transformer({.target_vocabulary = kGeneratorWords,
                               .blocks = 2,
                               .depth = kWidth,
                               .heads = 4,
                               .positions = positions,
                               .longest = 64},
                              3);
  const NoGrad off;
  if (m.decoder.positions) m.decoder.positions.mul_(50.0f);  // so that words differ
  m.target.table.slice(0, kEndless, kEndless + 1).fill_(0.0f);
  return m;
}

std::vector<int64_t> likeliest_after(const Transformer& m, std::vector<int64_t> text, int more) {
  const NoGrad off;
  for (int i = 0; i < more; ++i) {
    const auto T = static_cast<int64_t>(text.size());
    const Tensor states = decode_all(m, Tensor::from_ids(text, {1, T}));
    text.push_back(argmax(m.output(states.select(1, T - 1)), 1).to_ids()[0]);
  }
  text.erase(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(kText.size()));
  return text;
}

std::vector<int64_t> written(const Transformer& m, int64_t more, DType kept = DType::f32) {
  const auto T = static_cast<int64_t>(kText.size());
  const auto writer = generator(m, Tensor::from_ids(kText, {1, T}).slice(1, 0, T - 1), kept);
  return search(*writer, {.first = {kText.back()}, .ends = {kEndless}}, {.longest = more})[0][0]
      .tokens;
}

TEST(Generator, WritesWhatIsLikeliestAfterTheWholeText) {
  for (const nn::Positions positions : {nn::Positions::learned, nn::Positions::rotary}) {
    Transformer m = model(positions);
    const std::vector<int64_t> expected = likeliest_after(m, kText, 12);
    EXPECT_EQ(written(m, 12), expected);
    m.screen = nullptr;
    EXPECT_EQ(written(m, 12), expected);
  }
}

// Of words that are far apart, those written with half the digits are the same.
TEST(Generator, KeepsThePastInHalfTheBits) {
  const NoGrad off;
  const Transformer m = model(nn::Positions::rotary);
  const auto T = static_cast<int64_t>(kText.size());
  const auto logits_of = [&](DType kept) {
    const auto writer = generator(m, Tensor::from_ids(kText, {1, T}).slice(1, 0, T - 1), kept);
    writer->advance(Tensor::from_ids(std::vector{kText.back()}, {1}));
    writer->select_rows(Tensor::from_ids(std::vector<int64_t>{0, 0}, {2}));
    writer->advance(Tensor::from_ids(std::vector<int64_t>{4, 4}, {2}));
    return writer->logits().to_vector();
  };
  const std::vector<float> wide = logits_of(DType::f32), half = logits_of(DType::bf16);
  float most = 0, largest = 0;
  for (size_t i = 0; i < wide.size(); ++i) {
    most = std::max(most, std::abs(wide[i] - half[i]));
    largest = std::max(largest, std::abs(wide[i]));
  }
  EXPECT_GT(most, 0.0f);
  EXPECT_LT(most, 0.02f * largest);
}

TEST(Generator, WordsDiffer) {
  std::vector<int64_t> tokens = written(model(nn::Positions::learned), 12);
  std::sort(tokens.begin(), tokens.end());
  EXPECT_GT(std::unique(tokens.begin(), tokens.end()) - tokens.begin(), 6);
}

}  // namespace
}  // namespace fovea::models
