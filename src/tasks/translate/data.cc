#include "tasks/translate/data.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/random.h"
#include "fovea/error.h"
#include "tasks/translate/builtin.h"
#include "tasks/translate/translate.h"
#include "text/lines.h"

namespace fovea::tasks::translation {
namespace {

uint64_t hash_of(const std::vector<text::Pair>& pairs, uint64_t h) {
  const auto feed = [&](const std::string& s) {
    for (const char c : s) h = (h ^ static_cast<uint8_t>(c)) * 0x100000001b3u;
    h = (h ^ 0xff) * 0x100000001b3u;
  };
  for (const text::Pair& p : pairs) {
    feed(p.source);
    feed(p.target);
  }
  return mix64(h);
}

// Columns after the second are no text of the pairs, which is said.
std::vector<text::Pair> read_columns(const std::string& file, std::vector<std::string>& warnings) {
  if (file.empty()) return {};
  text::Tsv read =
      text::parse_tsv(text::LineReader::of_file("read_tsv", file), text::MoreColumns::leave_out);
  if (read.columns > 2) {
    warnings.push_back(
        fmt::format("{} has {} columns; the first two are read", file, read.columns));
  }
  return std::move(read.pairs);
}

std::vector<text::Pair> read_pairs(const TranslateData& d, uint64_t seed,
                                   std::vector<std::string>& warnings) {
  if (!d.tsv.empty() && !d.source.empty()) {
    throw Error("translate", "give either one TSV file or --src and --tgt, not both");
  }
  if (d.source.empty() != d.target.empty()) {
    throw Error("translate", "--src and --tgt go together");
  }
  if (!d.tsv.empty()) return read_columns(d.tsv, warnings);
  if (!d.source.empty()) return text::read_parallel(d.source, d.target);
  return builtin_data(d.builtin).make(d.examples, seed,
                                      {.min_words = d.min_words, .max_words = d.max_words});
}

using Row = std::vector<int64_t>;

// [L,B], padded at the end.
Tensor time_major(std::span<const Row* const> rows, int64_t padding) {
  size_t L = 0;
  for (const Row* row : rows) L = std::max(L, row->size());
  const size_t B = rows.size();
  std::vector<int64_t> ids(L * B, padding);
  for (size_t b = 0; b < B; ++b) {
    for (size_t t = 0; t < rows[b]->size(); ++t) ids[t * B + b] = (*rows[b])[t];
  }
  return Tensor::from_ids(ids, {static_cast<int64_t>(L), static_cast<int64_t>(B)});
}

Tensor time_major(const std::vector<Row>& rows, int64_t padding) {
  std::vector<const Row*> all;
  for (const Row& row : rows) all.push_back(&row);
  return time_major(all, padding);
}

// Pairs of one source stay together, so that of a single one none can be held out.
std::string why_none(std::span<const text::Pair> pairs, const TranslateData& d) {
  if (d.valid_share == 0) return "--valid-share is 0, and --valid names none";
  const bool alike = std::all_of(pairs.begin(), pairs.end(), [&](const text::Pair& p) {
    return p.source == pairs.front().source;
  });
  if (alike) {
    return fmt::format(
        "all {} pairs have one source; add pairs with others, or name some by --valid",
        pairs.size());
  }
  return fmt::format(
      "of {} pairs, those with one source stay together; a larger --valid-share holds "
      "out more, or more pairs do",
      pairs.size());
}

}  // namespace

TranslateSets load_data(const TranslateData& d, uint64_t seed) {
  TranslateSets sets;
  std::vector<text::Pair> pairs = read_pairs(d, seed, sets.warnings);
  std::vector<text::Pair> valid = read_columns(d.valid, sets.warnings);
  std::vector<text::Pair> test = read_columns(d.test, sets.warnings);
  const uint64_t h = hash_of(test, hash_of(valid, hash_of(pairs, 0xcbf29ce484222325u)));
  sets.fingerprint = fmt::format("{:016x}", h);
  if (d.swap) {
    for (auto* set : {&pairs, &valid, &test}) {
      for (text::Pair& p : *set) std::swap(p.source, p.target);
    }
  }
  sets.pairs = text::split_by_source(std::move(pairs), valid.empty() ? d.valid_share : 0,
                                     test.empty() ? d.test_share : 0, seed);
  if (!valid.empty()) sets.pairs.valid = std::move(valid);
  if (!test.empty()) sets.pairs.test = std::move(test);
  if (sets.pairs.train.empty()) {
    throw Error("translate",
                "no pairs are left to train with; --valid-share and --test-share hold out all of "
                "them");
  }
  if (sets.pairs.valid.empty()) {
    throw Error("translate",
                "no pairs are left to validate with: " + why_none(sets.pairs.train, d));
  }
  return sets;
}

std::vector<int64_t> encode_source(const Coder& coder, const std::string& line) {
  std::vector<int64_t> ids = coder.encode(line, tokens::Specials::add);
  if (coder.own() != nullptr) ids.push_back(text::kEnd);
  return ids;
}

std::vector<EncodedPair> encode_pairs(const Coder& source, const Coder& target,
                                      std::span<const text::Pair> pairs) {
  std::vector<EncodedPair> encoded;
  encoded.reserve(pairs.size());
  for (const text::Pair& p : pairs) {
    encoded.push_back({encode_source(source, p.source), target.encode(p.target)});
  }
  return encoded;
}

Sources pad_sources(std::span<const std::vector<int64_t>* const> rows) {
  std::vector<int64_t> lengths;
  for (const auto* row : rows) lengths.push_back(static_cast<int64_t>(row->size()));
  return {time_major(rows, text::kPad),
          Tensor::from_ids(lengths, {static_cast<int64_t>(lengths.size())})};
}

models::Batch make_batch(const Translator& t, std::span<const EncodedPair* const> pairs) {
  // Any id may be a token of a vocabulary of others.
  const int64_t padding = t.origin ? -1 : static_cast<int64_t>(text::kPad);
  std::vector<const Row*> sources;
  std::vector<Row> in, out;
  for (const EncodedPair* p : pairs) {
    sources.push_back(&p->source);
    in.push_back({t.special.begin});
    in.back().insert(in.back().end(), p->target.begin(), p->target.end());
    out.push_back(p->target);
    out.back().push_back(t.special.ends.front());
  }
  const Sources padded = pad_sources(sources);
  return {.source = padded.ids,
          .source_lengths = padded.lengths,
          .target_in = time_major(in, text::kPad),
          .target_out = time_major(out, padding),
          .padding = padding};
}

}  // namespace fovea::tasks::translation
