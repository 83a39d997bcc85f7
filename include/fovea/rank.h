#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "fovea/api.h"
#include "fovea/layers.h"
#include "fovea/tensor.h"
#include "fovea/transformer.h"

// How alike the rows of a sequence become with depth. Attention alone makes each row a mean of all
// of them, layer after layer, until one row is left; skips keep them apart.
namespace fovea::explain {

// ‖X − 1·mean‖ / ‖X‖ of the rows of one sequence, mean over the rows, ‖·‖ = √(‖·‖₁‖·‖∞) by the
// operator norms: 0 where all rows are the same.
FOVEA_API double relative_residual(const Tensor& rows);  // [L,W]

// What of a block is at work beside its attention.
struct Parts {
  bool skip = true;  // around the attention; the MLP comes with its own
  bool mlp = true;
  bool norm = true;
};
FOVEA_API std::string name_of(const Parts&);  // "attention alone", "+ skip + MLP"; not the norm
// The block with these parts alone, [B,L,W]; with all of them, the block itself without noise.
FOVEA_API Tensor through(const nn::Block&, const Tensor& x, const nn::BlockPass&, const Parts&);

struct RankCurve {
  Parts parts;
  std::vector<double> residual;  // by layer, the input first: means over the sequences
};
// Called now and then with the share that is done; what it throws ends the work.
using RankProgress = std::function<void(double)>;

// Blocks, and what they read: rows [B,L,W], lengths i64 [B] or undefined.
struct BlocksAtWork {
  const models::TransformerConfig& config;
  const models::Stack& stack;
  Tensor embedded, lengths;
};
// Of every choice of parts: the four of skip and MLP with norms, then without. Each goes through
// all layers by itself, with the weights as they are.
FOVEA_API std::vector<RankCurve> rank(const BlocksAtWork&, const RankProgress& = {});
// Of the encoder or, where there is none, of the decoder; ids i64 [B,L].
FOVEA_API std::vector<RankCurve> rank(const models::Transformer&, const Tensor& ids,
                                      const Tensor& lengths = {}, const RankProgress& = {});
// Bytes that it takes beside the model, for so many rows in all, B·L.
FOVEA_API int64_t memory_of(const models::TransformerConfig&, int64_t rows);

// A fresh model, BERT-base unless said otherwise: post-norm, GELU, weights N(0, 0.02²), over rows
// norm(token + position + type). A sequence has one type, which is what its rows have in common.
struct FreshConfig {
  int64_t blocks = 12;
  int64_t depth = 768;  // W, all heads together
  int64_t heads = 12;
  int64_t mlp_width = 0;  // 0: 4·depth
  int64_t length = 128;   // L
  int64_t sequences = 8;  // B
  uint64_t seed = 1;
};
FOVEA_API void check(const FreshConfig&);         // throws, naming the field and its range
FOVEA_API int64_t memory_of(const FreshConfig&);  // bytes: its blocks are made one at a time
FOVEA_API std::vector<RankCurve> rank(const FreshConfig&, const RankProgress& = {});

}  // namespace fovea::explain
