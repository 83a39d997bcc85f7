#include "tasks/translate/builtin.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <set>

#include "fovea/error.h"

namespace fovea::tasks::translation {
namespace {

// ---- A reader of dates that shares nothing with their writer: words that name a month or a
// weekday by how they begin, in any of the languages.
struct Read {
  int64_t year = 0, month = 0, day = 0;
  int64_t weekday = -1;  // from Sunday
};

std::string lower(std::string text) {
  static const std::map<std::string, std::string> kLetters{
      {"É", "é"}, {"Û", "û"}, {"Ä", "ä"}, {"Ç", "ç"}, {"Á", "á"}, {"Ì", "ì"},
      {"Ö", "ö"}, {"Å", "å"}, {"Ś", "ś"}, {"Ź", "ź"}, {"Ł", "ł"}, {"Ą", "ą"}};
  std::string result;
  for (const std::string& c : text::characters(text)) {
    const auto found = kLetters.find(c);
    if (found != kLetters.end())
      result += found->second;
    else
      result += c.size() == 1 ? std::string(1, static_cast<char>(std::tolower(c[0]))) : c;
  }
  return result;
}

// Runs of letters and runs of digits.
std::vector<std::string> tokens_of(const std::string& text) {
  std::vector<std::string> tokens;
  enum class Last { other, letter, digit } last = Last::other;
  for (const std::string& c : text::characters(text)) {
    Last now = Last::letter;
    if (c.size() == 1 && std::isdigit(static_cast<unsigned char>(c[0]))) now = Last::digit;
    if (c.size() == 1 && !std::isalnum(static_cast<unsigned char>(c[0]))) now = Last::other;
    if (now == Last::other) {
    } else if (now == last) {
      tokens.back() += c;
    } else {
      tokens.push_back(c);
    }
    last = now;
  }
  return tokens;
}

int64_t begins_with(const std::string& word, const std::vector<std::vector<std::string>>& names) {
  for (size_t i = 0; i < names.size(); ++i)
    for (const std::string& name : names[i])
      if (word.starts_with(name)) return static_cast<int64_t>(i);
  return -1;
}

int64_t month_of(const std::string& word) {
  static const std::vector<std::vector<std::string>> kMonths{{"jan", "ene", "gen", "sty"},
                                                             {"feb", "fév", "fev", "lut"},
                                                             {"mar", "mär", "mrz", "mrt", "maa"},
                                                             {"apr", "avr", "abr", "kwi"},
                                                             {"may", "mai", "mei", "maj", "mag"},
                                                             {"jun", "juin", "giu", "cze"},
                                                             {"jul", "juil", "lug", "lip"},
                                                             {"aug", "aoû", "ago", "sie"},
                                                             {"sep", "set", "wrz"},
                                                             {"oct", "okt", "ott", "out", "paź"},
                                                             {"nov", "lis"},
                                                             {"dec", "déc", "dez", "dic", "gru"}};
  return begins_with(word, kMonths) + 1;
}

int64_t weekday_of(const std::string& word) {
  static const std::vector<std::string> kGerman{"so", "mo", "di", "mi", "do", "fr", "sa"};
  static const std::vector<std::vector<std::string>> kWeekdays{
      {"sun", "dimanche", "sonntag", "dom", "zondag", "sön", "niedz"},
      {"mon", "lun", "montag", "maandag", "mån", "pon"},
      {"tue", "mardi", "dienstag", "martes", "martedì", "dinsdag", "tis", "wto"},
      {"wed", "mercredi", "mittwoch", "mié", "mercoledì", "woe", "ons", "śro"},
      {"thu", "jeudi", "donnerstag", "jueves", "giovedì", "donderdag", "tors", "czw"},
      {"fri", "vendredi", "freitag", "vie", "venerdì", "vrij", "fredag", "pią"},
      {"sat", "samedi", "samstag", "sáb", "sabato", "zaterdag", "lör", "sob"}};
  const auto german = std::find(kGerman.begin(), kGerman.end(), word);
  if (german != kGerman.end()) return german - kGerman.begin();
  return begins_with(word, kWeekdays);
}

int64_t ordinal_of(const std::string& word) {
  static const std::vector<std::string> kWords{
      "first",     "second",      "third",      "fourth",     "fifth",
      "sixth",     "seventh",     "eighth",     "ninth",      "tenth",
      "eleventh",  "twelfth",     "thirteenth", "fourteenth", "fifteenth",
      "sixteenth", "seventeenth", "eighteenth", "nineteenth"};
  if (word == "twenty" || word == "twentieth") return 20;
  if (word == "thirty" || word == "thirtieth") return 30;
  const auto found = std::find(kWords.begin(), kWords.end(), word);
  return found == kWords.end() ? 0 : found - kWords.begin() + 1;
}

// Figures: y m d where the year comes first, else d (m) y.
void read_figures(std::vector<std::string> figures, Read& read) {
  if (figures.size() == 1 && figures[0].size() == 8)
    figures = {figures[0].substr(0, 4), figures[0].substr(4, 2), figures[0].substr(6, 2)};
  const bool year_first = figures.front().size() == 4;
  if (!year_first) std::reverse(figures.begin(), figures.end());
  read.year = std::stoll(figures[0]);
  if (figures.size() == 3) read.month = std::stoll(figures[1]);
  if (figures.size() > 1) read.day = std::stoll(figures.back());
}

Read read_date(const std::string& source) {
  Read read;
  std::vector<std::string> figures;
  int64_t month = 0, ordinal = 0;
  for (const std::string& token : tokens_of(lower(source))) {
    if (std::isdigit(static_cast<unsigned char>(token[0]))) {
      figures.push_back(token);
      continue;
    }
    if (ordinal_of(token) > 0) {
      ordinal += ordinal_of(token);
      continue;
    }
    const int64_t weekday = weekday_of(token);
    if (weekday >= 0)
      read.weekday = weekday;
    else if (month_of(token) > 0)
      month = month_of(token);
  }
  read_figures(figures, read);
  if (month > 0) read.month = month;
  if (ordinal > 0) read.day = ordinal;
  return read;
}

TEST(Dates, ReadBackAsTheyWereWritten) {
  for (uint64_t i = 0; i < 20000; ++i) {
    const WrittenDate date = write_date(3, i);
    const Read read = read_date(date.pair.source);
    char iso[16];
    std::snprintf(iso, sizeof iso, "%04d-%02d-%02d", static_cast<int>(read.year),
                  static_cast<int>(read.month), static_cast<int>(read.day));
    ASSERT_EQ(iso, date.pair.target) << date.pair.source;
    if (read.weekday < 0) continue;
    const std::chrono::year_month_day ymd{std::chrono::year(static_cast<int>(read.year)),
                                          std::chrono::month(static_cast<unsigned>(read.month)),
                                          std::chrono::day(static_cast<unsigned>(read.day))};
    const std::chrono::weekday weekday{std::chrono::sys_days(ymd)};
    ASSERT_EQ(read.weekday, weekday.c_encoding()) << date.pair.source;
  }
}

TEST(Dates, AreDaysThatExist) {
  bool leap = false;
  int64_t first = 9999, last = 0;
  for (uint64_t i = 0; i < 20000; ++i) {
    const WrittenDate date = write_date(4, i);
    const std::chrono::year_month_day ymd{std::chrono::year(static_cast<int>(date.year)),
                                          std::chrono::month(static_cast<unsigned>(date.month)),
                                          std::chrono::day(static_cast<unsigned>(date.day))};
    ASSERT_TRUE(ymd.ok()) << date.pair.target;
    leap = leap || date.pair.target.ends_with("-02-29");
    first = std::min(first, date.year);
    last = std::max(last, date.year);
  }
  EXPECT_TRUE(leap);
  EXPECT_EQ(first, 1900);
  EXPECT_EQ(last, 2099);
}

TEST(Dates, EveryFormAndTypingOccurs) {
  std::set<int64_t> forms;
  size_t shortest = 99, longest = 0, doubled = 0;
  for (uint64_t i = 0; i < 5000; ++i) {
    const WrittenDate date = write_date(5, i);
    forms.insert(date.form);
    const size_t length = text::characters(date.pair.source).size();
    shortest = std::min(shortest, length);
    longest = std::max(longest, length);
    doubled += date.pair.source.find("  ") != std::string::npos;
  }
  EXPECT_GE(date_forms().size(), 25u);
  EXPECT_EQ(forms.size(), date_forms().size());
  EXPECT_GE(shortest, 8u);
  EXPECT_LE(longest, 32u);
  EXPECT_GT(doubled, 50u);
}

TEST(Dates, YearStandsWhereItIsSaidTo) {
  for (uint64_t i = 0; i < 5000; ++i) {
    const WrittenDate date = write_date(6, i);
    const std::vector<std::string> points = text::characters(date.pair.source);
    ASSERT_EQ(date.places.year_end - date.places.year_begin, 4) << date.pair.source;
    std::string year;
    for (int64_t p = date.places.year_begin; p < date.places.year_end; ++p)
      year += points[static_cast<size_t>(p)];
    ASSERT_EQ(year, date.pair.target.substr(0, 4)) << date.pair.source;
  }
  EXPECT_EQ(find_year("4 août 1999").year_begin, 7);
  EXPECT_EQ(find_year("2021年5月3日").year_end, 4);
  EXPECT_EQ(find_year("20210503").year_end, 4);
  EXPECT_EQ(find_year("no year in 123").year_end, 0);
}

// ---- What holds for all of them

class Builtin : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(All, Builtin, testing::Values("dates", "phrases"));

bool same(const text::Pair& a, const text::Pair& b) {
  return a.source == b.source && a.target == b.target;
}

TEST_P(Builtin, ExampleDependsOnSeedAndPlaceAlone) {
  const BuiltinData& data = builtin_data(GetParam());
  const std::vector<text::Pair> few = data.make(50, 9, {}), many = data.make(400, 9, {});
  ASSERT_EQ(few.size(), 50u);
  ASSERT_EQ(many.size(), 400u);
  EXPECT_TRUE(std::equal(few.begin(), few.end(), many.begin(), same));
  const std::vector<text::Pair> other = data.make(50, 10, {});
  int64_t equal = 0;
  for (size_t i = 0; i < few.size(); ++i) equal += same(few[i], other[i]);
  EXPECT_LT(equal, 3);
}

TEST_P(Builtin, ExamplesDiffer) {
  std::set<std::string> sources;
  for (const text::Pair& pair : builtin_data(GetParam()).make(2000, 1, {.min_words = 10}))
    sources.insert(pair.source);
  EXPECT_GT(sources.size(), 1950u);
}

TEST(BuiltinData, UnknownNameAndBadOptionsAreNamed) {
  EXPECT_THROW(builtin_data("poems"), Error);
  EXPECT_THROW(builtin_data("dates").make(-1, 1, {}), Error);
  EXPECT_THROW(write_phrase(1, 1, {.min_words = 2, .max_words = 5}), Error);
  EXPECT_THROW(write_phrase(1, 1, {.min_words = 9, .max_words = 8}), Error);
  EXPECT_TRUE(builtin_data("phrases").make(0, 1, {}).empty());
}

// ---- Phrases

int64_t words_in(const std::string& text) { return std::count(text.begin(), text.end(), ' ') + 1; }

TEST(Phrases, LengthsAreUniformBetweenTheBounds) {
  std::map<int64_t, int64_t> counts;
  for (const text::Pair& pair : builtin_data("phrases").make(6000, 2, {3, 32}))
    ++counts[words_in(pair.source)];
  EXPECT_EQ(counts.begin()->first, 3);
  EXPECT_EQ(counts.rbegin()->first, 32);
  for (const auto& [length, count] : counts) {
    EXPECT_GT(count, 140) << length;
    EXPECT_LT(count, 260) << length;
  }
  for (const text::Pair& pair : builtin_data("phrases").make(20, 2, {120, 120}))
    EXPECT_EQ(words_in(pair.source), 120);
}

std::set<std::string> vocabulary(const std::vector<text::Pair>& pairs,
                                 std::string text::Pair::*side) {
  std::set<std::string> words;
  for (const text::Pair& pair : pairs) {
    std::string word;
    for (const char c : pair.*side + " ") {
      const bool part = std::isalpha(static_cast<unsigned char>(c)) || (c & 0x80) != 0;
      if (part) {
        word += c;
      } else if (!word.empty()) {
        words.insert(word);
        word.clear();
      }
    }
  }
  return words;
}

TEST(Phrases, VocabularyIsSmall) {
  const std::vector<text::Pair> pairs = builtin_data("phrases").make(5000, 3, {3, 50});
  const size_t english = vocabulary(pairs, &text::Pair::source).size();
  const size_t french = vocabulary(pairs, &text::Pair::target).size();
  EXPECT_GT(english, 400u);
  EXPECT_LT(english, 1000u);
  EXPECT_GT(french, 500u);
  EXPECT_LT(french, 1000u);
}

// French that is wrong whatever the words are.
TEST(Phrases, ElisionAndContractionAreNeverMissed) {
  const std::vector<text::Pair> pairs = builtin_data("phrases").make(5000, 4, {3, 50});
  for (const text::Pair& pair : pairs) {
    const std::string text = " " + pair.target;
    for (const char* wrong : {" de le ",    " de les ",   " d'les ",       "' ",         " ,",
                              "  ",         " que il",    " que elle",     " que un",    " le a",
                              " le o",      " la é",      " la a",         " ne a",      " ne é",
                              " de un",     " ce h",      " ce o",         " ma a",      " sa é",
                              " ma é",      " beau o",    " vieux homme ", " nouveau a", " l'g",
                              " un belle ", " une beau ", " des petits "})
      ASSERT_EQ(text.find(wrong), std::string::npos) << wrong << ": " << text;
  }
}

TEST(Phrases, WordsJoinBackToTheText) {
  const std::vector<text::Pair> pairs = builtin_data("phrases").make(500, 5, {3, 50});
  std::vector<std::string> lines;
  for (const text::Pair& pair : pairs) lines.insert(lines.end(), {pair.source, pair.target});
  const text::Tokenizer words = text::Tokenizer::train({.unit = text::Unit::words}, lines);
  EXPECT_LT(words.size(), 1200);
  for (const std::string& line : lines) ASSERT_EQ(words.decode(words.encode(line)), line);
}

struct Golden {
  uint64_t i;
  const char *source, *target;
};

TEST(Phrases, HandChecked) {
  const Golden kGolden[] = {
      {1, "she already sees this brave uncle.", "elle voit déjà cet oncle courageux."},
      {4, "a nurse forgets the guitar, but this sister meets these singers with the dancers.",
       "une infirmière oublie la guitare, mais cette sœur rencontre ces chanteuses avec les "
       "danseuses."},
      {15, "he never meets the bad sad aunt on Mondays.",
       "il ne rencontre jamais la mauvaise tante triste le lundi."},
      {20, "they never use the new bags on the island.",
       "ils n'utilisent jamais les nouveaux sacs sur l'île."},
      {21, "a bad actress speaks in the garden because he uses several new guitars.",
       "une mauvaise actrice parle dans le jardin parce qu'il utilise plusieurs nouvelles "
       "guitares."},
      {23, "my bee looks for these twelve new useful poems on Sundays.",
       "mon abeille cherche ces douze nouveaux poèmes utiles le dimanche."},
      {26, "some boys never build the school of their new kings before noon.",
       "des garçons ne construisent jamais l'école de leurs nouveaux rois avant midi."},
      {29, "my old mothers help the sad donkey in the village.",
       "mes vieilles mères aident l'âne triste dans le village."},
      {33, "he eats my pretty red oranges on the island in the morning.",
       "il mange mes jolies oranges rouges sur l'île le matin."},
      {39, "the bad wolves hear his happy bear while some students already smile today.",
       "les mauvais loups entendent son ours heureux pendant que des étudiants sourient déjà "
       "aujourd'hui."},
      {43, "my beautiful bakers never like the new newspaper in the mountains.",
       "mes beaux boulangers n'aiment jamais le nouveau journal à la montagne."},
      {46, "he takes your round coats because my bad clever brothers buy a tool.",
       "il prend vos manteaux ronds parce que mes mauvais frères intelligents achètent un outil."},
      {48, "the good doctors visit some shops in front of the town hall.",
       "les bons médecins visitent des magasins devant la mairie."},
      {58, "the lawyer laughs.", "l'avocat rit."},
      {135, "the new child calls some young honest queens.",
       "le nouvel enfant appelle de jeunes reines honnêtes."},
      {192, "the old uncle buys a message, then the mice watch nine strong donkeys.",
       "le vieil oncle achète un message, puis les souris regardent neuf ânes forts."},
      {353, "their bad hungry neighbours never show the egg in the morning.",
       "leurs mauvais voisins affamés ne montrent jamais l'œuf le matin."},
      {517, "six new mice find the sad article of the baker.",
       "six nouvelles souris trouvent l'article triste du boulanger."},
      {577, "the new man who laughs never likes this old bird.",
       "le nouvel homme qui rit n'aime jamais ce vieil oiseau."},
  };
  for (const Golden& golden : kGolden) {
    const text::Pair pair = write_phrase(7, golden.i, {3, 14});
    EXPECT_EQ(pair.source, golden.source);
    EXPECT_EQ(pair.target, golden.target);
  }
}

}  // namespace
}  // namespace fovea::tasks::translation
