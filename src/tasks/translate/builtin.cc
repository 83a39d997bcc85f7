#include "tasks/translate/builtin.h"

#include "fovea/error.h"

namespace fovea::tasks::translation {
namespace {

template <typename Write>
std::vector<text::Pair> make_pairs(int64_t count, Write write) {
  if (count < 0) throw Error("builtin_data", "count is negative: " + std::to_string(count));
  std::vector<text::Pair> pairs;
  pairs.reserve(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) pairs.push_back(write(static_cast<uint64_t>(i)));
  return pairs;
}

std::vector<text::Pair> make_dates(int64_t count, uint64_t seed, const BuiltinOptions&) {
  return make_pairs(count, [&](uint64_t i) { return write_date(seed, i).pair; });
}

std::vector<text::Pair> make_phrases(int64_t count, uint64_t seed, const BuiltinOptions& options) {
  return make_pairs(count, [&](uint64_t i) { return write_phrase(seed, i, options); });
}

}  // namespace

std::span<const BuiltinData> builtin_data() {
  static const std::vector<BuiltinData> all{
      {"dates", "dates as people write them, in many forms and languages, to yyyy-mm-dd",
       &make_dates},
      {"phrases", "English sentences of chosen length to French, by a small grammar",
       &make_phrases},
  };
  return all;
}

const BuiltinData& builtin_data(const std::string& name) {
  std::string known;
  for (const BuiltinData& data : builtin_data()) {
    if (data.name == name) return data;
    known += (known.empty() ? "" : ", ") + data.name;
  }
  throw Error("builtin_data", "no data '" + name + "'; there are " + known);
}

}  // namespace fovea::tasks::translation
