#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "core/random.h"
#include "fovea/error.h"
#include "fovea/ops.h"
#include "fovea/search.h"
#include "tasks/decoder_fields.h"
#include "tasks/explain.h"
#include "tasks/opened/writes.h"

namespace fovea::tasks::opened {
namespace {

constexpr int64_t kUnsaidLength = 50;

// What is written, as it grows. A piece is told when no byte of a character is missing; of a long
// text its end is decoded, so that a token takes as long as the one before it.
class GrowingText {
 public:
  GrowingText(const tokens::Tokenizer& t, const Ids& before) : tokenizer_(t) {
    const size_t n = std::min<size_t>(before.size(), kContext);
    ids_.assign(before.end() - static_cast<ptrdiff_t>(n), before.end());
    told_ = tokenizer_.decode(ids_).size();
  }

  std::string add(int64_t id) {
    ids_.push_back(id);
    const std::string text = tokenizer_.decode(ids_);
    if (text.size() <= told_ || text.ends_with("\xEF\xBF\xBD")) return {};
    std::string more = text.substr(told_);
    told_ = text.size();
    if (ids_.size() > 4 * kContext) {
      ids_.erase(ids_.begin(), ids_.end() - static_cast<ptrdiff_t>(kContext));
      told_ = tokenizer_.decode(ids_).size();
    }
    return more;
  }

