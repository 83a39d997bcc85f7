#include <algorithm>
#include <charconv>

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

Tensors only_defined(Tensors parameters) {
  std::erase_if(parameters, [](const auto& p) { return !p.second.defined(); });
  return parameters;
}

int64_t parse_width(const std::string& term, const std::string& digits, bool may_be_inf) {
  if (may_be_inf && digits == "inf") return masks::kUnbounded;
  int64_t width = 0;
  const char* end = digits.data() + digits.size();
  const auto [stop, error] = std::from_chars(digits.data(), end, width);
  if (error != std::errc() || stop != end || width < 0)
    throw Error("mask", "\"" + term + "\" has width \"" + digits + "\", expected a whole number" +
                            (may_be_inf ? " or inf" : ""));
  return width;
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

// "64"; where the mask has sides, "64,0" too.
void parse_widths(const std::string& text, const std::string& widths, MaskTerm& term) {
  const size_t comma = term.def->takes_sides ? widths.find(',') : std::string::npos;
  const bool sides = comma != std::string::npos;
  term.width = parse_width(text, widths.substr(0, comma), sides);
  if (sides) term.right = parse_width(text, widths.substr(comma + 1), sides);
}

// "causal", "window:64", "window:64,0", "local_p:8", "local_p:8:renormalise"
MaskTerm parse_term(const std::string& text) {
  const std::vector<std::string> parts = split(text, ':');
  MaskTerm term{.def = &find("mask", mask_table(), parts[0])};
  size_t used = 1;
  if (term.def->takes_width) {
    if (parts.size() < 2)
      throw Error("mask", "\"" + text + "\" needs a width, as in \"" + term.def->name + ":64\"");
    parse_widths(text, parts[used++], term);
  }
  if (term.def->center && parts.size() > used && parts[used] == "renormalise") {
    term.renormalise = true;
    ++used;
  }
  if (used != parts.size())
    throw Error("mask", "\"" + text + "\" has \":" + parts[used] + "\", which " + term.def->name +
                            " does not take");
  return term;
}

Mask single(const char* name, Tensors parameters = {}, int64_t width = 0,
            bool renormalise = false) {
  return {{{.def = &find("mask", mask_table(), name),
            .parameters = only_defined(std::move(parameters)),
            .width = width,
            .renormalise = renormalise}}};
}

template <class Def>
Listed listed(const Def& def) {
  Listed one{.name = def.name, .formula = def.formula};
  if constexpr (requires { def.hard; }) one.hard = def.hard;
  if constexpr (requires { def.parameters; })
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

Weighting weighting(const std::string& name, Tensors parameters) {
  const WeightingDef& def = find("weighting", weighting_table(), name);
  for (const auto& [given, tensor] : parameters)
    if (!declares(def.parameters, given))
      throw Error("weighting", def.name + " takes no parameter \"" + given + "\"");
  return {.def = &def, .parameters = only_defined(std::move(parameters))};
}

namespace scores {
Score dot() { return score("dot"); }
Score scaled_dot() { return score("scaled_dot"); }
Score multiplicative(Tensor w) { return score("multiplicative", {{"w", w}}); }
Score additive(Tensor w_q, Tensor w_k, Tensor u, Tensor b) {
  return score("additive", {{"w_q", w_q}, {"w_k", w_k}, {"u", u}, {"b", b}});
}
Score additive_keras(Tensor u) { return score("additive_keras", {{"u", u}}); }
Score tanh_unit(Tensor w_y, Tensor w_c) { return score("tanh_unit", {{"w_y", w_y}, {"w_c", w_c}}); }
Score mlp(Tensor w_1, Tensor b_1, Tensor w_2, Tensor b_2, Tensor u) {
  return score("mlp", {{"w_1", w_1}, {"b_1", b_1}, {"w_2", w_2}, {"b_2", b_2}, {"u", u}});
}
Score cosine(Tensor beta) { return score("cosine", {{"beta", beta}}); }
Score location(Tensor w_loc) { return score("location", {{"w_loc", w_loc}}); }
Score elu_dot() { return score("elu_dot"); }
}  // namespace scores

namespace masks {
Mask everything() { return {}; }
Mask causal() { return single("causal"); }
Mask window(int64_t w) { return single("window", {}, w); }
Mask window(int64_t left, int64_t right) {
  Mask m = window(left);
  m.terms[0].right = right;
  return m;
}
Mask local_p(int64_t w, Tensor w_p, Tensor u_p, bool renormalise) {
  return single("local_p", {{"w_p", w_p}, {"u_p", u_p}}, w, renormalise);
}
Mask lengths(Tensor lengths) { return single("lengths", {{"lengths", lengths}}); }
Mask segments(Tensor q_segments, Tensor k_segments) {
  return single("segments", {{"q_segments", q_segments}, {"k_segments", k_segments}});
}
Mask matrix(Tensor allowed) { return single("matrix", {{"mask", allowed}}); }
}  // namespace masks

namespace weightings {
Weighting softmax(float temperature, Tensor sink) {
  Weighting w = weighting("softmax", {{"sink", sink}});
  w.temperature = temperature;
  return w;
}
Weighting sample(uint64_t seed) {
  Weighting w = weighting("sample");
  w.seed = seed;
  return w;
}
Weighting argmax() { return weighting("argmax"); }
Weighting gumbel(uint64_t seed, float temperature) {
  Weighting w = weighting("gumbel");
  w.temperature = temperature;
  w.seed = seed;
  return w;
}
Weighting sparsemax() { return weighting("sparsemax"); }
Weighting entmax15() { return weighting("entmax15"); }
Weighting sigmoid() { return weighting("sigmoid"); }
Weighting none() { return weighting("none"); }
}  // namespace weightings

std::vector<Listed> list_scores() { return list(score_table()); }
std::vector<Listed> list_masks() { return list(mask_table()); }
std::vector<Listed> list_weightings() { return list(weighting_table()); }

}  // namespace fovea
