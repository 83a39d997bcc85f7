#include <fmt/format.h>

#include <array>
#include <chrono>
#include <iterator>

#include "tasks/draw.h"
#include "tasks/translate/builtin.h"

namespace fovea::tasks::translation {
namespace {

using Names12 = std::array<std::string_view, 12>;
using Names7 = std::array<std::string_view, 7>;

struct Language {
  Names12 months;  // as they stand after a day
  Names12 short_months;
  Names7 weekdays;  // from Sunday
  Names7 short_weekdays;
};

constexpr Language kEnglish{
    {"January", "February", "March", "April", "May", "June", "July", "August", "September",
     "October", "November", "December"},
    {"Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"},
    {"Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"},
    {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"}};

constexpr Language kFrench{
    {"janvier", "février", "mars", "avril", "mai", "juin", "juillet", "août", "septembre",
     "octobre", "novembre", "décembre"},
    {"janv.", "févr.", "mars", "avr.", "mai", "juin", "juil.", "août", "sept.", "oct.", "nov.",
     "déc."},
    {"dimanche", "lundi", "mardi", "mercredi", "jeudi", "vendredi", "samedi"},
    {}};

constexpr Language kGerman{
    {"Januar", "Februar", "März", "April", "Mai", "Juni", "Juli", "August", "September", "Oktober",
     "November", "Dezember"},
    {"Jan.", "Feb.", "Mrz.", "Apr.", "Mai", "Jun.", "Jul.", "Aug.", "Sept.", "Okt.", "Nov.",
     "Dez."},
    {"Sonntag", "Montag", "Dienstag", "Mittwoch", "Donnerstag", "Freitag", "Samstag"},
    {"So", "Mo", "Di", "Mi", "Do", "Fr", "Sa"}};

constexpr Language kSpanish{
    {"enero", "febrero", "marzo", "abril", "mayo", "junio", "julio", "agosto", "septiembre",
     "octubre", "noviembre", "diciembre"},
    {"ene.", "feb.", "mar.", "abr.", "may.", "jun.", "jul.", "ago.", "sept.", "oct.", "nov.",
     "dic."},
    {"domingo", "lunes", "martes", "miércoles", "jueves", "viernes", "sábado"},
    {}};

constexpr Language kItalian{
    {"gennaio", "febbraio", "marzo", "aprile", "maggio", "giugno", "luglio", "agosto", "settembre",
     "ottobre", "novembre", "dicembre"},
    {"gen", "feb", "mar", "apr", "mag", "giu", "lug", "ago", "set", "ott", "nov", "dic"},
    {"domenica", "lunedì", "martedì", "mercoledì", "giovedì", "venerdì", "sabato"},
    {}};

constexpr Language kPortuguese{{"janeiro", "fevereiro", "março", "abril", "maio", "junho", "julho",
                                "agosto", "setembro", "outubro", "novembro", "dezembro"},
                               {"jan.", "fev.", "mar.", "abr.", "maio", "jun.", "jul.", "ago.",
                                "set.", "out.", "nov.", "dez."},
                               {},
                               {}};

constexpr Language kDutch{
    {"januari", "februari", "maart", "april", "mei", "juni", "juli", "augustus", "september",
     "oktober", "november", "december"},
    {"jan.", "feb.", "mrt.", "apr.", "mei", "jun.", "jul.", "aug.", "sep.", "okt.", "nov.", "dec."},
    {"zondag", "maandag", "dinsdag", "woensdag", "donderdag", "vrijdag", "zaterdag"},
    {}};

constexpr Language kSwedish{{"januari", "februari", "mars", "april", "maj", "juni", "juli",
                             "augusti", "september", "oktober", "november", "december"},
                            {},
                            {"söndag", "måndag", "tisdag", "onsdag", "torsdag", "fredag", "lördag"},
                            {}};

constexpr Language kPolish{{"stycznia", "lutego", "marca", "kwietnia", "maja", "czerwca", "lipca",
                            "sierpnia", "września", "października", "listopada", "grudnia"},
                           {},
                           {},
                           {}};

constexpr std::array<std::string_view, 31> kOrdinals{
    "first",        "second",         "third",         "fourth",        "fifth",
    "sixth",        "seventh",        "eighth",        "ninth",         "tenth",
    "eleventh",     "twelfth",        "thirteenth",    "fourteenth",    "fifteenth",
    "sixteenth",    "seventeenth",    "eighteenth",    "nineteenth",    "twentieth",
    "twenty-first", "twenty-second",  "twenty-third",  "twenty-fourth", "twenty-fifth",
    "twenty-sixth", "twenty-seventh", "twenty-eighth", "twenty-ninth",  "thirtieth",
    "thirty-first"};

// Fields: D day, DD with two digits, Dth, first … thirty-first, 1er (French), 1º (Italian);
// M, MM, Mon, Month; Wd, Weekday; Y the year. Day and month in figures stand only in orders that
// can be read in one way: year first, or day first with dots.
struct Form {
  const Language& language;
  std::string_view pattern;
};

constexpr Form kForms[] = {
    {kEnglish, "{D} {Month} {Y}"},
    {kEnglish, "{DD} {Month} {Y}"},
    {kEnglish, "{Month} {D}, {Y}"},
    {kEnglish, "{Month} {D} {Y}"},
    {kEnglish, "{Month} {Dth}, {Y}"},
    {kEnglish, "{Dth} {Month} {Y}"},
    {kEnglish, "{Dth} of {Month} {Y}"},
    {kEnglish, "the {Dth} of {Month}, {Y}"},
    {kEnglish, "{first} {Month} {Y}"},
    {kEnglish, "{Month} {first}, {Y}"},
    {kEnglish, "{D} {Mon} {Y}"},
    {kEnglish, "{D} {Mon}. {Y}"},
    {kEnglish, "{Mon} {D}, {Y}"},
    {kEnglish, "{Mon}. {Dth}, {Y}"},
    {kEnglish, "{D}-{Mon}-{Y}"},
    {kEnglish, "{DD}/{Mon}/{Y}"},
    {kEnglish, "{Y} {Month} {D}"},
    {kEnglish, "{Y}-{Mon}-{DD}"},
    {kEnglish, "{Weekday}, {Month} {D}, {Y}"},
    {kEnglish, "{Weekday}, {D} {Month} {Y}"},
    {kEnglish, "{Wd} {D} {Month} {Y}"},
    {kEnglish, "{Wd}, {DD} {Mon} {Y}"},
    {kEnglish, "{Wd} {Mon} {D} {Y}"},
    {kEnglish, "{Y}/{MM}/{DD}"},
    {kEnglish, "{Y}/{M}/{D}"},
    {kEnglish, "{Y}.{MM}.{DD}"},
    {kEnglish, "{Y}{MM}{DD}"},
    {kEnglish, "{Y}年{M}月{D}日"},
    {kFrench, "{1er} {Month} {Y}"},
    {kFrench, "le {1er} {Month} {Y}"},
    {kFrench, "{1er} {Mon} {Y}"},
    {kFrench, "{Weekday} {1er} {Month} {Y}"},
    {kGerman, "{D}. {Month} {Y}"},
    {kGerman, "den {D}. {Month} {Y}"},
    {kGerman, "{D}. {Mon} {Y}"},
    {kGerman, "{Weekday}, {D}. {Month} {Y}"},
    {kGerman, "{Wd}, {DD}.{MM}.{Y}"},
    {kGerman, "{DD}.{MM}.{Y}"},
    {kGerman, "{D}.{M}.{Y}"},
    {kSpanish, "{D} de {Month} de {Y}"},
    {kSpanish, "{D} de {Month} del {Y}"},
    {kSpanish, "{D} {Mon} {Y}"},
    {kSpanish, "{Weekday} {D} {Month} {Y}"},
    {kItalian, "{1º} {Month} {Y}"},
    {kItalian, "{D} {Mon} {Y}"},
    {kItalian, "{Weekday} {D} {Month} {Y}"},
    {kPortuguese, "{D} de {Month} de {Y}"},
    {kPortuguese, "{D} de {Mon} de {Y}"},
    {kDutch, "{D} {Month} {Y}"},
    {kDutch, "{D} {Mon} {Y}"},
    {kDutch, "{Weekday} {D} {Month} {Y}"},
    {kSwedish, "{D} {Month} {Y}"},
    {kSwedish, "den {D} {Month} {Y}"},
    {kSwedish, "{Weekday} {D} {Month} {Y}"},
    {kPolish, "{D} {Month} {Y}"},
    {kPolish, "{D} {Month} {Y} r."},
    {kPolish, "dnia {D} {Month} {Y}"},
};

std::string ordinal(int64_t day) {
  const bool teen = day / 10 == 1;
  const int64_t last = teen ? 0 : day % 10;
  const char* ending = last == 1 ? "st" : last == 2 ? "nd" : last == 3 ? "rd" : "th";
  return std::to_string(day) + ending;
}

std::string field(std::string_view name, const Language& language, const WrittenDate& date,
                  size_t weekday) {
  const auto month = static_cast<size_t>(date.month - 1);
  if (name == "D") return std::to_string(date.day);
  if (name == "DD") return fmt::format("{:02}", date.day);
  if (name == "Dth") return ordinal(date.day);
  if (name == "first") return std::string(kOrdinals[static_cast<size_t>(date.day - 1)]);
  if (name == "1er") return date.day == 1 ? "1er" : std::to_string(date.day);
  if (name == "1º") return date.day == 1 ? "1º" : std::to_string(date.day);
  if (name == "M") return std::to_string(date.month);
  if (name == "MM") return fmt::format("{:02}", date.month);
  if (name == "Mon") return std::string(language.short_months[month]);
  if (name == "Month") return std::string(language.months[month]);
  if (name == "Wd") return std::string(language.short_weekdays[weekday]);
  if (name == "Weekday") return std::string(language.weekdays[weekday]);
  return std::to_string(date.year);
}

std::string fill(const Form& form, const WrittenDate& date, size_t weekday) {
  std::string text;
  for (size_t at = 0; at < form.pattern.size();) {
    if (form.pattern[at] != '{') {
      text += form.pattern[at++];
      continue;
    }
    const size_t end = form.pattern.find('}', at);
    text += field(form.pattern.substr(at + 1, end - at - 1), form.language, date, weekday);
    at = end + 1;
  }
  return text;
}

enum class Case : uint8_t { lower, upper };

// ASCII, Latin-1 and the Polish letters above.
std::string with_case(std::string_view from, Case to) {
  static constexpr std::pair<std::string_view, std::string_view> kPolishLetters[] = {{"ś", "Ś"},
                                                                                     {"ź", "Ź"}};
  const bool up = to == Case::upper;
  std::string text;
  for (const std::string& c : text::characters(from)) {
    std::string out = c;
    const auto last = static_cast<unsigned char>(c.back());
    if (c.size() == 1) {
      if (up && c[0] >= 'a' && c[0] <= 'z') out[0] = static_cast<char>(c[0] - 32);
      if (!up && c[0] >= 'A' && c[0] <= 'Z') out[0] = static_cast<char>(c[0] + 32);
    } else if (c.size() == 2 && c[0] == '\xc3') {
      if (up && last >= 0xa0) out[1] = static_cast<char>(last - 32);
      if (!up && last < 0xa0) out[1] = static_cast<char>(last + 32);
    } else {
      for (const auto& [small, large] : kPolishLetters)
        if (c == (up ? small : large)) out = up ? large : small;
    }
    text += out;
  }
  return text;
}

// People's typing: all small or all capital letters, a space twice.
std::string typed(std::string text, Draw& draw) {
  const int64_t how = draw.below(100);
  if (how < 12) text = with_case(text, Case::lower);
  if (how >= 88) text = with_case(text, Case::upper);
  const size_t space = text.find(' ');
  if (draw.chance(0.05) && space != std::string::npos) text.insert(space, 1, ' ');
  return text;
}

constexpr uint64_t kDates = 1;

}  // namespace

std::span<const std::string_view> date_forms() {
  static const std::vector<std::string_view> patterns = [] {
    std::vector<std::string_view> all;
    for (const Form& form : kForms) all.push_back(form.pattern);
    return all;
  }();
  return patterns;
}

DatePlaces find_year(std::string_view source) {
  const std::vector<std::string> points = text::characters(source);
  int64_t digits = 0;
  for (size_t i = 0; i < points.size(); ++i) {
    digits = points[i] >= "0" && points[i] <= "9" ? digits + 1 : 0;
    const auto end = static_cast<int64_t>(i + 1);
    if (digits == 4) return {end - 4, end};
  }
  return {};
}

WrittenDate write_date(uint64_t seed, uint64_t i) {
  using namespace std::chrono;
  constexpr sys_days kFirst{1900y / January / 1}, kLast{2099y / December / 31};
  Draw draw(seed, i, kDates);
  const sys_days at = kFirst + days(draw.between(0, (kLast - kFirst).count()));
  const year_month_day ymd(at);
  WrittenDate date;
  date.year = static_cast<int>(ymd.year());
  date.month = static_cast<unsigned>(ymd.month());
  date.day = static_cast<unsigned>(ymd.day());
  date.form = draw.below(static_cast<int64_t>(std::size(kForms)));
  const Form& form = kForms[date.form];
  date.pair.source = typed(fill(form, date, weekday(at).c_encoding()), draw);
  date.pair.target = fmt::format("{:04}-{:02}-{:02}", date.year, date.month, date.day);
  date.places = find_year(date.pair.source);
  return date;
}

}  // namespace fovea::tasks::translation
