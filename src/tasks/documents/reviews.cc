#include "tasks/documents/reviews.h"

#include <fmt/args.h>
#include <fmt/format.h>

#include <array>
#include <string_view>

#include "tasks/draw.h"

namespace fovea::tasks::classification {
namespace {

constexpr uint64_t kDataSet = 3;

using Words = std::span<const std::string_view>;

constexpr std::string_view kPraise[] = {"wonderful", "brilliant", "touching",   "superb",
                                        "charming",  "gripping",  "funny",      "splendid",
                                        "moving",    "clever",    "delightful", "excellent"};
constexpr std::string_view kBlame[] = {"dull",     "awful",   "tedious", "clumsy",
                                       "terrible", "shallow", "boring",  "dreadful",
                                       "lazy",     "hollow",  "painful", "ridiculous"};
constexpr std::string_view kFilm[] = {"film", "movie", "picture"};
constexpr std::string_view kThing[] = {"hotel",  "weather", "popcorn", "seat",    "queue",
                                       "dinner", "trailer", "poster",  "traffic", "coffee"};
constexpr std::string_view kDegree[] = {"", "very ", "truly ", "quite ", "simply "};
constexpr std::string_view kNot[] = {"not", "never", "hardly", "anything but", "by no means"};
constexpr std::string_view kCity[] = {"Paris", "Lisbon", "Cairo", "Boston", "Kyoto", "Oslo"};
constexpr std::string_view kName[] = {"Anna Reed",  "Tom Vale", "Dr. Marsh",
                                      "Lucy Stone", "Mr. Bell", "J. Carter"};
constexpr std::string_view kJob[] = {"doctor", "pilot", "teacher", "thief", "cook", "painter"};
constexpr std::string_view kDay[] = {"Monday", "Friday", "Saturday", "Sunday"};
constexpr std::string_view kWho[] = {"my brother", "our neighbour", "an old friend", "my aunt"};

// {p} a word of praise, {b} one of blame, {n} a negation; as the sentence is positive.
constexpr std::string_view kDeciding[] = {
    "The {film} is {degree}{p}.", "This {film} was {degree}{p}!",
    "The {film} is {n} {b}.",     "I found the {film} {degree}{p}.",
    "What a {p} {film} this is!", "As a {film} it was {n} {b}, whatever they say."};
constexpr std::string_view kElsewhere[] = {
    "The {thing} was {degree}{p}.",      "The {thing} was {degree}{b}.",
    "{Who} called the {thing} {p}.",     "{Who} called the {thing} {b}.",
    "The {thing} was {n} {p}, I admit.", "The {thing} was {n} {b}, I admit."};
constexpr std::string_view kNeutral[] = {"It runs for {minutes} minutes.",
                                         "The story is set in {city} in {year}.",
                                         "{name} plays a {job} from {city}.",
                                         "We saw it on a {day} with {who}.",
                                         "{name} wrote the script with {name2}.",
                                         "There are {few} songs in it.",
                                         "It opens with a {job} on a train to {city}.",
                                         "The crew came from {city} and {city2}."};

std::string capital(std::string_view words) {
  std::string text(words);
  if (text[0] >= 'a' && text[0] <= 'z') text[0] = static_cast<char>(text[0] - 'a' + 'A');
  return text;
}

std::string filled(std::string_view form, bool praises, Draw& draw) {
  const auto pick = [&](Words from) { return std::string(draw.pick(from)); };
  fmt::dynamic_format_arg_store<fmt::format_context> with;
  const auto set = [&](const char* name, const std::string& value) {
    with.push_back(fmt::arg(name, value));
  };
  set("film", pick(kFilm));
  set("thing", pick(kThing));
  set("degree", pick(kDegree));
  set("n", pick(kNot));
  set("p", pick(praises ? Words(kPraise) : Words(kBlame)));
  set("b", pick(praises ? Words(kBlame) : Words(kPraise)));
  const std::string who = pick(kWho);
  set("who", who);
  set("Who", capital(who));
  set("city", pick(kCity));
  set("city2", pick(kCity));
  set("name", pick(kName));
  set("name2", pick(kName));
  set("job", pick(kJob));
  set("day", pick(kDay));
  set("minutes", std::to_string(draw.between(80, 180)));
  set("year", std::to_string(draw.between(1900, 2020)));
  set("few", std::to_string(draw.between(2, 9)));
  return fmt::vformat(form, with);
}

}  // namespace

Review write_review(uint64_t seed, uint64_t i) {
  Draw draw(seed, i, kDataSet);
  const bool positive = draw.chance(0.5);
  const int64_t sentences = draw.between(5, 10), deciding = draw.between(1, 2),
                elsewhere = draw.between(1, 3);
  // Which sort stands where: a shuffled list.
  std::vector<int> sorts(static_cast<size_t>(sentences), 0);
  for (int64_t s = 0; s < deciding + elsewhere; ++s) {
    sorts[static_cast<size_t>(s)] = s < deciding ? 1 : 2;
  }
  for (size_t left = sorts.size(); left > 1; --left) {
    std::swap(sorts[left - 1], sorts[static_cast<size_t>(draw.below(static_cast<int64_t>(left)))]);
  }
  Review review{.document = {.label = positive ? "positive" : "negative", .text = ""},
                .decides = {}};
  for (const int sort : sorts) {
    const Words forms = sort == 1   ? Words(kDeciding)
                        : sort == 2 ? Words(kElsewhere)
                                    : Words(kNeutral);
    std::string& text = review.document.text;
    if (!text.empty()) text += ' ';
    text += filled(draw.pick(forms), positive, draw);
    review.decides.push_back(sort == 1);
  }
  return review;
}

}  // namespace fovea::tasks::classification
