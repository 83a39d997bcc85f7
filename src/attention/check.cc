#include "attention/check.h"

#include <algorithm>
#include <cmath>
#include <sstream>

#include "tensor/impl.h"

namespace fovea {
namespace {

template <class Def>
const Def& usual(std::span<const Def* const> table) {
  for (const Def* def : table)
    if (def->by_default) return *def;
  throw Error("attend", "nothing is chosen, and no mechanism is the usual one");
}

bool has_mark(const std::string& s) { return !s.empty() && s.back() == '?'; }
std::string without_mark(const std::string& s) {
  return has_mark(s) ? s.substr(0, s.size() - 1) : s;
}

std::string shortest(double x) {
  std::ostringstream text;
  text << x;
  return text.str();
}

std::string in_letters(const ParameterDef& p) {
  std::string s = "[";
  for (const std::string& letter : p.shape) s += (s.size() > 1 ? "," : "") + letter;
  return s + "]";
}

// Letters and what they stand for: sizes from the start, A and A2 from their first use.
class Letters {
 public:
  explicit Letters(const Sizes& n)
      : size_{{"B", n.B},   {"H", n.H},   {"Lq", n.Lq},          {"Lk", n.Lk},
              {"Dq", n.Dq}, {"Dk", n.Dk}, {"Dq+Dk", n.Dq + n.Dk}} {}

  bool fit(const ParameterDef& p, const Shape& shape) {
    const size_t absent = p.shape.size() - shape.size();
    if (shape.size() > p.shape.size()) return false;
    for (size_t d = 0; d < p.shape.size(); ++d) {
      if (d < absent ? !has_mark(p.shape[d]) : !fit(p.shape[d], shape[d - absent])) return false;
    }
    return true;
  }

 private:
  bool fit(const std::string& letter, int64_t size) {
    if (has_mark(letter) && size == 1) return true;
    if (letter == "Lmax") return size >= size_.at("Lk");
    return size_.try_emplace(without_mark(letter), size).first->second == size;
  }
  std::map<std::string, int64_t> size_;
};

struct Checker {
  const char* call;
  const Sizes& n;

  [[noreturn]] void fail(const std::string& message) const { throw Error(call, message); }

  void parameters(const std::string& owner, const std::vector<ParameterDef>& defs,
                  const Tensors& given) const {
    if (given.empty()) {  // most calls: nothing to compare, no letters
      for (const ParameterDef& def : defs) require_optional(owner, def);
      return;
    }
    Letters letters(n);
    size_t known = 0;
    for (const ParameterDef& def : defs) {
      const std::string what = owner + "'s " + bare_name(def);
      const auto found = given.find(bare_name(def));
      if (found == given.end()) {
        require_optional(owner, def);
        continue;
      }
      ++known;
      const Tensor& t = found->second;
      if (!t) fail(what + " is undefined");
      if (t.dtype() != def.dtype && !(def.or_f32 && t.dtype() == DType::f32))
        fail(what + " is " + name_of(t.dtype()) + ", expected " + name_of(def.dtype));
      if (!letters.fit(def, t.shape()))
        fail(what + " is " + to_string(t.shape()) + ", expected " + in_letters(def) + " with " +
             sizes());
    }
    if (known != given.size()) unknown(owner, defs, given);
  }

  void bias(const Bias& bias) const {
    if (!bias.table || bias.table.dtype() != DType::f32) fail("the bias is no f32 tensor");
    const int64_t distances = std::max<int64_t>(n.Lq + n.Lk - 1, 0);
    const ParameterDef def = bias.relative ? ParameterDef{"bias", {"B?", "H?", "Lq+Lk-1"}}
                                           : ParameterDef{"bias", {"B?", "H?", "Lq?", "Lk?"}};
    const Shape& shape = bias.table.shape();
    const bool fits =
        bias.relative ? !shape.empty() && shape.back() == distances &&
                            Letters(n).fit({"bias", {"B?", "H?"}}, {shape.begin(), shape.end() - 1})
                      : Letters(n).fit(def, shape);
    if (!fits)
      fail("the bias is " + to_string(shape) + ", expected " + in_letters(def) + " with " +
           sizes());
  }

