#include <algorithm>
#include <array>
#include <cmath>

#include "fovea/error.h"
#include "text/measures.h"
#include "text/utf8.h"

// Papineni et al. 2002, over a corpus:
//   BLEU = BP · exp(¼ Σₙ log pₙ),  pₙ = clipped n-gram matches / n-grams, n = 1…4
//   BP = min(1, exp(1 − r / c)), c the hypotheses' tokens, r those of the nearest references.
// Where no n-gram of an order matches, pₙ = 1 / (2ᵏ · n-grams) for the k-th such order (smoothing
// "exp"); where there is none at all, or nothing matches, BLEU is 0.
namespace fovea::text {
namespace {

constexpr size_t kOrders = 4;

void replace_all(std::string& text, std::string_view what, std::string_view with) {
  for (size_t at = text.find(what); at != text.npos; at = text.find(what, at + with.size())) {
    text.replace(at, what.size(), with);
  }
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_stop(char c) { return c == '.' || c == ','; }
// ASCII punctuation but for ' , - .
bool is_symbol(char c) {
  return (c >= ' ' && c <= '&') || (c >= '(' && c <= '+') || c == '/' || (c >= ':' && c <= '@') ||
         (c >= '[' && c <= '`') || (c >= '{' && c <= '~');
}

std::string space_symbols(const std::string& line) {
  std::string out;
  for (const char c : line) {
    if (is_symbol(c)) {
      out += {' ', c, ' '};
    } else {
      out += c;
    }
  }
  return out;
}

// Scans for neighbours (a, b) that `match`, which do not overlap, and lets `write` replace them.
template <class Match, class Write>
std::string replace_pairs(const std::string& line, Match match, Write write) {
  std::string out;
  for (size_t i = 0; i < line.size(); ++i) {
    if (i + 1 < line.size() && match(line[i], line[i + 1])) {
      write(out, line[i], line[i + 1]);
      ++i;
    } else {
      out += line[i];
    }
  }
  return out;
}

// mteval-v13a's tokens: symbols apart, periods and commas apart unless between digits, a hyphen
// apart after a digit.
std::string spaced_13a(std::string line) {
  replace_all(line, "<skipped>", "");
  replace_all(line, "-\n", "");
  replace_all(line, "\n", " ");
  replace_all(line, "&quot;", "\"");
  replace_all(line, "&amp;", "&");
  replace_all(line, "&lt;", "<");
  replace_all(line, "&gt;", ">");
  line = space_symbols(" " + line + " ");
  line = replace_pairs(
      line, [](char a, char b) { return !is_digit(a) && is_stop(b); },
      [](std::string& out, char a, char b) {
        out += {a, ' ', b, ' '};
      });
  line = replace_pairs(
      line, [](char a, char b) { return is_stop(a) && !is_digit(b); },
      [](std::string& out, char a, char b) {
        out += {' ', a, ' ', b};
      });
  return replace_pairs(
      line, [](char a, char b) { return is_digit(a) && b == '-'; },
      [](std::string& out, char a, char b) {
        out += {a, ' ', b, ' '};
      });
}

void drop_spaces_at_end(std::string& text) {
  while (!text.empty()) {
    size_t at = text.size() - 1;
    while (at > 0 && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80) --at;
    if (!is_space(code_point(text, at).code)) return;
    text.resize(at);
  }
}

Units tokens_of(std::string_view text) {
  std::string line = valid_utf8(text);
  drop_spaces_at_end(line);
  Units tokens;
  for (const std::string& token : split_at_spaces(spaced_13a(std::move(line)))) {
    if (!tokens.text.empty()) tokens.text += ' ';
    tokens.units.push_back({tokens.text.size(), tokens.text.size() + token.size()});
    tokens.text += token;
  }
  return tokens;
}

struct Sums {
  int64_t length = 0, reference_length = 0;
  std::array<int64_t, kOrders> matches{}, total{};
};

// Of the reference lengths, the nearest; of two as near, the shorter.
int64_t nearest_length(int64_t length, const std::vector<Units>& references) {
  int64_t nearest = -1;
  for (const Units& reference : references) {
    const auto candidate = static_cast<int64_t>(reference.units.size());
    const int64_t by = std::abs(candidate - length), best = std::abs(nearest - length);
    if (nearest < 0 || by < best || (by == best && candidate < nearest)) nearest = candidate;
  }
  return nearest;
}

void add(Sums& sums, const std::string& hypothesis, const std::vector<std::string>& references) {
  const Units tokens = tokens_of(hypothesis);
  std::vector<Units> expected;
  for (const std::string& reference : references) expected.push_back(tokens_of(reference));
  const auto length = static_cast<int64_t>(tokens.units.size());
  sums.length += length;
  sums.reference_length += nearest_length(length, expected);
  for (size_t n = 1; n <= kOrders; ++n) {
    Counts allowed;  // for each n-gram, as many as the reference with the most of them has
    for (const Units& reference : expected) {
      for (const auto& [ngram, count] : count_ngrams(reference, n)) {
        int64_t& most = allowed[ngram];
        most = std::max(most, count);
      }
    }
    sums.matches[n - 1] += common(count_ngrams(tokens, n), allowed);
    sums.total[n - 1] += std::max<int64_t>(length - static_cast<int64_t>(n) + 1, 0);
  }
}

double score(const Sums& sums, size_t order) {
  if (sums.matches[0] == 0) return 0;  // then no longer n-gram matches either
  double logs = 0, unmatched = 1;
  for (size_t n = 0; n < order; ++n) {
    if (sums.total[n] == 0) return 0;
    if (sums.matches[n] == 0) unmatched *= 2;
    const double matches =
        sums.matches[n] == 0 ? 1 / unmatched : static_cast<double>(sums.matches[n]);
    logs += std::log(matches / static_cast<double>(sums.total[n]));
  }
  const double ratio =
      static_cast<double>(sums.reference_length) / static_cast<double>(sums.length);
  return 100 * std::exp(std::min(0.0, 1 - ratio) + logs / static_cast<double>(order));
}

}  // namespace

double bleu_n(int64_t n, std::span<const std::string> hypotheses, const References& references) {
  check_references("bleu", hypotheses, references);
  if (n < 1 || n > static_cast<int64_t>(kOrders)) {
    throw Error("bleu", "n is " + std::to_string(n) + ", expected 1 … 4");
  }
  Sums sums;
  for (size_t i = 0; i < hypotheses.size(); ++i) add(sums, hypotheses[i], references[i]);
  return score(sums, static_cast<size_t>(n));
}

double bleu(std::span<const std::string> hypotheses, const References& references) {
  return bleu_n(kOrders, hypotheses, references);
}

}  // namespace fovea::text
