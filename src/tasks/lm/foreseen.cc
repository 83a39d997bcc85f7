#include <algorithm>
#include <cmath>

#include "fovea/ops.h"
#include "tasks/lm/lm.h"

// Texts one by one, each token guessed from those before it in its text.
namespace fovea::tasks::lm {
namespace {

// After the end of a line, which begins a text; of one that is longer than the context, its end.
Tokens after_a_line(const LanguageModel& m, const std::string& text) {
  Tokens ids = {text::kEnd};
  const Tokens own = encode_prompt(m.tokenizer, text);
  ids.insert(ids.end(), own.begin(), own.end());
  const auto most = static_cast<size_t>(m.config.context) + 1;
  if (ids.size() > most) ids.erase(ids.begin(), ids.end() - static_cast<ptrdiff_t>(most));
  return ids;
}

std::string shown(const LanguageModel& m, int64_t id) {
  if (id == text::kEnd) return kEndOfLine;
  return id == text::kUnknown ? kUnknownShown : m.tokenizer.token(id);
}

struct Step {
  const int64_t *wanted, *guessed;
  const float* loss;  // −log p of what is wanted
};

Foreseen foreseen_of(const LanguageModel& m, const Step& s, int64_t tokens) {
  Foreseen f{.tokens = tokens};
  if (tokens == 0) return f;
  int64_t right = 0;
  for (int64_t t = 0; t < tokens; ++t) {
    f.loss += static_cast<double>(s.loss[t]) / static_cast<double>(tokens);
    right += s.wanted[t] == s.guessed[t];
  }
  const auto worst = std::max_element(s.loss, s.loss + tokens) - s.loss;
  f.accuracy = static_cast<double>(right) / static_cast<double>(tokens);
  f.hardest = shown(m, s.wanted[worst]);
  f.instead = shown(m, s.guessed[worst]);
  return f;
}

// Side by side, filled up after their ends, which no token before them sees.
void add_some(const LanguageModel& m, std::span<const Tokens> some, std::vector<Foreseen>& to) {
  size_t longest = 2;
  for (const Tokens& ids : some) longest = std::max(longest, ids.size());
  Tokens read, wanted;
  for (Tokens ids : some) {
    ids.resize(longest, text::kEnd);
    read.insert(read.end(), ids.begin(), ids.end() - 1);
    wanted.insert(wanted.end(), ids.begin() + 1, ids.end());
  }
  const auto B = static_cast<int64_t>(some.size()), T = static_cast<int64_t>(longest) - 1;
  const Tensor logits =
      models::logits(m.model, models::decode_all(m.model, Tensor::from_ids(read, {B, T})));
  const std::vector<int64_t> guessed = argmax(logits, 2).to_ids();  // [B,T]
  const std::vector<float> losses =
      cross_entropy(logits, Tensor::from_ids(wanted, {B, T}), {.reduction = Reduction::none})
          .to_vector();
  for (int64_t b = 0; b < B; ++b) {
    const auto own = static_cast<int64_t>(some[static_cast<size_t>(b)].size()) - 1;
    to.push_back(foreseen_of(
        m, {wanted.data() + b * T, guessed.data() + b * T, losses.data() + b * T}, own));
  }
}

}  // namespace

std::vector<std::string> texts_in(const LmConfig& c, std::span<const std::string> lines) {
  constexpr size_t kBytes = 200;
  const bool tales = c.data.file.empty();
  std::vector<std::string> all;
  for (const std::string& line : lines) {
    const bool goes_on = !tales && !all.empty() && all.back().size() + line.size() < kBytes;
    if (goes_on) {
      all.back() += '\n' + line;
    } else if (!line.empty()) {
      all.push_back(line);
    }
  }
  for (std::string& text : all) text.erase(text.find_last_not_of('\n') + 1);
  return all;
}

std::vector<Foreseen> foreseen(const LanguageModel& m, std::span<const std::string> texts,
                               const ShareDone& done) {
  const NoGrad off;
  const int64_t rows = std::max<int64_t>(1, m.config.train.batch_tokens / m.config.context);
  std::vector<Foreseen> all;
  std::vector<Tokens> some;
  for (const std::string& text : texts) {
    some.push_back(after_a_line(m, text));
    if (static_cast<int64_t>(some.size()) < rows && all.size() + some.size() < texts.size())
      continue;
    add_some(m, some, all);
    some.clear();
    if (done) done(static_cast<double>(all.size()) / static_cast<double>(texts.size()));
  }
  return all;
}

}  // namespace fovea::tasks::lm
