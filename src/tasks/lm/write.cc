#include <algorithm>

#include "core/random.h"
#include "fovea/error.h"
#include "fovea/ops.h"
#include "report/heatmap.h"
#include "tasks/lm/lm.h"

namespace fovea::tasks::lm {
namespace {

constexpr size_t kMapTokens = 64;  // of a picture's side

// What ids say, as it grows: each call gives what the token adds. A line's text may change while
// its last token may go on, and is given when it no longer does. Of a long line its end is read, so
// that a token takes as long as the one before it.
class Growing {
 public:
  // After these, of which nothing is given.
  Growing(const Coder& t, const Tokens& before) : tokenizer_(t) {
    const auto end = tokenizer_.own() != nullptr
                         ? std::find(before.rbegin(), before.rend(), text::kEnd)
                         : before.rend();
    line_.assign(end.base(), before.end());
    shorten();
    shown_ = tokenizer_.decode(line_).size();
  }

  std::string add(int64_t id) {
    if (id == text::kEnd && tokenizer_.own() != nullptr) {
      line_.clear();
      shown_ = 0;
      return "\n";
    }
    if (shorten()) shown_ = tokenizer_.decode(line_).size();
    line_.push_back(id);
    const std::string text = tokenizer_.decode(line_);
    if (text.size() <= shown_ || is_part_of_character(text)) return {};
    std::string more = text.substr(shown_);
    shown_ = text.size();
    return more;
  }

 private:
  // Of theirs, a token may be some bytes of a character.
  bool is_part_of_character(const std::string& text) const {
    return tokenizer_.theirs() != nullptr && text.ends_with("\xEF\xBF\xBD");
  }
  bool shorten() {
    constexpr size_t kMost = 512, kKept = 128;
    if (line_.size() < kMost) return false;
    line_.erase(line_.begin(), line_.end() - static_cast<ptrdiff_t>(kKept));
    return true;
  }

  const Coder& tokenizer_;
  Tokens line_;
  size_t shown_ = 0;  // bytes
};

// A model at work on one text: what it has seen is kept, and halved where the context is full.
class Writing {
 public:
  Writing(const LanguageModel& m, Tokens ids, DType cache)
      : m_(m), ids_(std::move(ids)), seen_{.kept = cache} {
    see(ids_);
  }

  std::vector<float> logits() const {
    const NoGrad off;
    const int64_t T = states_.size(1);
    return models::logits(m_.model, states_.slice(1, T - 1, T)).to_vector();
  }

  void add(int64_t id) {
    ids_.push_back(id);
    if (seen_.length < m_.config.context) {
      see({id});
      return;
    }
    const auto half = static_cast<size_t>(std::max<int64_t>(1, m_.config.context / 2));
    seen_ = {.kept = seen_.kept};
    see(Tokens(ids_.end() - static_cast<ptrdiff_t>(std::min(half, ids_.size())), ids_.end()));
  }

 private:
  void see(Tokens more) {
    const auto most = static_cast<size_t>(m_.config.context);
    if (more.size() > most) more.erase(more.begin(), more.end() - static_cast<ptrdiff_t>(most));
    const auto n = static_cast<int64_t>(more.size());
    states_ = models::decode_more(m_.model, Tensor::from_ids(more, {1, n}), seen_);
  }

  const LanguageModel& m_;
  Tokens ids_;
  models::Decoding seen_;
  Tensor states_;  // [1,T,W]
};

// Where the last block looked while it wrote the last tokens, its heads' mean.
report::Heatmap map_of(const LanguageModel& m, const Tokens& all, size_t prompt) {
  const NoGrad off;
  const size_t n = std::min({all.size(), kMapTokens, static_cast<size_t>(m.config.context) + 1});
  const size_t first =
      prompt + n <= all.size() ? std::max<size_t>(prompt, n / 2) - n / 2 : all.size() - n;
  const Tokens some(all.begin() + static_cast<ptrdiff_t>(first),
                    all.begin() + static_cast<ptrdiff_t>(std::min(all.size(), first + n)));
  const auto L = static_cast<int64_t>(some.size()) - 1;  // nobody reads the last
  Tensor weights;
  const std::string& last = m.model.decoder.blocks.back().self.name;
  models::decode_all(m.model, Tensor::from_ids(std::span(some).first(some.size() - 1), {1, L}), {},
                     {.hook = [&](const nn::Heads& heads) {
                       if (heads.name == last) weights = mean(heads.attended.weights(), {0, 1});
                       return Tensor();
                     }});
  report::Heatmap map{.title = "Attention of the last layer, mean of its heads"};
  map.axes = {"written", "read"};
  for (const int64_t id : some) map.columns.push_back(m.label(id));
  const size_t begin = prompt > first ? prompt - first : 1;  // the row that writes token i is i − 1
  const std::vector<float> w = weights.to_vector();
  for (size_t i = begin; i < some.size(); ++i) {
    map.rows.push_back(map.columns[i]);
    map.weights.insert(map.weights.end(), w.begin() + static_cast<ptrdiff_t>(i - 1) * L,
                       w.begin() + static_cast<ptrdiff_t>(i) * L);
    map.weights.push_back(0.0f);
  }
  return map;
}

// What a text begins with where there is no prompt.
int64_t first_of(const LanguageModel& m) {
  if (m.tokenizer.own() != nullptr) return text::kEnd;
  const tokens::SpecialIds& special = m.tokenizer.theirs()->special_ids();
  if (special.begin) return *special.begin;
  if (special.end) return *special.end;
  throw Error("predict", "there is no prompt to go on from, and the tokenizer names no beginning");
}

}  // namespace

Prediction write_on(const LanguageModel& m, const std::string& prompt, const PredictSettings& how,
                    const Predicting& watch) {
  models::check(how.sample);
  Tokens ids = encode_prompt(m.tokenizer, prompt);
  const bool empty = ids.empty();
  if (empty) ids.push_back(first_of(m));
  Growing growing(m.tokenizer, empty ? Tokens() : ids);
  Prediction result;
  const auto tell = [&](const std::string& more) {
    result.text += more;
    if (watch.piece && !more.empty()) watch.piece(more);
  };
  if (!empty) tell(prompt);
  Writing writing(m, ids, how.cache);
  const size_t before = ids.size();
  const Tokens never = m.tokenizer.never();
  const RandomKey key = random_key(static_cast<uint64_t>(how.seed), Purpose::data, 1);
  for (int64_t t = 0; t < how.length; ++t) {
    const double u = unit_open(bits32(key, static_cast<uint64_t>(t)));
    const models::Sampled s = models::sample(writing.logits(), how.sample, u, never);
    result.score += s.log_p;
    ids.push_back(s.token);
    tell(growing.add(s.token));
    if (t + 1 < how.length) writing.add(s.token);
    if (watch.done) watch.done(static_cast<double>(t + 1) / static_cast<double>(how.length));
  }
  if (watch.piece) watch.piece("\n");
  result.score /= static_cast<double>(how.length);
  if (watch.maps == Maps::keep && !m.model.config.linear) {
    result.pictures.emplace_back(map_of(m, ids, before));
  }
  return result;
}

}  // namespace fovea::tasks::lm
