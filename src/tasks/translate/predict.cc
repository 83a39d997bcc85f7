#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <numeric>
#include <string_view>

#include "fovea/error.h"
#include "report/heatmap.h"
#include "tasks/deal.h"
#include "tasks/run_of.h"
#include "tasks/translate/data.h"
#include "tasks/translate/translate.h"

namespace fovea::tasks::translation {
namespace {

constexpr std::string_view kSubwordSpace = "▁";

}  // namespace

std::vector<std::string> source_pieces(const Coder& coder, const std::string& line) {
  if (coder.own() != nullptr) return coder.own()->pieces(line);
  std::vector<std::string> labels;
  for (const int64_t id : encode_source(coder, line)) labels.push_back(coder.token(id));
  return labels;
}

std::vector<std::string> pieces_of(const Coder& target, const models::Decoded& d,
                                   const std::vector<std::string>& source) {
  std::vector<std::string> pieces;
  for (size_t t = 0; t < d.tokens.size(); ++t) {
    const int64_t id = d.tokens[t];
    if (target.own() == nullptr || id != text::kUnknown || t >= d.places.size()) {
      pieces.push_back(target.token(id));
      continue;
    }
    const auto at = static_cast<size_t>(d.places[t]);
    pieces.push_back(at < source.size() ? source[at] : target.token(id));
  }
  return pieces;
}

std::vector<std::string> shown_pieces(std::vector<std::string> source) {
  for (std::string& piece : source) {  // as Tokenizer::token() shows them
    if (piece.starts_with(kSubwordSpace)) piece.replace(0, kSubwordSpace.size(), "␣");
  }
  return source;
}

namespace {

bool has_unknown(const Coder& target, const models::Decoded& d) {
  return target.own() != nullptr &&
         std::find(d.tokens.begin(), d.tokens.end(), text::kUnknown) != d.tokens.end();
}

report::Heatmap map_of(const Translator& t, const models::Decoded& d,
                       std::vector<std::string> source, std::vector<std::string> target,
                       const std::string& title) {
  report::Heatmap map{
      .title = title, .rows = std::move(target), .columns = shown_pieces(std::move(source))};
  map.axes = {"written", "read"};
  if (t.source.own() != nullptr) map.columns.emplace_back(kEndMark);
  if (d.ended) map.rows.emplace_back(kEndMark);
  for (const std::vector<float>& row : d.weights) {
    map.weights.insert(map.weights.end(), row.begin(), row.end());
  }
  return map;
}

Prediction finish(const Translator& t, const std::string& line, const models::Decoded& d,
                  bool keep_map) {
  Prediction result{.text = t.target.decode(d.tokens), .score = d.score, .ended = d.ended};
  const bool unknown = has_unknown(t.target, d);
  if (d.places.empty() || !(keep_map || unknown)) return result;
  const std::vector<std::string> source = source_pieces(t.source, line);
  const std::vector<std::string> target = pieces_of(t.target, d, source);
  if (unknown) result.text = t.target.own()->join(target);
  if (keep_map) result.pictures.emplace_back(map_of(t, d, source, target, line));
  return result;
}

constexpr size_t kMostWeights = size_t{1} << 24;  // that are kept at once: 64 MiB

// As many as the decoder takes where it does not end: twice the source and ten.
size_t steps_of(size_t source, const models::DecodeConfig& c) {
  return c.longest > 0 ? static_cast<size_t>(c.longest) : 2 * source + 10;
}

// How many of the lines from `begin` on are translated at once; `lengths` in the order of their
// size. A batch is padded to its longest line: its rows times that are no more than 128 ordinary
// lines have, and the weights of all its steps, where they are kept, no more than 64 MiB.
size_t lines_at_once(std::span<const size_t> lengths, size_t begin, const models::DecodeConfig& c) {
  constexpr size_t kRows = 128, kTokens = kRows * 128;
  const auto beams = static_cast<size_t>(c.beam);
  const auto fits = [&](size_t lines, size_t longest) {
    const size_t rows = lines * beams;
    return rows <= kRows && rows * longest <= kTokens &&
           (!c.weights || rows * longest * steps_of(longest, c) <= kMostWeights);
  };
  size_t n = 1;
  while (begin + n < lengths.size() && fits(n + 1, lengths[begin + n])) ++n;
  return n;
}

}  // namespace

void check_weights(size_t source, const models::DecodeConfig& c) {
  const auto beams = static_cast<size_t>(c.beam);
  const size_t most = beams * source * steps_of(source, c);
  if (most <= kMostWeights) return;
  throw Error("predict",
              fmt::format("where it looked in a text of {} tokens would be up to {} million "
                          "weights, at most {} are kept: ask about a part of it{}",
                          source, most / 1000000, kMostWeights / 1000000,
                          c.beam > 1 ? ", or with a smaller beam" : ""));
}

void suit_origin(Translator& t, const RunFolder* run) {
  t.origin = origin_of(t.config.further, run, {checkpoints::Purpose::translates});
  const std::filesystem::path folder = run != nullptr ? *run / kOriginFolder : t.origin->folder();
  const models::TransformerConfig& n = t.origin->plan().network;
  const int64_t longest = n.positions == nn::Positions::learned ? n.longest : 0;
  t.source = Coder(tokens::open_tokenizer(folder), longest);
  t.target = Coder(tokens::open_target_tokenizer(folder), std::max<int64_t>(0, longest - 1));
  check_vocabulary(t.source, n.source_vocabulary);
  check_vocabulary(t.target, n.target_vocabulary);
  const checkpoints::Generation g = t.origin->generation();
  if (!g.first || g.ends.empty()) {
    throw Error("train", fmt::format("--from {}: config.json names no decoder_start_token_id or no "
                                     "eos_token_id",
                                     t.config.further.from));
  }
  t.special = {*g.first, g.ends, g.never};
  t.special.never.push_back(*g.first);
}

Translator load_translator(const RunFolder& run) {
  Translator t;
  t.config = config_as<TranslateConfig>(run, task_translate);
  if (t.config.further.on()) {
    suit_origin(t, &run);
  } else {
    t.source = text::Tokenizer::load(run / kSourceFile);
    t.target = text::Tokenizer::load(run / kTargetFile);
    t.config.network.source_vocabulary = t.source.size();
    t.config.network.target_vocabulary = t.target.size();
  }
  t.model = load_model(run, [&](nn::Weights weights) -> Network {
    if (t.origin) return models::transformer(t.origin->plan().network, std::move(weights));
    return make_network(t.config, std::move(weights));
  });
  return t;
}

std::vector<int64_t> encode_prefix(const Coder& target, const std::string& prefix) {
  std::vector<int64_t> ids = target.encode(prefix);
  const auto unknown =
      std::find_if(ids.begin(), ids.end(), [&](int64_t id) { return target.is_unknown(id); });
  if (unknown != ids.end()) {
    const auto at = static_cast<size_t>(unknown - ids.begin());
    throw Error("predict",
                fmt::format("--prefix {}: the model has no token to write \"{}\"", prefix,
                            target.own() != nullptr ? target.own()->pieces(prefix).at(at)
                                                    : target.token(ids[at])));
  }
  return ids;
}

std::vector<Predictions> translate(const Translator& t, std::span<const std::string> lines,
                                   const models::DecodeConfig& config, const ShareDone& progress) {
  std::vector<std::vector<int64_t>> ids;
  for (const std::string& line : lines) ids.push_back(encode_source(t.source, line));
  std::vector<size_t> order(lines.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return ids[a].size() < ids[b].size(); });

