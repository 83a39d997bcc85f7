#include <algorithm>
#include <array>
#include <optional>

#include "fovea/error.h"
#include "tasks/draw.h"
#include "tasks/translate/builtin.h"
#include "tasks/translate/phrase_words.h"

// sentence  = clause (joiner clause)* "."
// clause    = subject [who verb] verb [object [of owner]] [with object] [place] [time]
// A verb may be negated or have an adverb; a noun has a determiner or a number and up to two
// adjectives. Each clause is translated on its own; what changes order does so within it.
namespace fovea::tasks::translation {
namespace {

using namespace words;

struct Determiner {
  std::string_view en, en_plural;  // empty: not in that number
  std::string_view masculine, feminine, masculine_vowel, feminine_vowel, plural;
};

constexpr Determiner kThe{"the", "the", "le", "la", "l'", "l'", "les"};
constexpr Determiner kSome{"a", "some", "un", "une", "un", "une", "des"};
constexpr Determiner kDefinite[] = {
    kThe,
    {"this", "these", "ce", "cette", "cet", "cette", "ces"},
    {"my", "my", "mon", "ma", "mon", "mon", "mes"},
    {"your", "your", "votre", "votre", "votre", "votre", "vos"},
    {"his", "his", "son", "sa", "son", "son", "ses"},
    {"our", "our", "notre", "notre", "notre", "notre", "nos"},
    {"their", "their", "leur", "leur", "leur", "leur", "leurs"},
};
constexpr Determiner kIndefinite[] = {
    kSome,
    {"every", "several", "chaque", "chaque", "chaque", "chaque", "plusieurs"},
};

struct Pronoun {
  std::string_view en, fr;
  bool plural;
};
constexpr Pronoun kPronouns[] = {
    {"he", "il", false}, {"she", "elle", false}, {"they", "ils", true}};

struct Joiner {
  std::string_view en, fr;
  int64_t words;
};
constexpr Joiner kJoiners[] = {
    {" and", " et", 1},
    {", but", ", mais", 1},
    {" while", " pendant que", 1},
    {" because", " parce que", 1},
    {", so", ", donc", 1},
    {", then", ", puis", 1},
    {",", ",", 0},
};

struct NounPhrase {
  const Noun* noun = nullptr;
  bool plural = false;
  const Determiner* determiner = nullptr;  // may be absent where there is a number
  const Phrase* number = nullptr;
  const Adjective* before = nullptr;  // the French noun; both stand before the English one
  const Adjective* after = nullptr;
};

enum class Negation : uint8_t { none, is_not, never };

struct Clause {
  const Pronoun* pronoun = nullptr;  // instead of the subject
  NounPhrase subject;
  const Verb* who = nullptr;
  const Verb* verb = nullptr;
  Negation negation = Negation::none;
  const Phrase* adverb = nullptr;
  std::optional<NounPhrase> object, owner, with;
  const Phrase* place = nullptr;
  const Phrase* time = nullptr;
  bool plural() const { return pronoun ? pronoun->plural : subject.plural; }
};

using Words = std::vector<std::string_view>;

int64_t count_words(const Words& words) {
  auto count = static_cast<int64_t>(words.size());
  for (const std::string_view w : words) count += std::count(w.begin(), w.end(), ' ');
  return count;
}

// Spaces between words, none after an apostrophe.
std::string joined(const Words& words) {
  std::string text;
  for (const std::string_view w : words) {
    if (!text.empty() && text.back() != '\'') text += ' ';
    text += w;
  }
  return text;
}

// ---- English

bool takes_an(std::string_view word) {
  if (word == "useful") return false;
  return word == "honest" || std::string_view("aeiou").find(word[0]) != std::string_view::npos;
}

void add_english(const NounPhrase& phrase, Words& to) {
  const size_t first = to.size();
  if (phrase.number) to.push_back(phrase.number->en);
  if (phrase.before) to.push_back(phrase.before->en);
  if (phrase.after) to.push_back(phrase.after->en);
  to.push_back(phrase.plural ? phrase.noun->en_plural : phrase.noun->en);
  if (!phrase.determiner) return;
  std::string_view word = phrase.plural ? phrase.determiner->en_plural : phrase.determiner->en;
  if (word == "a" && takes_an(to[first])) word = "an";
  to.insert(to.begin() + static_cast<std::ptrdiff_t>(first), word);
}

void add_english_verb(const Clause& clause, Words& to) {
  const std::string_view infinitive = clause.verb->en_plural;
  const std::string_view finite = clause.plural() ? infinitive : clause.verb->en;
  if (clause.negation == Negation::is_not) {
    to.push_back(clause.plural() ? "do not" : "does not");
    to.push_back(infinitive);
    return;
  }
  if (clause.negation == Negation::never) to.push_back("never");
  if (clause.adverb) to.push_back(clause.adverb->en);
  to.push_back(finite);
}

Words english(const Clause& clause) {
  Words to;
  if (clause.pronoun)
    to.push_back(clause.pronoun->en);
  else
    add_english(clause.subject, to);
  if (clause.who) {
    to.push_back("who");
    to.push_back(clause.plural() ? clause.who->en_plural : clause.who->en);
  }
  add_english_verb(clause, to);
  if (clause.object) add_english(*clause.object, to);
  if (clause.owner) {
    to.push_back("of");
    add_english(*clause.owner, to);
  }
  if (clause.with) {
    to.push_back("with");
    add_english(*clause.with, to);
  }
  if (clause.place) to.push_back(clause.place->en);
  if (clause.time) to.push_back(clause.time->en);
  return to;
}

// ---- French

// The dictionary has no aspirated h.
bool starts_with_vowel(std::string_view word) {
  static constexpr std::string_view kVowels[] = {"a", "e", "i", "o", "u", "h", "â",
                                                 "é", "è", "ê", "î", "ô", "œ"};
  return std::any_of(std::begin(kVowels), std::end(kVowels),
                     [&](std::string_view v) { return word.starts_with(v); });
}

std::string_view agreeing(const Adjective& adjective, Gender gender, bool plural) {
  if (gender == Gender::masculine) return plural ? adjective.masculines : adjective.masculine;
  return plural ? adjective.feminines : adjective.feminine;
}

std::string_view agreeing(const Determiner& determiner, const NounPhrase& phrase,
                          std::string_view next) {
  // des → de before an adjective: de petits chiens
  if (phrase.plural && determiner.plural == kSome.plural && phrase.before)
    return starts_with_vowel(next) ? "d'" : "de";
  if (phrase.plural) return determiner.plural;
  const bool vowel = starts_with_vowel(next);
  if (phrase.noun->gender == Gender::masculine)
    return vowel ? determiner.masculine_vowel : determiner.masculine;
  return vowel ? determiner.feminine_vowel : determiner.feminine;
}

Words french(const NounPhrase& phrase) {
  const Noun& noun = *phrase.noun;
  const std::string_view word = phrase.plural ? noun.fr_plural : noun.fr;
  Words to;
  if (phrase.number) to.push_back(phrase.number->fr);
  if (phrase.before) {
    const bool special = noun.gender == Gender::masculine && !phrase.plural &&
                         !phrase.before->before_vowel.empty() && starts_with_vowel(word);
    to.push_back(special ? phrase.before->before_vowel
                         : agreeing(*phrase.before, noun.gender, phrase.plural));
  }
  to.push_back(word);
  if (phrase.after) to.push_back(agreeing(*phrase.after, noun.gender, phrase.plural));
  if (phrase.determiner) to.insert(to.begin(), agreeing(*phrase.determiner, phrase, to.front()));
  return to;
}

void append(Words& to, const Words& more) { to.insert(to.end(), more.begin(), more.end()); }

// de + le → du, de + les → des
void add_of(Words phrase, Words& to) {
  if (phrase.front() == "le") {
    phrase.front() = "du";
  } else if (phrase.front() == "les") {
    phrase.front() = "des";
  } else {
    to.push_back(starts_with_vowel(phrase.front()) ? "d'" : "de");
  }
  append(to, phrase);
}

void add_french_verb(const Clause& clause, Words& to) {
  const std::string_view verb = clause.plural() ? clause.verb->fr_plural : clause.verb->fr;
  if (clause.negation != Negation::none) to.push_back(starts_with_vowel(verb) ? "n'" : "ne");
  to.push_back(verb);
  if (clause.negation == Negation::is_not) to.push_back("pas");
  if (clause.negation == Negation::never) to.push_back("jamais");
  if (clause.adverb) to.push_back(clause.adverb->fr);
}

Words french(const Clause& clause) {
  Words to;
  if (clause.pronoun)
    to.push_back(clause.pronoun->fr);
  else
    to = french(clause.subject);
  if (clause.who) {
    to.push_back("qui");
    to.push_back(clause.plural() ? clause.who->fr_plural : clause.who->fr);
  }
  add_french_verb(clause, to);
  if (clause.object) append(to, french(*clause.object));
  if (clause.owner) add_of(french(*clause.owner), to);
  if (clause.with) {
    to.push_back("avec");
    append(to, french(*clause.with));
  }
  if (clause.place) to.push_back(clause.place->fr);
  if (clause.time) to.push_back(clause.time->fr);
  return to;
}

// parce que + il → parce qu'il
std::string joined(const Joiner& joiner, const Words& clause) {
  std::string text(joiner.fr);
  if (text.ends_with("que") && starts_with_vowel(clause.front())) {
    text.back() = '\'';
    return text + joined(clause);
  }
  return text + ' ' + joined(clause);
}

// ---- Drawing

// Words used a short while ago, so that a long sentence does not repeat itself.
class Recent {
 public:
  bool has(const void* word) const {
    return std::find(words_.begin(), words_.end(), word) != words_.end();
  }
  void add(const void* word) { words_[next_++ % words_.size()] = word; }

