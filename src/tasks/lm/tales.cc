#include <fmt/format.h>

#include <array>

#include "tasks/draw.h"
#include "tasks/lm/lm.h"

// Tales in which somebody has something, and a question whose answer stands a few sentences before:
// a model that looks back at the right place knows it.
namespace fovea::tasks::lm {
namespace {

constexpr uint64_t kTales = 3;

constexpr std::array<std::string_view, 16> kNames = {
    "Ada",  "Bela", "Cleo", "Dario", "Emma", "Fynn", "Gita", "Hugo",
    "Ines", "Jona", "Kofi", "Lena",  "Mila", "Nico", "Olga", "Pavel"};
constexpr std::array<std::string_view, 12> kThings = {
    "ball", "boat", "book", "cup", "drum", "hat", "key", "kite", "lamp", "ring", "rope", "stone"};
constexpr std::array<std::string_view, 8> kColours = {"black", "blue", "brown", "green",
                                                      "grey",  "red",  "white", "yellow"};
constexpr std::array<std::string_view, 8> kPlaces = {
    "in the garden", "at the river", "on the hill", "in the house",
    "at the gate",   "by the well",  "in the barn", "under the tree"};

struct Owner {
  std::string_view name, colour, thing;
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

std::string tale(uint64_t seed, uint64_t i) {
  Draw draw(seed, i, kTales);
  std::vector<std::string_view> names, things;
  std::vector<Owner> owners(static_cast<size_t>(draw.between(2, 4)));
  std::string text;
  for (Owner& o : owners) {
    o = {fresh(draw, kNames, names), draw.pick(std::span<const std::string_view>(kColours)),
         fresh(draw, kThings, things)};
    const std::string_view where = draw.pick(std::span<const std::string_view>(kPlaces));
    switch (draw.below(3)) {
      case 0:
        text += fmt::format("{} has a {} {}. ", o.name, o.colour, o.thing);
        break;
      case 1:
        text += fmt::format("{} found a {} {} {}. ", o.name, o.colour, o.thing, where);
        break;
      default:
        text += fmt::format("There is {} {} with a {} {}. ", o.name, where, o.colour, o.thing);
    }
  }
  const Owner& asked = owners[static_cast<size_t>(draw.below(static_cast<int64_t>(owners.size())))];
  switch (draw.below(3)) {
    case 0:
      return text + fmt::format("Who has the {}? {}.", asked.thing, asked.name);
    case 1:
      return text +
             fmt::format("What does {} have? A {} {}.", asked.name, asked.colour, asked.thing);
    default:
      return text + fmt::format("Which colour has the {}? {}.", asked.thing, asked.colour);
  }
}

}  // namespace

std::vector<std::string> tales(int64_t count, uint64_t seed) {
  std::vector<std::string> all;
  for (int64_t i = 0; i < count; ++i) all.push_back(tale(seed, static_cast<uint64_t>(i)));
  return all;
}

}  // namespace fovea::tasks::lm
