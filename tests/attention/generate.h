#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "attention/check.h"
#include "attention/def.h"
#include "core/random.h"

// Random inputs for any mechanism, from what its file says about its parameters.
namespace fovea::generate {

// Sizes for the letters that are free.
struct Free {
  int64_t A = 5;
  int64_t A2 = 4;
  int64_t width = 2;  // of windows, and whatever else is a whole number of a mechanism's own
};

inline Tensor normal(const Shape& shape, uint64_t seed, float scale = 1.0f) {
  Tensor t = Tensor::randn(shape, seed);
  t.mul_(scale);
  return t;
}

inline std::vector<double> normals(int64_t n, uint64_t seed) {
  const std::vector<float> x = Tensor::randn({n}, seed).to_vector();
  return {x.begin(), x.end()};
}

inline Shape shape_of(const ParameterDef& p, const Sizes& n, const Free& free) {
  Shape shape;
  for (const std::string& letter : p.shape) {
    const bool alone = p.shape.size() == 1;
    if (letter == "A")
      shape.push_back(free.A);
    else if (letter == "A2")
      shape.push_back(free.A2);
    else if (letter == "B")
      shape.push_back(n.B);
    else if (letter == "H")
      shape.push_back(n.H);
    else if (letter == "B?")
      shape.push_back(alone ? n.B : 1);
    else if (letter == "H?")
      shape.push_back(alone ? n.H : 1);
    else if (letter == "Lq" || letter == "Lq?")
      shape.push_back(n.Lq);
    else if (letter == "Lk" || letter == "Lk?")
      shape.push_back(n.Lk);
    else if (letter == "Lmax")
      shape.push_back(n.Lk + 3);
    else if (letter == "Dq")
      shape.push_back(n.Dq);
    else if (letter == "Dk")
      shape.push_back(n.Dk);
    else if (letter == "Dq+Dk")
      shape.push_back(n.Dq + n.Dk);
    else
      throw Error("generate", "no size for the letter " + letter);
  }
  return shape;
}

// f32: normal, by 1/√columns for matrices. i64 [B]: lengths 0 … Lk. i64 [B,L]: three packed
// segments. bool: seven in ten allowed.
inline Tensor parameter(const ParameterDef& p, const Sizes& n, const Free& free, uint64_t seed) {
  const Shape shape = shape_of(p, n, free);
  if (p.dtype == DType::f32) {
    const bool matrix = shape.size() > 1 && shape.back() > 0;
    return normal(shape, seed, matrix ? 1.0f / std::sqrt(static_cast<float>(shape.back())) : 1.0f);
  }
  int64_t numel = 1;
  for (const int64_t d : shape) numel *= d;
  const RandomKey key = random_key(seed, Purpose::tensor);
  if (p.dtype == DType::boolean) {
    std::vector<uint8_t> allowed(numel);
    for (int64_t i = 0; i < numel; ++i) allowed[i] = bits32(key, i) % 10 < 7;
    return Tensor::from_bools(allowed, shape);
  }
  std::vector<int64_t> ids(numel);
  for (int64_t i = 0; i < numel; ++i)
    ids[i] = shape.size() == 1 ? bits32(key, i) % (n.Lk + 1) : i % shape[1] * 3 / shape[1];
  return Tensor::from_ids(ids, shape);
}

inline Tensors parameters(const std::vector<ParameterDef>& defs, const Sizes& n, uint64_t seed,
                          const Free& free = {}) {
  Tensors all;
  for (const ParameterDef& def : defs) all[bare_name(def)] = parameter(def, n, free, ++seed * 7919);
  return all;
}

inline Score score(const ScoreDef& def, const Sizes& n, uint64_t seed, const Free& free = {}) {
  return {.def = &def, .parameters = parameters(def.parameters, n, seed, free)};
}

// What a mechanism declares of numbers; null: the usual one, which has none.
template <class Def>
std::vector<double> numbers(const Def* def, const Free& free = {}) {
  std::vector<double> all;
  if (!def) return all;
  for (const NumberDef& x : def->numbers)
    all.push_back(x.whole ? std::max(x.least, static_cast<double>(free.width)) : x.example);
  return all;
}

inline MaskTerm term(const MaskDef& def, const Sizes& n, uint64_t seed, const Free& free = {}) {
  return {.def = &def,
          .parameters = parameters(def.parameters, n, seed, free),
          .numbers = numbers(&def, free)};
}

inline Mask mask(const MaskDef& def, const Sizes& n, uint64_t seed, const Free& free = {}) {
  return {{term(def, n, seed, free)}};
}

struct Qkv {
  Tensor q, k, v;
};

inline Qkv qkv(const Sizes& n, uint64_t seed, float scale = 1.0f) {
  return {.q = normal({n.B, n.H, n.Lq, n.Dq}, seed * 3 + 1, scale),
          .k = normal({n.B, n.Hk, n.Lk, n.Dk}, seed * 3 + 2, scale),
          .v = normal({n.B, n.Hk, n.Lk, n.Dv}, seed * 3 + 3)};
}

// A batch of two, keys as wide as queries.
struct Heads {
  int64_t H, Hk, Lq, Lk, D, Dv;
};
constexpr Sizes sizes(const Heads& s) {
  return {.B = 2, .H = s.H, .Hk = s.Hk, .Lq = s.Lq, .Lk = s.Lk, .Dq = s.D, .Dk = s.D, .Dv = s.Dv};
}

// What a test of one mechanism is called.
inline constexpr auto kByName = [](const auto& test) { return test.param->name; };

}  // namespace fovea::generate
