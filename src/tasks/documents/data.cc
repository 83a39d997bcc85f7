#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <unordered_map>
#include <unordered_set>

#include "core/random.h"
#include "fovea/error.h"
#include "io/json.h"
#include "tasks/classes.h"
#include "tasks/documents/documents.h"
#include "tasks/documents/reviews.h"
#include "text/messages.h"
#include "text/sentences.h"
#include "text/utf8.h"
#include "text/words.h"

namespace fovea::tasks::classification {
namespace {

constexpr size_t kMostClasses = 10000;

std::string without_spaces(const std::string& piece) {
  std::string word;
  text::for_each_code_point(piece, [&](char32_t code, std::string_view bytes) {
    if (!text::is_space(code)) word += bytes;
  });
  return word;
}

bool says_something(const std::string& word) {
  bool found = false;
  text::for_each_code_point(word, [&](char32_t c, std::string_view) {
    found = found || text::is_letter(c) || text::is_number(c);
  });
  return found;
}

uint64_t hash_of_all(std::span<const text::Labelled> documents, uint64_t h) {
  for (const text::Labelled& d : documents) {
    h = mix64(hash_of(d.text, hash_of("\xff", hash_of(d.label, h))));
  }
  return h;
}

std::vector<text::Labelled> read(const std::string& path, const DocumentsData& d) {
  return path.empty() ? std::vector<text::Labelled>() : text::read_labelled(path, d.columns);
}

std::vector<text::Labelled> read_or_make(const DocumentsData& d, uint64_t seed) {
  if (!d.data.empty()) return read(d.data, d);
  std::vector<text::Labelled> made;
  for (int64_t i = 0; i < d.examples; ++i) {
    made.push_back(write_review(seed, static_cast<uint64_t>(i)).document);
  }
  return made;
}

// What cannot be learnt from.
void check_classes(std::span<const text::Labelled> documents) {
  std::map<std::string, int64_t> count;
  for (const text::Labelled& d : documents) ++count[d.label];
  if (count.size() > kMostClasses ||
      (documents.size() >= 20 && 2 * count.size() > documents.size())) {
    throw Error(
        "documents",
        fmt::format("{} classes among {} documents ({}, …): is that column the text? A TSV "
                    "file has the label first, or a first line that names its columns, "
                    "text<TAB>label; for CSV and JSONL, --label-column and --text-column "
                    "say which is which",
                    count.size(), documents.size(), text::quoted_piece(count.begin()->first)));
  }
}

// Nothing is held out where all texts of each class are alike: equal texts stay together.
std::string why_none(std::span<const text::Labelled> documents, const char* share) {
  std::unordered_set<std::string_view> unique, classes;
  for (const text::Labelled& d : documents) {
    unique.insert(d.text);
    classes.insert(d.label);
  }
  const bool of_each_one = unique.size() <= classes.size();
  return fmt::format("{} documents have {} different texts, and equal ones stay together; {}",
                     documents.size(), unique.size(),
                     of_each_one ? "add different ones"
                                 : fmt::format("a larger {} holds out more, or more different "
                                               "texts do",
                                               share));
}

// The documents of one text, which stay together.
struct Same {
  std::vector<size_t> which;
  uint64_t order = 0;  // at random, by the text alone
};

// By class of the first of them, each class in a random order.
std::map<std::string, std::vector<Same>> by_class(const std::vector<text::Labelled>& documents,
                                                  uint64_t seed) {
  std::unordered_map<std::string_view, Same> unique;
  for (size_t i = 0; i < documents.size(); ++i) unique[documents[i].text].which.push_back(i);
  std::map<std::string, std::vector<Same>> classes;
  for (auto& [text, same] : unique) {
    same.order = mix64(mix64(seed) ^ hash_of(text));
    classes[documents[same.which.front()].label].push_back(same);
  }
  for (auto& [label, all] : classes) {
    std::sort(all.begin(), all.end(), [](const Same& a, const Same& b) {
      return a.order != b.order ? a.order < b.order : a.which.front() < b.which.front();
    });
  }
  return classes;
}

void check_folds(const DocumentsData& d) {
  if (d.folds == 1) throw Error("documents", "--folds must be 2 or more, or 0 for none");
  if (d.fold > d.folds) {
    throw Error("documents", fmt::format("--fold {} of --folds {}", d.fold, d.folds));
  }
  if (d.folds > 0 && !d.test.empty()) {
    throw Error("documents", "give either --folds or --test, not both");
  }
}

}  // namespace

SplitDocument taken_apart(const std::string& text, const Reading& r) {
  SplitDocument apart;
  const auto longest = static_cast<size_t>(r.longest_sentence);
  const auto most = static_cast<size_t>(r.most_sentences);
  for (const std::string& sentence : text::split_sentences(text::valid_utf8(text))) {
    std::vector<std::string> words;
    for (const std::string& piece : text::split_words(sentence)) {
      std::string word = without_spaces(piece);
      if (!word.empty()) words.push_back(std::move(word));
    }
    if (words.empty()) continue;
    // Marks alone belong to what was said before.
    if (!apart.sentences.empty() && apart.sentences.back().size() + words.size() <= longest &&
        apart.dropped == 0 && std::none_of(words.begin(), words.end(), says_something)) {
      std::vector<std::string>& before = apart.sentences.back();
      before.insert(before.end(), words.begin(), words.end());
      continue;
    }
    // Pieces of about the same length.
    const size_t pieces = (words.size() + longest - 1) / longest;
    apart.cut += pieces > 1;
    for (size_t p = 0; p < pieces; ++p) {
      const size_t from = p * words.size() / pieces, to = (p + 1) * words.size() / pieces;
      if (apart.sentences.size() == most) {
        apart.dropped += static_cast<int64_t>(to - from);
        continue;
      }
      apart.sentences.emplace_back(words.begin() + static_cast<int64_t>(from),
                                   words.begin() + static_cast<int64_t>(to));
    }
  }
  if (apart.sentences.empty()) apart.sentences.push_back({"∅"});  // nothing that could be known
  return apart;
}

models::DocumentIds Known::ids_of(const SplitDocument& apart) const {
  if (coder) return {apart.tokens};
  models::DocumentIds ids;
  for (const std::vector<std::string>& sentence : apart.sentences) {
    models::SentenceIds& row = ids.emplace_back();
    for (const std::string& word : sentence) row.push_back(words->id(text::lowercase(word)));
  }
  return ids;
}

int64_t Known::class_of(const std::string& label) const {
  const auto found = std::find(classes.begin(), classes.end(), label);
  return found != classes.end() ? found - classes.begin() : -1;
}

SplitDocument Known::apart(const std::string& text, const Reading& r) const {
  if (!coder) return classification::taken_apart(text, r);
  SplitDocument a;
  a.tokens = coder->encode(text, tokens::Specials::add);
  if (static_cast<int64_t>(a.tokens.size()) == coder->longest()) {
    const size_t whole = coder->theirs()->encode(text).size();
    a.dropped = static_cast<int64_t>(whole - a.tokens.size());
  }
  std::vector<std::string>& labels = a.sentences.emplace_back();
  for (const int64_t id : a.tokens) labels.push_back(coder->token(id));
  if (a.tokens.empty()) throw Error("documents", "there is no text to read");
  return a;
}

int64_t Known::size() const { return coder ? coder->size() : words->size(); }

Known known_of(const checkpoints::Origin& origin) {
  const models::TransformerConfig& n = origin.plan().network;
  Known known{.classes = origin.classes(),
              .coder = Coder(tokens::open_tokenizer(origin.folder()), n.longest)};
  check_vocabulary(*known.coder, n.source_vocabulary);
  return known;
}

Known known_of(std::span<const text::Labelled> documents, const Reading& r) {
  std::unordered_map<std::string, int64_t> counts;
  Known known;
  for (const text::Labelled& d : documents) {
    known.classes.push_back(d.label);
    for (const std::vector<std::string>& sentence : taken_apart(d.text, r).sentences) {
      for (const std::string& word : sentence) {
        if (word.size() <= text::kMaxTokenBytes) ++counts[text::lowercase(word)];
      }
    }
  }
  std::sort(known.classes.begin(), known.classes.end());
  known.classes.erase(std::unique(known.classes.begin(), known.classes.end()), known.classes.end());
  std::vector<std::pair<int64_t, std::string>> ranked;  // equally frequent ones by their bytes
  for (const auto& [word, count] : counts) {
    if (count >= r.min_count && word.size() <= text::kMaxTokenBytes)
      ranked.emplace_back(-count, word);
  }
  if (ranked.empty()) {
    throw Error("documents",
                fmt::format("no word appears {} times; lower --min-count", r.min_count));
  }
  std::sort(ranked.begin(), ranked.end());
  ranked.resize(std::min(ranked.size(), static_cast<size_t>(r.vocabulary - text::kFirst)));
  std::vector<std::string> words;
  for (auto& [count, word] : ranked) words.push_back(std::move(word));
  known.words = std::make_shared<const text::Vocabulary>(text::Unit::words, std::move(words));
  return known;
}

void save(const Known& known, const RunFolder& run) {
  nlohmann::ordered_json words = nlohmann::ordered_json::array();
  for (int64_t id = text::kFirst; id < known.words->size(); ++id) {
    words.push_back(known.words->token(id));
  }
  write_json(run / kKnownFile, {{"classes", known.classes}, {"words", words}});
}

Known load_known(const RunFolder& run) {
  const std::string file = (run / kKnownFile).string();
  const nlohmann::ordered_json j = read_json(file);
  const auto list = [&](const char* name) {
    const bool there = j.is_object() && j.contains(name) && j[name].is_array() && !j[name].empty();
    if (!there || !std::all_of(j[name].begin(), j[name].end(),
                               [](const auto& item) { return item.is_string(); })) {
      throw Error("documents", fmt::format("{}: '{}' must be a list of strings", file, name));
    }
    return j[name].template get<std::vector<std::string>>();
  };
  Known known{.words = {}, .classes = list("classes")};
  if (!std::is_sorted(known.classes.begin(), known.classes.end(), std::less_equal<>())) {
    throw Error("documents",
                file + ": the classes must be different, and in the order of their bytes");
  }
  known.words = std::make_shared<const text::Vocabulary>(text::Unit::words, list("words"));
  return known;
}

Documents split(std::vector<text::Labelled> documents, const DocumentsData& d, uint64_t seed) {
  check_folds(d);
  enum class Side : uint8_t { train, valid, test };
  std::vector<Side> side(documents.size(), Side::train);
  // Of each class those that `takes(i, n)`, i counting the n unique texts that are still free.
  const auto take = [&](Side to, uint64_t order, const auto& takes) {
    for (const auto& [label, all] : by_class(documents, order)) {
      size_t i = 0;
      for (const Same& same : all) {
        if (side[same.which.front()] != Side::train || !takes(i++, all.size())) continue;
        for (const size_t which : same.which) side[which] = to;
      }
    }
  };
  const auto first = [](double share) {
    return [share](size_t i, size_t n) {
      return i < static_cast<size_t>(std::lround(share * static_cast<double>(n)));
    };
  };
  if (d.folds > 0) {
    // Folds are parts of the data, the same for every seed.
    const auto folds = static_cast<uint64_t>(d.folds);
    const uint64_t fold = (d.fold > 0 ? static_cast<uint64_t>(d.fold) : seed % folds + folds) - 1;
    take(Side::test, 0, [&](size_t i, size_t) { return i % folds == fold % folds; });
  } else if (d.test.empty()) {
    take(Side::test, seed, first(d.test_share));
  }
  if (d.valid.empty()) take(Side::valid, seed, first(d.valid_share));
  Documents result;
  for (size_t i = 0; i < documents.size(); ++i) {
    auto& to = side[i] == Side::test    ? result.test
               : side[i] == Side::valid ? result.valid
                                        : result.train;
    to.push_back(std::move(documents[i]));
  }
  return result;
}

DocumentsSets load_data(const DocumentsData& d, uint64_t seed) {
  std::vector<text::Labelled> all = read_or_make(d, seed), valid = read(d.valid, d),
                              test = read(d.test, d);
  DocumentsSets sets;
  sets.fingerprint =
      fmt::format("{:016x}", hash_of_all(test, hash_of_all(valid, hash_of_all(all, kEmptyHash))));
  check_classes(all);
  sets.documents = split(std::move(all), d, seed);
  if (!valid.empty()) sets.documents.valid = std::move(valid);
  if (!test.empty()) sets.documents.test = std::move(test);
  const Documents& parts = sets.documents;
  if (parts.train.empty()) {
    throw Error("documents",
                "none are left to train with; --valid-share and --test-share hold out all of them");
  }
  std::map<std::string, int64_t> count;
  for (const text::Labelled& document : parts.train) ++count[document.label];
  expect_two_classes(count, "documents", "documents", "is that column the label?");
  if (parts.valid.empty()) {
    throw Error("documents",
                "none are left to validate with: " + why_none(parts.train, "--valid-share"));
  }
  return sets;
}

}  // namespace fovea::tasks::classification
