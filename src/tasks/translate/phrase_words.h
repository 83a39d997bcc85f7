#pragma once

#include <cstdint>
#include <span>
#include <string_view>

// The dictionary of the phrases: what a word is in English and in French.
namespace fovea::tasks::words {

enum Kind : uint32_t {
  kPerson = 1,
  kAnimal = 2,
  kFood = 4,
  kObject = 8,
  kText = 16,
  kBuilding = 32,
  kVehicle = 64,
  kBeing = kPerson | kAnimal,
  kCarried = kFood | kObject | kText,
  kMade = kObject | kBuilding | kVehicle,
  kInert = kCarried | kBuilding | kVehicle,
  kAll = kBeing | kInert,
};

enum class Gender : uint8_t { masculine, feminine };

struct Noun {
  uint32_t kind;
  Gender gender;
  std::string_view en, en_plural, fr, fr_plural;
};

// The third person of the present. What English has in the plural is also its infinitive.
struct Verb {
  uint32_t subjects;
  uint32_t objects;  // 0: takes none
  std::string_view en, en_plural, fr, fr_plural;
};

enum class Stands : uint8_t { before, after };  // the French noun

struct Adjective {
  Stands stands;
  uint32_t kinds;
  std::string_view en;
  std::string_view masculine, feminine, masculines, feminines;
  std::string_view before_vowel = {};  // masculine singular, where it differs: bel, vieil
};

struct Phrase {
  std::string_view en, fr;
};

std::span<const Noun> nouns();
std::span<const Verb> verbs();
std::span<const Adjective> adjectives();
std::span<const Phrase> adverbs();  // before the English verb, after the French one
std::span<const Phrase> numbers();  // from two
std::span<const Phrase> places();
std::span<const Phrase> times();

}  // namespace fovea::tasks::words