 private:
  std::array<const void*, 24> words_{};
  size_t next_ = 0;
};

template <typename T, typename Fits>
const T* pick_where(std::span<const T> from, Draw& draw, Fits fits) {
  for (;;) {
    const T& picked = draw.pick(from);
    if (fits(picked)) return &picked;
  }
}

const Adjective* pick_adjective(Stands stands, uint32_t kind, Draw& draw) {
  return pick_where(adjectives(), draw, [&](const Adjective& a) {
    return a.stands == stands && (a.kinds & kind) != 0;
  });
}

enum class Known : uint8_t { no, yes };  // only definite determiners

NounPhrase draw_noun_phrase(uint32_t kinds, Known known, Draw& draw, const Recent& recent) {
  NounPhrase phrase;
  phrase.noun = pick_where(nouns(), draw,
                           [&](const Noun& n) { return (n.kind & kinds) != 0 && !recent.has(&n); });
  phrase.plural = draw.chance(0.4);
  if (phrase.plural && draw.chance(0.3)) phrase.number = &draw.pick(numbers());
  if (!phrase.number || draw.chance(0.4)) {
    const bool definite = known == Known::yes || phrase.number || draw.chance(0.65);
    phrase.determiner = draw.chance(0.4) ? (definite ? &kThe : &kSome)
                        : definite       ? &draw.pick(std::span<const Determiner>(kDefinite))
                                         : &draw.pick(std::span<const Determiner>(kIndefinite));
  }
  const int64_t adjectives = draw.below(10);  // none in 5, before in 2, after in 2, both in 1
  if (adjectives >= 7) phrase.before = pick_adjective(Stands::before, phrase.noun->kind, draw);
  if (adjectives >= 5 && adjectives != 7 && adjectives != 8)
    phrase.after = pick_adjective(Stands::after, phrase.noun->kind, draw);
  return phrase;
}

void draw_subject(Clause& clause, Draw& draw, const Recent& recent) {
  if (draw.chance(0.2)) {
    clause.pronoun = &draw.pick(std::span<const Pronoun>(kPronouns));
    return;
  }
  clause.subject = draw_noun_phrase(clause.verb->subjects, Known::no, draw, recent);
  if (clause.subject.noun->kind == kPerson && draw.chance(0.1))
    clause.who = pick_where(verbs(), draw,
                            [&](const Verb& v) { return v.objects == 0 && &v != clause.verb; });
}

Clause draw_clause(Draw& draw, const Recent& recent) {
  Clause clause;
  const bool transitive = draw.chance(0.7);
  clause.verb = pick_where(verbs(), draw, [&](const Verb& v) {
    return (v.objects != 0) == transitive && !recent.has(&v);
  });
  draw_subject(clause, draw, recent);
  if (draw.chance(0.15))
    clause.negation = draw.chance(0.7) ? Negation::is_not : Negation::never;
  else if (draw.chance(0.2))
    clause.adverb = &draw.pick(adverbs());
  if (transitive) {
    const Known known = clause.negation == Negation::none ? Known::no : Known::yes;
    clause.object = draw_noun_phrase(clause.verb->objects, known, draw, recent);
    if (draw.chance(0.15)) clause.owner = draw_noun_phrase(kPerson, Known::yes, draw, recent);
  }
  if (draw.chance(0.1)) clause.with = draw_noun_phrase(kPerson, Known::yes, draw, recent);
  if (draw.chance(0.35)) clause.place = &draw.pick(places());
  if (draw.chance(0.3)) clause.time = &draw.pick(times());
  return clause;
}

// The same word twice within the clause, or in reach of the ones before.
bool repeats(const Clause& clause) {
  std::vector<const Noun*> used;
  if (!clause.pronoun) used.push_back(clause.subject.noun);
  for (const auto* phrase : {&clause.object, &clause.owner, &clause.with})
    if (*phrase) used.push_back((*phrase)->noun);
  std::sort(used.begin(), used.end());
  return std::adjacent_find(used.begin(), used.end()) != used.end();
}

void remember(const Clause& clause, Recent& recent) {
  recent.add(clause.verb);
  if (!clause.pronoun) recent.add(clause.subject.noun);
  if (clause.object) recent.add(clause.object->noun);
}

// Clauses of 3 to 12 words come up often enough to be waited for.
constexpr int64_t kShortest = 3, kLongest = 12;
constexpr uint64_t kPhrases = 2;

Clause draw_clause_of(int64_t words, Draw& draw, Recent& recent) {
  for (;;) {
    const Clause clause = draw_clause(draw, recent);
    if (count_words(english(clause)) != words || repeats(clause)) continue;
    remember(clause, recent);
    return clause;
  }
}

}  // namespace

text::Pair write_phrase(uint64_t seed, uint64_t i, const BuiltinOptions& options) {
  if (options.min_words < kShortest || options.max_words < options.min_words)
    throw Error("write_phrase", "3 ≤ min_words ≤ max_words expected, found " +
                                    std::to_string(options.min_words) + " and " +
                                    std::to_string(options.max_words));
  Draw draw(seed, i, kPhrases);
  Recent recent;
  text::Pair pair;
  const Joiner* joiner = nullptr;
  for (int64_t left = draw.between(options.min_words, options.max_words); left > 0;) {
    const int64_t words = left <= kLongest ? left : draw.between(kShortest + 1, 9);
    const Clause clause = draw_clause_of(words, draw, recent);
    const std::string en = joined(english(clause));
    pair.source += joiner ? std::string(joiner->en) + ' ' + en : en;
    pair.target += joiner ? joined(*joiner, french(clause)) : joined(french(clause));
    left -= words;
    if (left == 0) break;
    joiner = pick_where(std::span<const Joiner>(kJoiners), draw,
                        [&](const Joiner& j) { return &j != joiner; });
    left -= joiner->words;
  }
  pair.source += '.';
  pair.target += '.';
  return pair;
}

}  // namespace fovea::tasks::translation
