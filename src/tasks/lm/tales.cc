#include <fmt/format.h>

#include <array>

#include "tasks/draw.h"
#include "tasks/lm/lm.h"

// Tales of people and what they do, with questions whose answers were told before: "Ada sells hats.
// Bela mends boats in the barn. What does Bela do? Bela mends boats." Who does what is drawn anew
// for each tale, so that an answer is known by looking back alone.
namespace fovea::tasks::lm {
namespace {

constexpr uint64_t kTales = 3;

constexpr std::array<std::string_view, 16> kNames = {
    "Ada",  "Bela", "Cleo", "Dario", "Emma", "Fynn", "Gita", "Hugo",
    "Ines", "Jona", "Kofi", "Lena",  "Mila", "Nico", "Olga", "Pavel"};
constexpr std::array<std::string_view, 16> kDeeds = {
    "breaks", "buys",  "carries", "cleans", "counts", "finds", "hides",  "keeps",
    "loves",  "makes", "mends",   "needs",  "paints", "sells", "throws", "wants"};
constexpr std::array<std::string_view, 12> kThings = {"balls", "boats", "books", "cups",
                                                      "drums", "hats",  "keys",  "kites",
                                                      "lamps", "rings", "ropes", "stones"};
constexpr std::array<std::string_view, 8> kPlaces = {
    "in the garden", "at the river", "on the hill", "in the house",
    "at the gate",   "by the well",  "in the barn", "under the tree"};

struct Person {
  std::string_view name, does, what;
};

// Nobody twice, nothing twice.
template <size_t N>
std::string_view fresh(Draw& draw, const std::array<std::string_view, N>& from,
                       std::vector<std::string_view>& used) {
  while (true) {
    const std::string_view one = draw.pick(std::span<const std::string_view>(from));
    bool known = false;
    for (const std::string_view u : used) known |= u == one;
    if (known) continue;
    used.push_back(one);
    return one;
  }
}

std::string question(Draw& draw, const Person& p) {
  switch (draw.below(3)) {
    case 0:
      return fmt::format("What does {} do?", p.name);
    case 1:
      return fmt::format("Who is {}?", p.name);
    default:
      return fmt::format("And what of {}?", p.name);
  }
}

std::string tale(uint64_t seed, uint64_t i) {
  Draw draw(seed, i, kTales);
  std::vector<std::string_view> names, deeds, things;
  std::vector<Person> people(static_cast<size_t>(draw.between(2, 3)));
  std::string text;
  for (Person& p : people) {
    p = {fresh(draw, kNames, names), fresh(draw, kDeeds, deeds), fresh(draw, kThings, things)};
    text += fmt::format("{} {} {}", p.name, p.does, p.what);
    if (draw.chance(0.2)) {
      text += fmt::format(" {}", draw.pick(std::span<const std::string_view>(kPlaces)));
    }
    text += ". ";
  }
  for (size_t asked = 0; asked < 2 * people.size(); ++asked) {
    const Person& p = draw.pick(std::span<const Person>(people));
    text += fmt::format("{} {} {} {}. ", question(draw, p), p.name, p.does, p.what);
  }
  text.pop_back();
  return text;
}

}  // namespace

std::vector<std::string> tales(int64_t count, uint64_t seed) {
  std::vector<std::string> all;
  for (int64_t i = 0; i < count; ++i) all.push_back(tale(seed, static_cast<uint64_t>(i)));
  return all;
}

}  // namespace fovea::tasks::lm
