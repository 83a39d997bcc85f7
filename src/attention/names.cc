#include <algorithm>
#include <charconv>
#include <sstream>

#include "attention/check.h"
#include "core/nearest.h"

// Mechanisms by name.
namespace fovea {
namespace {

std::string underscored(std::string name) {
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

template <class Def>
const Def& find(const char* kind, std::span<const Def* const> table, const std::string& given) {
  const std::string name = underscored(given);
  for (const Def* def : table) {
    if (def->name == name) return *def;
  }
  std::vector<std::string> names;
  for (const Def* def : table) names.push_back(def->name);
  throw Error(
      kind, "there is no " + std::string(kind) + " \"" + given + "\"" + nearest_hint(name, names));
}

bool declares(const std::vector<ParameterDef>& defs, const std::string& name) {
  return std::any_of(defs.begin(), defs.end(),
                     [&](const ParameterDef& def) { return bare_name(def) == name; });
}

std::vector<std::string> split(const std::string& text, char by) {
  std::vector<std::string> parts{""};
  for (const char c : text) {
    if (c == by)
      parts.emplace_back();
    else
      parts.back() += c;
  }
  return parts;
}

// Where what is said of a mechanism comes from: the kind, and the whole text.
struct Said {
  const char* kind;
  const std::string& text;
  [[noreturn]] void fail(const std::string& message) const {
    throw Error(kind, "\"" + text + "\" " + message);
  }
};

double parse_number(const Said& said, NumberDef def, const std::string& digits, bool all_there) {
  def.endless &= all_there;
  double x = 0;
  const char* end = digits.data() + digits.size();
  const auto [stop, error] = std::from_chars(digits.data(), end, x);
  if (error != std::errc() || stop != end || !fits(def, x))
    said.fail("has " + bare_name(def) + " \"" + digits + "\", expected " + expected_of(def));
  return x;
}

// "window:64", without what may be left out.
std::string example_of(const std::string& name, const std::vector<NumberDef>& defs) {
  std::string text = name;
  for (const NumberDef& def : defs) {
    if (is_optional(def)) break;
    std::ostringstream number;
    number << def.example;
    text += &def == defs.data() ? ':' : ',';
    text += number.str();
  }
  return text;
}

// "64,0", as declared.
std::vector<double> parse_numbers(const Said& said, const std::vector<NumberDef>& defs,
                                  const std::vector<std::string>& given) {
  std::vector<double> numbers;
  for (size_t i = 0; i < defs.size(); ++i) {
    if (i < given.size()) {
      numbers.push_back(parse_number(said, defs[i], given[i], given.size() == defs.size()));
    } else if (is_optional(defs[i])) {
      numbers.push_back(defs[i].otherwise ? *defs[i].otherwise : numbers.back());
    } else {
      said.fail("needs a number, its " + defs[i].name + ", as in \"" +
                example_of(split(said.text, ':')[0], defs) + "\"");
    }
  }
  if (given.size() > defs.size())
    said.fail("has " + std::to_string(given.size()) + " numbers, expected at most " +
              std::to_string(defs.size()));
  return numbers;
}

// A mechanism's name, what is said of its numbers, and what follows.
template <class Def>
struct Parsed {
  const Def& def;
  std::vector<double> numbers;
  std::vector<std::string> rest;
};

// "causal", "window:64", "window:64,0", "local_p:8:renormalise"
template <class Def>
Parsed<Def> parse(const char* kind, std::span<const Def* const> table, const std::string& text) {
  std::vector<std::string> parts = split(text, ':');
  const Def& def = find(kind, table, parts[0]);
  const bool said = parts.size() > 1 && !def.numbers.empty();
  const std::vector<std::string> given = said ? split(parts[1], ',') : std::vector<std::string>{};
  std::vector<double> numbers = parse_numbers({kind, text}, def.numbers, given);
  parts.erase(parts.begin(), parts.begin() + (said ? 2 : 1));
  return {def, std::move(numbers), std::move(parts)};
}

MaskTerm parse_term(const std::string& text) {
  auto [def, numbers, rest] = parse("mask", mask_table(), text);
  MaskTerm term{.def = &def, .numbers = std::move(numbers)};
  if (def.center && !rest.empty() && rest[0] == "renormalise") {
    term.renormalise = true;
    rest.erase(rest.begin());
  }
  if (!rest.empty())
    Said{"mask", text}.fail("has \":" + rest[0] + "\", which " + def.name + " does not take");
  return term;
}

template <class Def>
Listed listed(const Def& def) {
  Listed one{.name = def.name, .formula = def.formula};
  if constexpr (requires { def.hard; }) one.hard = def.hard;
  if constexpr (requires { def.numbers; })
    for (const NumberDef& x : def.numbers) one.numbers.push_back(x.name);
  for (const ParameterDef& p : def.parameters) {
    std::string text = p.name + " [";
    for (const std::string& letter : p.shape) text += (text.back() == '[' ? "" : ",") + letter;
    one.parameters.push_back(text + "]");
  }
  return one;
}

template <class Def>
std::vector<Listed> list(std::span<const Def* const> table) {
  std::vector<Listed> all;
  for (const Def* def : table) all.push_back(listed(*def));
  return all;
}

}  // namespace

Tensors only_defined(Tensors parameters) {
  std::erase_if(parameters, [](const auto& p) { return !p.second.defined(); });
  return parameters;
}

Mask operator&(Mask a, const Mask& b) {
  a.terms.insert(a.terms.end(), b.terms.begin(), b.terms.end());
  return a;
}

Score score(const std::string& name, Tensors parameters) {
  const ScoreDef& def = find("score", score_table(), name);
  for (const auto& [given, tensor] : parameters)
    if (!declares(def.parameters, given))
      throw Error("score", def.name + " takes no parameter \"" + given + "\"");
  return {.def = &def, .parameters = only_defined(std::move(parameters))};
}

// Each parameter goes to the terms that declare it.
Mask mask(const std::string& spec, Tensors parameters) {
  Mask all;
  if (!spec.empty())
    for (const std::string& text : split(spec, '+')) all.terms.push_back(parse_term(text));
  for (const auto& [name, tensor] : only_defined(std::move(parameters))) {
    bool taken = false;
    for (MaskTerm& term : all.terms) {
      if (!declares(term.def->parameters, name)) continue;
      term.parameters[name] = tensor;
      taken = true;
    }
    if (!taken) throw Error("mask", "\"" + spec + "\" takes no parameter \"" + name + "\"");
  }
  return all;
}

Weighting weighting(const std::string& spec, Tensors parameters) {
  auto [def, numbers, rest] = parse("weighting", weighting_table(), spec);
  if (!rest.empty())
    Said{"weighting", spec}.fail("has \":" + rest[0] + "\", which " + def.name + " does not take");
  for (const auto& [given, tensor] : parameters)
    if (!declares(def.parameters, given))
      throw Error("weighting", def.name + " takes no parameter \"" + given + "\"");
  return {.def = &def,
          .parameters = only_defined(std::move(parameters)),
          .numbers = std::move(numbers)};
}

std::vector<Listed> list_scores() { return list(score_table()); }
std::vector<Listed> list_masks() { return list(mask_table()); }
std::vector<Listed> list_weightings() { return list(weighting_table()); }

}  // namespace fovea
