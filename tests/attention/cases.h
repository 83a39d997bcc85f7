#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

// The one table of attention cases: the benchmark times each row and the tests check each row,
// forward and backward, so that every benched shape is also a checked one.
namespace fovea::cases {

enum class Backward : uint8_t {
  context,   // d_context given; gradients of q, k, v and the score's parameters
  log_prob,  // hard attention: d_context, and d_log_prob through the policy
  none       // makes no sense here
};

struct AttentionCase {
  std::string_view name;
  std::string_view
      group;  // dot, causal, short, decode, additive, projected, weights, sample, score, weighting
  int64_t B, H, Hk, Lq, Lk, D, Dv;
  int64_t A = 0;  // the additive width; 0 where the score has none
  std::string_view score = "scaled_dot";
  std::string_view mask = "everything";
  std::string_view weighting = "softmax";
  bool weights = false;  // weights() is part of the result
  Backward backward = Backward::context;
};

// Self-attention of one length.
constexpr AttentionCase dot(std::string_view name, int64_t H, int64_t L, int64_t D) {
  return {.name = name, .group = "dot", .B = 1, .H = H, .Hk = H, .Lq = L, .Lk = L, .D = D, .Dv = D};
}

constexpr AttentionCase causal(std::string_view name, int64_t H, int64_t L, int64_t D) {
  AttentionCase c = dot(name, H, L, D);
  c.group = c.mask = "causal";
  return c;
}

constexpr AttentionCase brief(std::string_view name, int64_t L) {
  AttentionCase c = dot(name, 4, L, 64);
  c.group = "short";
  c.B = 64;
  return c;
}

// One new query against a cache. A generated token trains nothing: no backward.
constexpr AttentionCase decode(std::string_view name, int64_t Lk) {
  return {.name = name,
          .group = "decode",
          .B = 1,
          .H = 32,
          .Hk = 8,
          .Lq = 1,
          .Lk = Lk,
          .D = 128,
          .Dv = 128,
          .backward = Backward::none};
}

// Queries and keys of width A, as they come out of their projections.
constexpr AttentionCase additive(std::string_view name, int64_t B, int64_t Lq, int64_t Lk,
                                 int64_t A) {
  return {.name = name,
          .group = "additive",
          .B = B,
          .H = 1,
          .Hk = 1,
          .Lq = Lq,
          .Lk = Lk,
          .D = A,
          .Dv = A,
          .A = A,
          .score = "additive_keras"};
}

// The same with W_q, W_k [A,A] and b inside the call: two matrix products more for everyone.
constexpr AttentionCase projected(std::string_view name, int64_t B, int64_t Lq, int64_t Lk,
                                  int64_t A) {
  AttentionCase c = additive(name, B, Lq, Lk, A);
  c.group = "projected";
  c.score = "additive";
  return c;
}

// The weights are looked at, not trained: the backward starts from the context.
constexpr AttentionCase weights(std::string_view name, int64_t L) {
  AttentionCase c = dot(name, 8, L, 64);
  c.group = "weights";
  c.weights = true;
  return c;
}

constexpr AttentionCase sample(std::string_view name) {
  return {.name = name,
          .group = "sample",
          .B = 32,
          .H = 1,
          .Hk = 1,
          .Lq = 256,
          .Lk = 1024,
          .D = 64,
          .Dv = 64,
          .weighting = "sample",
          .backward = Backward::log_prob};
}

// A score of pairs, part by part: its memory is what the benchmark is asked for.
constexpr AttentionCase pairs(std::string_view name, int64_t H, int64_t L, int64_t D) {
  AttentionCase c = dot(name, H, L, D);
  c.group = "score";
  c.score = "mlp";
  c.A = D;
  return c;
}

inline constexpr std::array kAttentionCases{
    dot("dot/H8_L128_D64", 8, 128, 64),
    dot("dot/H8_L512_D64", 8, 512, 64),
    dot("dot/H8_L1024_D64", 8, 1024, 64),
    dot("dot/H8_L4096_D64", 8, 4096, 64),
    dot("dot/H16_L1024_D128", 16, 1024, 128),
    causal("causal/H8_L128_D64", 8, 128, 64),
    causal("causal/H8_L512_D64", 8, 512, 64),
    causal("causal/H8_L1024_D64", 8, 1024, 64),
    causal("causal/H8_L4096_D64", 8, 4096, 64),
    causal("causal/H16_L1024_D128", 16, 1024, 128),
    brief("short/B64_H4_L8", 8),
    brief("short/B64_H4_L16", 16),
    brief("short/B64_H4_L32", 32),
    brief("short/B64_H4_L64", 64),
    decode("decode/H32_Hk8_L512", 512),
    decode("decode/H32_Hk8_L4096", 4096),
    decode("decode/H32_Hk8_L32768", 32768),
    additive("additive/B16_50x50_A512", 16, 50, 50, 512),
    additive("additive/B1_512x512_A256", 1, 512, 512, 256),
    additive("additive/B128_10x128_A1024", 128, 10, 128, 1024),
    additive("additive/B1_4096x4096_A64", 1, 4096, 4096, 64),
    projected("projected/B16_50x50_A512", 16, 50, 50, 512),
    projected("projected/B1_512x512_A256", 1, 512, 512, 256),
    projected("projected/B128_10x128_A1024", 128, 10, 128, 1024),
    projected("projected/B1_4096x4096_A64", 1, 4096, 4096, 64),
    weights("weights/H8_L512_D64", 512),
    weights("weights/H8_L1024_D64", 1024),
    weights("weights/H8_L2048_D64", 2048),
    weights("weights/H8_L4096_D64", 4096),
    sample("sample/B32_256x1024_D64"),
    pairs("score/mlp_H8_L1024_D64", 8, 1024, 64),
};

inline std::span<const AttentionCase> all() { return kAttentionCases; }

inline const AttentionCase* find(std::string_view name) {
  for (const AttentionCase& c : kAttentionCases)
    if (c.name == name) return &c;
  return nullptr;
}

}  // namespace fovea::cases