  std::vector<size_t> lengths;
  for (const size_t i : order) lengths.push_back(ids[i].size());
  if (config.weights && !lengths.empty()) check_weights(lengths.back(), config);

  models::DecodeConfig c = config;
  c.special = t.special;
  c.places = t.origin || looks(t.config);  // for unknown tokens
  const int64_t most = t.source.longest();
  const bool past =
      most > 0 && !lengths.empty() && steps_of(lengths.back(), c) > static_cast<size_t>(most);
  if (past) c.longest = most;
  std::vector<std::span<const size_t>> parts;
  for (size_t begin = 0; begin < order.size(); begin += parts.back().size()) {
    parts.push_back(std::span(order).subspan(begin, lines_at_once(lengths, begin, c)));
  }
  const auto work = [&](size_t part) {
    std::vector<const std::vector<int64_t>*> rows;
    for (const size_t i : parts[part]) rows.push_back(&ids[i]);
    const Sources sources = pad_sources(rows);
    const auto decoded = decode(t.model, sources.ids, sources.lengths, c);
    std::vector<Predictions> found(rows.size());
    for (size_t i = 0; i < found.size(); ++i) {
      for (const models::Decoded& d : decoded[i]) {
        found[i].push_back(finish(t, lines[parts[part][i]], d, config.weights));
      }
    }
    return found;
  };
  std::vector<Predictions> results(lines.size());
  deal(progress, parts.size(), work, [&](size_t part, std::vector<Predictions> found) {
    for (size_t i = 0; i < found.size(); ++i) results[parts[part][i]] = std::move(found[i]);
  });
  return results;
}

}  // namespace fovea::tasks::translation
