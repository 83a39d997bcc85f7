#include <algorithm>

#include "fovea/ops.h"
#include "tasks/deal.h"
#include "tasks/lm/lm.h"

// Questions of a text, and whether a model that goes on after one writes the answer that stands
// there. All its likeliest tokens are the answer's exactly if each is the likeliest after the true
// ones before it, so one pass over a line judges all of its questions.
namespace fovea::tasks::lm {
namespace {

constexpr int64_t kRows = 32;  // lines at once

struct AskedLine {
  Tokens line;
  std::vector<AnswerSpan> questions;
};

// As write_on() reads a prompt: of a line that is longer than the context, its end counts.
AskedLine asked_in(const LanguageModel& m, const std::string& line) {
  AskedLine a{m.tokenizer.encode(line), answers_in(*m.tokenizer.own(), line)};
  const auto past = static_cast<int64_t>(a.line.size()) - m.config.context;
  if (past <= 0) return a;
  a.line.erase(a.line.begin(), a.line.begin() + past);
  std::erase_if(a.questions, [&](const AnswerSpan& q) { return q.begin <= past; });
  for (AnswerSpan& q : a.questions) q = {q.begin - past, q.end - past};
  return a;
}

int64_t right_among(const LanguageModel& m, std::span<const AskedLine> some) {
  size_t longest = 0;
  for (const AskedLine& a : some) longest = std::max(longest, a.line.size());
  const auto B = static_cast<int64_t>(some.size()), L = static_cast<int64_t>(longest);
  Tokens ids;
  for (const AskedLine& a : some) {
    ids.insert(ids.end(), a.line.begin(), a.line.end());
    ids.resize(ids.size() + longest - a.line.size(), text::kEnd);  // after all that is asked
  }
  const Tensor states = models::decode_all(m.model, Tensor::from_ids(ids, {B, L}));
  const std::vector<int64_t> said = argmax(models::logits(m.model, states), 2).to_ids();  // [B,L]
  int64_t right = 0;
  for (size_t b = 0; b < some.size(); ++b) {
    const auto wanted = ids.begin() + static_cast<ptrdiff_t>(b * longest);
    const auto found = said.begin() + static_cast<ptrdiff_t>(b * longest);
    for (const AnswerSpan& q : some[b].questions) {
      right += std::equal(wanted + q.begin, wanted + q.end, found + q.begin - 1);
    }
  }
  return right;
}

}  // namespace

std::vector<AnswerSpan> answers_in(const text::Tokenizer& t, const std::string& line) {
  const auto tokens_before = [&](size_t byte) {
    return static_cast<int64_t>(t.encode(std::string_view(line).substr(0, byte)).size());
  };
  std::vector<AnswerSpan> all;
  for (size_t mark = line.find("? "); mark != std::string::npos; mark = line.find("? ", mark + 1)) {
    const size_t stop = line.find('.', mark);
    if (stop == std::string::npos) break;
    all.push_back({tokens_before(mark + 1), tokens_before(stop + 1)});
  }
  return all;
}

RightAnswers right_answers(const LanguageModel& m, std::span<const std::string> lines,
                           const ShareDone& done) {
  const NoGrad off;
  std::vector<AskedLine> all;
  RightAnswers a;
  for (const std::string& line : lines) {
    AskedLine one = asked_in(m, line);
    if (one.questions.empty()) continue;
    a.questions += static_cast<int64_t>(one.questions.size());
    all.push_back(std::move(one));
  }
  const auto work = [&](size_t part) {
    const size_t at = part * kRows;
    return right_among(m, std::span(all).subspan(at, std::min<size_t>(kRows, all.size() - at)));
  };
  deal(done, (all.size() + kRows - 1) / kRows, work,
       [&](size_t, int64_t right) { a.right += right; });
  return a;
}

}  // namespace fovea::tasks::lm
