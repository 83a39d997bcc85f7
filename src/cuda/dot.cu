// Dot products on Hopper: which problems go this way, the memory between the kernels, launches.
#include <algorithm>

#include "cuda/attention.h"
#include "cuda/dot_backward.cuh"
#include "cuda/dot_forward.cuh"

namespace fovea::cuda {
namespace {

constexpr int width_of(const AttentionProblem& p) { return std::max(p.D, p.Dv) <= 64 ? 64 : 128; }

// Halves and what is known of rows; all of it linear in Lq + Lk.
class DotPreparation {
 public:
  DotPreparation(const AttentionProblem& p, const AttentionGradients* g) : width_(width_of(p)) {
    to.query_rows = round_up(static_cast<int>(p.Lq), kDotPadding);
    to.key_rows = round_up(static_cast<int>(p.Lk), kDotPadding);
    to.heads = static_cast<int>(p.B * p.Hk);
    const size_t queries = p.B * p.H * to.query_rows, keys = size_t(to.heads) * to.key_rows;
    const size_t sizes[4] = {queries, keys, keys, g ? queries : 0};
    for (int i = 0; i < 4; ++i) {
      halves_[i] = Scratch<uint8_t>(sizes[i] * width_ * 4);
      to.halves[i] = halves_[i].data();
    }
    const size_t of_queries = p.rows(), of_keys = size_t(to.heads) * p.Lk;
    odd_ = Scratch<uint8_t>(2 * (of_queries + of_keys));
    to.odd_rows[0] = odd_.data(), to.odd_rows[1] = to.odd_rows[0] + of_queries;
    to.odd_rows[2] = to.odd_rows[1] + of_keys, to.odd_rows[3] = to.odd_rows[2] + of_keys;
    seen_ = Scratch<int4>(queries / kDotRows);
    rows_ = Scratch<float4>(g ? queries : 0);
    const size_t known = size_t(to.heads) * (4 + 4 + 1 + 1) + 1;
    known_ = Scratch<uint32_t>(known);
    if (g) to.d_context = g->d_context, to.stat = g->stat;
    to.seen = seen_.data(), to.rows = rows_.data();
    to.norms = known_.data(), to.counts = to.norms + 4 * to.heads;
    to.d_stat = to.counts + 4 * to.heads, to.odd = to.d_stat + to.heads;
    to.ticket = to.odd + to.heads;
    check(cudaMemsetAsync(known_.data(), 0, known * sizeof(uint32_t), stream()), "clearing memory");
    run(p, g);
  }
  DotPrepared to{};

 private:
  void run(const AttentionProblem& p, const AttentionGradients* g) const {
    const auto kernel = width_ == 64 ? (g ? prepare_dot<64, true> : prepare_dot<64, false>)
                                     : (g ? prepare_dot<128, true> : prepare_dot<128, false>);
    const int query_tiles = to.query_rows / kDotRows, key_tiles = to.key_rows / kDotRows;
    const int64_t blocks =
        p.B * p.H * query_tiles * (g ? 2 : 1) + 2 * int64_t{to.heads} * key_tiles;
    const auto launch = [&](Passes passes) {
      kernel<<<static_cast<unsigned>(blocks), kDotThreads, 0, stream()>>>(
          p, g ? *g : AttentionGradients{}, to, passes);
      check_launch("attention, preparing queries, keys and values");
    };
    // Blocks that wait for one another must fit the device: two a processor always do.
    if (std::max<int64_t>(p.group() * query_tiles, key_tiles) <= 2 * limits().processors) {
      return launch(Passes::one);
    }
    launch(Passes::norms);
    launch(Passes::halves);
  }

  int width_;
  Scratch<uint8_t> halves_[4], odd_;
  Scratch<int4> seen_;
  Scratch<float4> rows_;
  Scratch<uint32_t> known_;
};

template <int kWidth>
void forward(const AttentionProblem& p, const DotPrepared& in, const AttentionResult& out) {
  constexpr int kShared = ForwardShape<kWidth>::kShared;
  allow_shared<attend_dot<kWidth>>(kShared);
  const dim3 grid(static_cast<unsigned>(p.B * p.H), parts(static_cast<int>(p.Lq), kDotQueries));
  attend_dot<kWidth><<<grid, kDotBlock, kShared, stream()>>>(p, in, out);
  check_launch("attention, dot products");
}

template <int kWidth, bool kKeysStay>
void gradients(const AttentionProblem& p, const DotPrepared& in, const AttentionGradients& g) {
  constexpr int kShared = BackwardShape<kWidth, kKeysStay>::kShared;
  allow_shared<dot_gradients<kWidth, kKeysStay>>(kShared);
  const auto rows = static_cast<int>(kKeysStay ? p.Lk : p.Lq);
  const dim3 grid(static_cast<unsigned>(p.B * (kKeysStay ? p.Hk : p.H)), parts(rows, kDotQueries));
  dot_gradients<kWidth, kKeysStay>
      <<<grid, kDotBlock, kShared, stream()>>>(p, in, {g.dq, g.dk, g.dv});
  check_launch("attention, gradients of dot products");
}

template <int kWidth>
void all_gradients(const AttentionProblem& p, const DotPrepared& in, const AttentionGradients& g) {
  if (g.dk || g.dv) gradients<kWidth, true>(p, in, g);
  if (g.dq) gradients<kWidth, false>(p, in, g);
}

}  // namespace

bool dot_suits(const AttentionProblem& p) {
#ifdef FOVEA_CUDA_HOPPER
  const bool plain = !p.allowed && !p.bias && p.softcap == 0.0f && p.dropout == 0.0f;
  return p.family == Family::dot && plain && p.D <= 128 && p.Dv <= 128 && limits().hopper;
#else
  return false;
#endif
}

void dot_forward(const AttentionProblem& p, const AttentionResult& out) {
  const DotPreparation prepared(p, nullptr);
  Scratch<float> own_stat;
  AttentionResult to = out;
  if (!to.stat) {
    own_stat = Scratch<float>(p.rows());
    to.stat = own_stat.data();
  }
  width_of(p) == 64 ? forward<64>(p, prepared.to, to) : forward<128>(p, prepared.to, to);
}

void dot_backward(const AttentionProblem& p, const AttentionGradients& g) {
  const DotPreparation prepared(p, &g);
  width_of(p) == 64 ? all_gradients<64>(p, prepared.to, g) : all_gradients<128>(p, prepared.to, g);
}

}  // namespace fovea::cuda