  void numbers(const std::string& owner, const std::vector<NumberDef>& defs,
               const std::vector<double>& given) const {
    if (given.size() != defs.size())
      fail(owner + " has " + std::to_string(given.size()) + " numbers, expected " +
           std::to_string(defs.size()));
    for (size_t i = 0; i < defs.size(); ++i)
      if (!fits(defs[i], given[i]))
        fail(owner + " has " + bare_name(defs[i]) + " " + shortest(given[i]) + ", expected " +
             expected_of(defs[i]));
  }

  std::string sizes() const {
    const auto s = [](int64_t x) { return std::to_string(x); };
    return "B=" + s(n.B) + " H=" + s(n.H) + " Lq=" + s(n.Lq) + " Lk=" + s(n.Lk) + " Dq=" + s(n.Dq) +
           " Dk=" + s(n.Dk);
  }

 private:
  void require_optional(const std::string& owner, const ParameterDef& def) const {
    if (is_optional(def)) return;
    fail(owner + "'s " + bare_name(def) + " " + in_letters(def) + " is missing");
  }

  [[noreturn]] void unknown(const std::string& owner, const std::vector<ParameterDef>& defs,
                            const Tensors& given) const {
    for (const auto& [name, tensor] : given) {
      bool declared = false;
      for (const ParameterDef& def : defs) declared |= bare_name(def) == name;
      if (!declared) fail(owner + " takes no parameter " + name);
    }
    fail(owner + " was given a parameter twice");
  }
};

}  // namespace

std::string bare_name(const ParameterDef& p) { return without_mark(p.name); }
std::string bare_name(const NumberDef& x) { return without_mark(x.name); }
bool is_optional(const ParameterDef& p) { return has_mark(p.name); }
bool is_optional(const NumberDef& x) { return has_mark(x.name); }

std::string expected_of(const NumberDef& x) {
  return (x.whole ? "a whole number of at least " : "a number of at least ") + shortest(x.least) +
         (x.endless ? ", or inf" : "");
}

// Whole ones are exact up to 2⁵³.
bool fits(const NumberDef& def, double x) {
  if (std::isinf(x)) return def.endless && x > 0;
  return x >= def.least && (!def.whole || (x == std::floor(x) && x <= 0x1p53));
}

const ScoreDef& def_of(const Score& s) {
  static const ScoreDef& unsaid = usual(score_table());
  return s.def ? *s.def : unsaid;
}
const WeightingDef& def_of(const Weighting& w) {
  static const WeightingDef& unsaid = usual(weighting_table());
  return w.def ? *w.def : unsaid;
}

Tensor with_rank_4(Tensor t) {
  if (t.rank() == 2) t = t.unsqueeze(0);
  return t.rank() == 3 ? t.unsqueeze(1) : t;
}

void check_inputs(const Tensor& q, const Tensor& k, const Tensor& v) {
  const auto check = [&](const std::string& what, const Tensor& t) {
    const auto fail = [&](const std::string& why) { throw Error("attend", what + why); };
    if (!t) fail(" is undefined");
    if (t.dtype() != DType::f32 && t.dtype() != DType::bf16 && t.dtype() != DType::f16) {
      fail(std::string(" is ") + name_of(t.dtype()) + ", expected f32, bf16 or f16");
    }
    if (t.rank() < 2 || t.rank() > 4)
      fail(" is " + to_string(t.shape()) + ", expected rank 2 to 4");
    if (t.rank() != q.rank()) {
      fail(" has rank " + std::to_string(t.rank()) + ", q has rank " + std::to_string(q.rank()));
    }
  };
  check("q", q);
  check("k", k);
  check("v", v);
  expect_together("attend", {&q, &k, &v});
}

Sizes sizes_of(const Tensor& q, const Tensor& k, const Tensor& v) {
  const auto fail = [](const std::string& message) { throw Error("attend", message); };
  const auto differ = [&](const char* a, const char* b, const char* letter, int64_t x, int64_t y) {
    if (x == y) return;
    fail(std::string(a) + " has " + letter + "=" + std::to_string(x) + ", " + b + " has " + letter +
         "=" + std::to_string(y));
  };
  differ("k", "q", "B", k.size(0), q.size(0));
  differ("v", "k", "B", v.size(0), k.size(0));
  differ("v", "k", "Hk", v.size(1), k.size(1));
  differ("v", "k", "Lk", v.size(2), k.size(2));
  const int64_t H = q.size(1), Hk = k.size(1);
  if (H != Hk && (Hk == 0 || H % Hk != 0)) {
    fail("k has Hk=" + std::to_string(Hk) + ", which does not divide q's H=" + std::to_string(H));
  }
  if (k.size(2) >= int64_t{1} << 31)
    fail("k has Lk=" + std::to_string(k.size(2)) + ", expected below 2^31");
  return {.B = q.size(0),
          .H = H,
          .Hk = Hk,
          .Lq = q.size(2),
          .Lk = k.size(2),
          .Dq = q.size(3),
          .Dk = k.size(3),
          .Dv = v.size(3)};
}

Tensor sink_of(const Weighting& w) {
  const WeightingDef& def = def_of(w);
  return def.sink ? def.sink(w.parameters) : Tensor();
}

float scale_of(const Score& s, const Sizes& n) {
  if (s.scale) return *s.scale;
  const ScoreDef& def = def_of(s);
  return def.default_scale ? def.default_scale(n) : 1.0f;
}

MaskContext mask_context(const Mask& mask, const Sizes& n) {
  MaskContext c{.n = n};
  for (const MaskTerm& term : mask.terms) {
    if (!term.def) continue;
    c.at_end |= term.def->aligns_at_end;
    if (term.def->lengths && !c.lengths) c.lengths = term.def->lengths(term);
  }
  return c;
}

bool is_range(const MaskTerm& term, const MaskContext& c) {
  return term.def->range && (!term.def->is_range || term.def->is_range(term, c));
}

std::string chooses_none(const std::string& weighting) {
  std::vector<std::string> hard;
  for (const WeightingDef* def : weighting_table())
    if (def->hard) hard.push_back(def->name);
  std::string names;
  for (size_t i = 0; i < hard.size(); ++i)
    names += (i == 0 ? "" : i + 1 == hard.size() ? " and " : ", ") + hard[i];
  return weighting + " chooses no key; " + names + (hard.size() == 1 ? " does" : " do");
}

void check_attention(const char* call, const Attention& attention, const Sizes& n) {
  const Checker check{call, n};
  const ScoreDef& score = def_of(attention.score);
  if (score.equal_widths && n.Dq != n.Dk)
    check.fail("k has D=" + std::to_string(n.Dk) + ", q has D=" + std::to_string(n.Dq) + " (" +
               score.name + " wants them equal)");
  check.parameters(score.name, score.parameters, attention.score.parameters);
  const float cap = attention.score.softcap.value_or(1.0f);
  if (!(cap > 0) || std::isinf(cap))
    check.fail("softcap is " + std::to_string(cap) + ", expected above 0 and finite");
  if (attention.score.bias) check.bias(*attention.score.bias);

  for (const MaskTerm& term : attention.mask.terms) {
    if (!term.def) check.fail("a mask term has no definition");
    check.parameters(term.def->name, term.def->parameters, term.parameters);
    check.numbers(term.def->name, term.def->numbers, term.numbers);
  }

  const Weighting& w = attention.weighting;
  check.parameters(def_of(w).name, def_of(w).parameters, w.parameters);
  check.numbers(def_of(w).name, def_of(w).numbers, w.numbers);
  if (!(w.temperature > 0) || std::isinf(w.temperature))
    check.fail("temperature is " + std::to_string(w.temperature) + ", expected above 0 and finite");
  if (!(w.dropout >= 0 && w.dropout < 1))
    check.fail("dropout is " + std::to_string(w.dropout) + ", expected from 0 to below 1");
}

}  // namespace fovea
