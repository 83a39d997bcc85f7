#pragma once

#include <cstdint>
#include <string_view>

// Counter-based random numbers: a draw is a pure function of (seed, where), so it depends neither
// on threads nor on tiling. The SIMD kernels compute bits32() lane by lane with the same result.
namespace fovea {

// A bijective 32-bit mixer (two xor-multiply rounds).
constexpr uint32_t mix32(uint32_t x) {
  x ^= x >> 16;
  x *= 0x7feb352du;
  x ^= x >> 15;
  x *= 0x846ca68bu;
  x ^= x >> 16;
  return x;
}

constexpr uint64_t mix64(uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

// FNV-1a, 64 bits: the same on every machine. A text may continue another's hash.
inline constexpr uint64_t kEmptyHash = 0xcbf29ce484222325u;
constexpr uint64_t hash_of(std::string_view text, uint64_t before = kEmptyHash) {
  for (const char c : text) before = (before ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return before;
}

// Where in a model something is drawn, by names and indices:
//   const Seed step = Seed(seed).at("decoder").at(t);
// Each place has noise of its own, and a place that is added changes no other's.
class Seed {
 public:
  constexpr Seed() = default;
  constexpr explicit Seed(uint64_t value) : value_(value) {}
  constexpr Seed at(std::string_view name) const { return down(hash_of(name)); }
  constexpr Seed at(int64_t index) const {
    return down(mix64(static_cast<uint64_t>(index) + kEmptyHash));  // far from any small seed
  }
  constexpr uint64_t value() const { return value_; }

 private:
  constexpr Seed down(uint64_t step) const { return Seed(mix64(mix64(value_) ^ step)); }
  uint64_t value_ = 0;
};

// The key of one stream of numbers: a seed and up to three coordinates, and a purpose that keeps
// sampling, dropout and initialisation apart.
struct RandomKey {
  uint32_t a, b;
};

enum class Purpose : uint32_t {
  tensor = 1,
  gumbel = 2,
  weight_dropout = 3,
  dropout = 4,
  shuffle = 5,
  reinforce = 6,
  weights = 7,
  data = 8,
  split = 9
};

constexpr RandomKey random_key(uint64_t seed, Purpose purpose, uint64_t x = 0, uint64_t y = 0,
                               uint64_t z = 0) {
  uint64_t k = mix64(seed ^ mix64(static_cast<uint64_t>(purpose)));
  k = mix64(k ^ x);
  k = mix64(k ^ y);
  k = mix64(k ^ z);
  return {static_cast<uint32_t>(k), static_cast<uint32_t>(k >> 32)};
}

// 32 uniform bits at position i of a stream. Positions past 2³² fold their upper half in.
constexpr uint32_t bits32(RandomKey key, uint64_t i) {
  const uint32_t upper = static_cast<uint32_t>(i >> 32);
  const uint32_t b = upper == 0 ? key.b : mix32(key.b ^ upper);
  return mix32(mix32(static_cast<uint32_t>(i) ^ key.a) + b);
}

// Uniform in (0, 1), never 0 or 1; full relative precision near 0.
constexpr double unit_open(uint32_t bits) { return (static_cast<double>(bits) + 0.5) * 0x1p-32; }

}  // namespace fovea