 private:
  static constexpr size_t kContext = 16;
  const tokens::Tokenizer& tokenizer_;
  Ids ids_;
  size_t told_ = 0;  // bytes
};

// The model's own way of writing, and what was said of it.
struct Way {
  models::SampleConfig sample;
  int64_t beam = 1, length = 0;
  double repetition = 1.0, length_penalty = 1.0;
  models::Enough enough = models::Enough::better;
};

Way way_of(const Opened& o, const WriteSettings& s, size_t prompt) {
  const checkpoints::Generation& g = o.generation;
  if (!g.unknown.empty()) {
    throw Error("predict", fmt::format("generation_config.json asks for {}, which is not done "
                                       "here: take it out of the file",
                                       fmt::join(g.unknown, ", ")));
  }
  const auto used = static_cast<int64_t>(prompt);
  Way w;
  w.beam = s.beam > 0 ? s.beam : g.beams;
  w.sample.temperature = static_cast<float>(s.temperature >= 0 ? s.temperature
                                            : g.sample         ? g.temperature
                                                               : 0.0);
  w.sample.top_k = s.top_k >= 0 ? s.top_k : g.sample ? g.top_k : 0;
  w.sample.top_p = static_cast<float>(s.top_p > 0 ? s.top_p : g.sample ? g.top_p : 1.0);
  w.repetition = g.repetition_penalty;
  w.length_penalty = g.length_penalty;
  if (g.early_stopping) w.enough = models::Enough::endings;
  w.length = s.length > 0       ? s.length
             : g.most_new > 0   ? g.most_new
             : g.longest > used ? g.longest - used
                                : kUnsaidLength;
  models::check(w.sample);
  const models::TransformerConfig& n = o.model.config;
  if (n.positions == nn::Positions::learned) w.length = std::min(w.length, n.longest - used);
  if (w.length < 1) {
    throw Error("predict", fmt::format("the prompt has {} tokens, and the model reads {}: there is "
                                       "no room to go on",
                                       used, n.longest));
  }
  if (w.beam > 1 && w.sample.temperature > 0) {
    throw Error("predict",
                "a beam takes the likeliest, and a temperature draws: say --beam 1 or "
                "--temperature 0");
  }
  return w;
}

// Tokens that the text has already are less likely: a logit above 0 is divided, one below is
// multiplied.
void discourage(std::vector<float>& logits, const Ids& written, double penalty) {
  Ids once = written;
  std::sort(once.begin(), once.end());
  once.erase(std::unique(once.begin(), once.end()), once.end());
  for (const int64_t id : once) {
    float& l = logits[static_cast<size_t>(id)];
    l = static_cast<float>(l > 0 ? static_cast<double>(l) / penalty
                                 : static_cast<double>(l) * penalty);
  }
}

// Of the rows of a batch, the ids before the last: read at once.
std::unique_ptr<models::Generator> reader_of(const Opened& o, const Ids& ids, int64_t rows,
                                             DType cache) {
  const auto n = static_cast<int64_t>(ids.size()) - 1;
  if (n == 0) return models::generator(o.model, {}, cache);
  const Tensor before = Tensor::from_ids(std::span(ids).first(static_cast<size_t>(n)), {1, n});
  return models::generator(o.model, before.expand({rows, n}).contiguous(), cache);
}

struct Continued {
  Ids tokens;
  double log_p = 0;
  bool ended = false;
};

Continued drawn_or_likeliest(const Opened& o, const Ids& prompt, const Way& way,
                             const WriteSettings& s, const std::function<void(int64_t)>& tell) {
  const NoGrad off;
  const auto generator = reader_of(o, prompt, 1, s.cache);
  const std::vector<int64_t>& ends = o.generation.ends;
  const RandomKey key = random_key(static_cast<uint64_t>(s.seed), Purpose::data, 1);
  Continued c;
  Ids all = prompt;
  for (int64_t t = 0; t < way.length; ++t) {
    generator->advance(Tensor::from_ids(std::span(all).last(1), {1}));
    std::optional<models::Generator::Likeliest> one;
    const bool plain = way.sample.temperature == 0 && way.repetition == 1.0;
    if (plain) one = generator->likeliest(0, o.generation.never);
    if (!one) {
      std::vector<float> logits = generator->logits().to_vector();
      if (way.repetition != 1.0) discourage(logits, all, way.repetition);
      const double u = unit_open(bits32(key, static_cast<uint64_t>(t)));
      const models::Sampled drawn = models::sample(logits, way.sample, u, o.generation.never);
      one = {drawn.token, drawn.log_p};
    }
    c.log_p += one->log_p;
    if (std::find(ends.begin(), ends.end(), one->token) != ends.end()) {
      c.ended = true;
      break;
    }
    all.push_back(one->token);
    c.tokens.push_back(one->token);
    tell(one->token);
  }
  c.log_p /= static_cast<double>(c.tokens.size() + (c.ended ? 1 : 0));
  return c;
}

Continued by_beam(const Opened& o, const Ids& prompt, const Way& way, DType cache) {
  if (way.repetition != 1.0) {
    throw Error("predict", "a beam with a repetition_penalty is not done here: say --beam 1");
  }
  const auto generator = reader_of(o, prompt, way.beam, cache);
  models::DecodeConfig d;
  d.beam = way.beam;
  d.longest = way.length;
  d.length_power = static_cast<float>(way.length_penalty);
  d.enough = way.enough;
  const models::Decoded best = models::search(
      *generator,
      {.first = {prompt.back()}, .ends = o.generation.ends, .never = o.generation.never}, d)[0][0];
  return {best.tokens, best.score, best.ended};
}

}  // namespace

void WriteSettings::visit(Fields& f) {
  f.group("Writing");
  f.integer("length", length, "tokens to write, at most; 0: as the model says", {0, 1e7});
  f.real("temperature", temperature,
         "lower is safer, 0: always the likeliest; -1: as the model says", {-1, 1000});
  f.integer("top-k", top_k, "draw from the K likeliest, 0: from all; -1: as the model says",
            {-1, 1e9});
  f.real("top-p", top_p, "draw from the likeliest that reach P together; 0: as the model says",
         {0, 1});
  f.integer("beam", beam, "hypotheses side by side; 0: as the model says", {0, 1024});
  f.integer("seed", seed, "another one writes something else", {0, 9e15});
  visit_cache(f, cache);
}

Prediction go_on(const Opened& o, const std::string& prompt, const WriteSettings& s,
                 const Predicting& watch) {
  Ids ids = ids_of(o, prompt);
  if (ids.empty()) {
    const auto& g = o.generation;
    if (!g.begin && g.ends.empty()) throw Error("predict", "there is no prompt to go on from");
    ids.push_back(g.begin ? *g.begin : g.ends.front());
  }
  const Way way = way_of(o, s, ids.size());
  Prediction result{.text = prompt};
  if (watch.piece && !prompt.empty()) watch.piece(prompt);
  GrowingText growing(o.tokenizer(), ids);
  const auto tell = [&](int64_t token) {
    const std::string more = growing.add(token);
    if (watch.piece && !more.empty()) watch.piece(more);
    if (watch.done) watch.done(0);
    result.text += more;
  };
  const Continued c =
      way.beam > 1 ? by_beam(o, ids, way, s.cache) : drawn_or_likeliest(o, ids, way, s, tell);
  if (way.beam > 1) std::for_each(c.tokens.begin(), c.tokens.end(), tell);
  if (watch.piece) watch.piece("\n");
  result.score = c.log_p;
  result.ended = c.ended;
  if (watch.maps == Maps::keep) {
    constexpr size_t kMapTokens = 64;  // of a picture's side
    ids.insert(ids.end(), c.tokens.begin(), c.tokens.end());
    if (ids.size() > kMapTokens) ids.erase(ids.begin(), ids.end() - kMapTokens);
    const Inside in = inside_text(o, ids, result.text);
    result.pictures = pictures_of(in, explain(in, {.by = {By::attention}}));
  }
  return result;
}

}  // namespace fovea::tasks::opened
