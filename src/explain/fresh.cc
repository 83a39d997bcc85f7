#include <fmt/format.h>

#include <algorithm>

#include "explain/ways.h"

namespace fovea::explain {
namespace {

constexpr double kBytes = sizeof(float);

// The rows of all ways, and of the one at work its queries, keys, values, contexts, sums and the
// MLP's insides, of which swiglu has two. Doubles, since it may be more than there can be.
double bytes_of_rows(int64_t rows, int64_t W, int64_t M) {
  return kBytes * static_cast<double>(rows) * static_cast<double>(16 * W + 4 * M);
}
int64_t capped(double bytes) { return static_cast<int64_t>(std::min(bytes, 9e18)); }

int64_t mlp_width(const FreshConfig& c) { return c.mlp_width > 0 ? c.mlp_width : 4 * c.depth; }

// norm(token + position + type). Of a vocabulary as large as BERT's hardly two tokens of a sequence
// are the same: every place has one of its own.
Tensor embedded(const FreshConfig& c) {
  nn::Weights w(c.seed);
  const Tensor tokens = w.add("tokens", {c.sequences, c.length, c.depth}, nn::Init::small);
  const Tensor positions = w.add("positions", {c.length, c.depth}, nn::Init::small);
  const Tensor type = w.add("type", {c.depth}, nn::Init::small);
  return nn::norm(w, "norm", nn::NormKind::layer, c.depth)(tokens + (positions + type));
}

}  // namespace

void check(const FreshConfig& c) {
  const auto in_range = [](const char* field, int64_t value, int64_t low, int64_t high) {
    if (value >= low && value <= high) return;
    throw Error("rank", fmt::format("{} must be in [{}, {}], found {}", field, low, high, value));
  };
  in_range("blocks", c.blocks, 1, 512);
  in_range("query depth", c.depth, 1, 65536);
  in_range("heads", c.heads, 1, 1024);
  in_range("mlp width", c.mlp_width, 0, 1 << 20);
  in_range("length", c.length, 2, 1 << 20);
  in_range("sequences", c.sequences, 1, 1 << 16);
  if (c.depth % c.heads != 0) {
    throw Error("rank",
                fmt::format("{} heads do not divide a query depth of {}", c.heads, c.depth));
  }
}

int64_t memory_of(const models::TransformerConfig& c, int64_t rows) {
  return capped(bytes_of_rows(rows, c.depth, c.mlp_width > 0 ? c.mlp_width : 4 * c.depth));
}

// A block, once more its largest matrix while it is drawn, and the rows.
int64_t memory_of(const FreshConfig& c) {
  check(c);
  const int64_t W = c.depth, M = mlp_width(c);
  const int64_t block = 4 * W * W + 2 * W * M, drawn = std::max(3 * W * W, W * M);
  return capped(kBytes * static_cast<double>(block + drawn) +
                bytes_of_rows(c.sequences * c.length, W, M));
}

std::vector<RankCurve> rank(const FreshConfig& c, const RankProgress& progress) {
  check(c);
  const NoGrad off;
  const nn::BlockConfig config = {
      .heads = {.width = c.depth, .heads = c.heads, .init = nn::Init::small},
      .mlp_width = mlp_width(c),
      .order = nn::NormOrder::post,
      .of = c.blocks};
  Ways ways(embedded(c), {}, c.blocks, progress);
  for (int64_t b = 0; b < c.blocks; ++b) {
    nn::Weights w(c.seed);  // a tensor starts from the seed and its name alone
    ways.step(nn::block(w, fmt::format("encoder.{}", b), config), {});
  }
  return ways.curves();
}

}  // namespace fovea::explain
