// Dot products on Hopper: which problems go this way, the memory between the kernels, launches.
#include <algorithm>

#include "cuda/attention.h"
#include "cuda/dot_backward.cuh"
#include "cuda/dot_forward.cuh"

namespace fovea::cuda {
namespace {

constexpr int width_of(const AttentionProblem& p) { return std::max(p.D, p.Dv) <= 64 ? 64 : 128; }

// Halves and what is known of rows; all of it linear in Lq + Lk.
template <class T>
class DotPreparation {
 public:
  DotPreparation(const AttentionProblem& p, const DotViews<T>& io, const AttentionGradients* g)
      : width_(width_of(p)) {
    to.query_rows = round_up(static_cast<int>(p.Lq), kDotPadding);
    to.key_rows = round_up(static_cast<int>(p.Lk), kDotPadding);
    to.heads = static_cast<int>(p.B * p.Hk);
    const size_t queries = p.B * p.H * to.query_rows, keys = size_t(to.heads) * to.key_rows;
    const size_t sizes[4] = {queries, keys, keys, g ? queries : 0};
    for (int i = 0; i < 4; ++i) {
      halves_[i] = Scratch<uint8_t>(sizes[i] * width_ * 2 * kDotHalves<T>);
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
    if (g) to.stat = g->stat;
    to.seen = seen_.data(), to.rows = rows_.data();
    to.norms = known_.data(), to.counts = to.norms + 4 * to.heads;
    to.d_stat = to.counts + 4 * to.heads, to.odd = to.d_stat + to.heads;
    to.ticket = to.odd + to.heads;
    check(cudaMemsetAsync(known_.data(), 0, known * sizeof(uint32_t), stream()), "clearing memory");
    run(p, io, g);
  }
  DotPrepared to{};

 private:
  void run(const AttentionProblem& p, const DotViews<T>& io, const AttentionGradients* g) const {
    const auto kernel = width_ == 64 ? (g ? prepare_dot<T, 64, true> : prepare_dot<T, 64, false>)
                                     : (g ? prepare_dot<T, 128, true> : prepare_dot<T, 128, false>);
    const int query_tiles = to.query_rows / kDotRows, key_tiles = to.key_rows / kDotRows;
    const int64_t blocks =
        p.B * p.H * query_tiles * (g ? 2 : 1) + 2 * int64_t{to.heads} * key_tiles;
    const auto launch = [&](Passes passes) {
      kernel<<<static_cast<unsigned>(blocks), kDotThreads, 0, stream()>>>(
          p, g ? *g : AttentionGradients{}, io, to, passes);
      check_launch("attention, preparing queries, keys and values");
    };
    // Blocks that wait for one another must fit the device: two a processor always do. Those of
    // bf16 do not wait.
    if (kDotHalves<T> == 1 ||
        std::max<int64_t>(p.group() * query_tiles, key_tiles) <= 2 * limits().processors) {
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

template <int kWidth, class T>
void forward(const AttentionProblem& p, const DotViews<T>& io, const DotPrepared& in, float* stat) {
  constexpr int kShared = ForwardShape<T, kWidth>::kShared;
  allow_shared<attend_dot<T, kWidth>>(kShared);
  const dim3 grid(static_cast<unsigned>(p.B * p.H), parts(static_cast<int>(p.Lq), kDotQueries));
  attend_dot<T, kWidth><<<grid, kDotBlock, kShared, stream()>>>(p, io, in, stat);
  check_launch("attention, dot products");
}

template <int kWidth, bool kKeysStay, class T>
void gradients(const AttentionProblem& p, const DotViews<T>& io, const DotPrepared& in) {
  constexpr int kShared = BackwardShape<T, kWidth, kKeysStay>::kShared;
  allow_shared<dot_gradients<T, kWidth, kKeysStay>>(kShared);
  const auto rows = static_cast<int>(kKeysStay ? p.Lk : p.Lq);
  const dim3 grid(static_cast<unsigned>(p.B * (kKeysStay ? p.Hk : p.H)), parts(rows, kDotQueries));
  dot_gradients<T, kWidth, kKeysStay><<<grid, kDotBlock, kShared, stream()>>>(p, io, in);
  check_launch("attention, gradients of dot products");
}

template <int kWidth, class T>
void all_gradients(const AttentionProblem& p, const DotViews<T>& io, const DotPrepared& in) {
  if (io.dk || io.dv) gradients<kWidth, true>(p, io, in);
  if (io.dq) gradients<kWidth, false>(p, io, in);
}

template <class T>
View<const bf16> halves_of(const View<T>& v) {
  return {reinterpret_cast<const bf16*>(v.data), v.b, v.h, v.r, v.c};
}
View<bf16> halves_of(const View<uint16_t>& v) {
  return {reinterpret_cast<bf16*>(v.data), v.b, v.h, v.r, v.c};
}

template <class T>
void run_forward(const AttentionProblem& p, const DotViews<T>& io, float* stat) {
  const DotPreparation<T> prepared(p, io, nullptr);
  Scratch<float> own_stat;
  if (stat == nullptr) {
    own_stat = Scratch<float>(p.rows());
    stat = own_stat.data();
  }
  width_of(p) == 64 ? forward<64>(p, io, prepared.to, stat)
                    : forward<128>(p, io, prepared.to, stat);
}

template <class T>
void run_backward(const AttentionProblem& p, const DotViews<T>& io, const AttentionGradients& g) {
  const DotPreparation<T> prepared(p, io, &g);
  width_of(p) == 64 ? all_gradients<64>(p, io, prepared.to)
                    : all_gradients<128>(p, io, prepared.to);
}

}  // namespace

bool dot_suits(const AttentionProblem& p) {
#ifdef FOVEA_CUDA_HOPPER
  const bool plain =
      !p.allowed && !p.bias && p.n_conditions == 0 && p.softcap == 0.0f && p.dropout == 0.0f;
  return p.family == Family::dot && plain && p.D <= 128 && p.Dv <= 128 && limits().hopper;
#else
  return false;
#endif
}

bool dot_suits_bf16(const AttentionProblem& p) {
  const auto is_bf16 = [](const kernels::HalfView& v) {
    return v && v.type == kernels::Number::bf16;
  };
  return is_bf16(p.q16) && is_bf16(p.k16) && is_bf16(p.v16) && dot_suits(p);
}

void dot_forward(const AttentionProblem& p, const AttentionResult& out) {
  if (p.q16) {
    return run_forward<bf16>(p,
                             {.q = halves_of(p.q16),
                              .k = halves_of(p.k16),
                              .v = halves_of(p.v16),
                              .out = halves_of(out.context16)},
                             out.stat);
  }
  run_forward<float>(p, {.q = p.q, .k = p.k, .v = p.v, .out = out.context}, out.stat);
}

void dot_backward(const AttentionProblem& p, const AttentionGradients& g) {
  if (p.q16) {
    return run_backward<bf16>(p,
                              {.q = halves_of(p.q16),
                               .k = halves_of(p.k16),
                               .v = halves_of(p.v16),
                               .context = halves_of(g.context16),
                               .d_context = halves_of(g.d_context16),
                               .dq = halves_of(g.dq16),
                               .dk = halves_of(g.dk16),
                               .dv = halves_of(g.dv16)},
                              g);
  }
  run_backward<float>(p,
                      {.q = p.q,
                       .k = p.k,
                       .v = p.v,
                       .context = g.context,
                       .d_context = g.d_context,
                       .dq = g.dq,
                       .dk = g.dk,
                       .dv = g.dv},
                      g);
}

}  // namespace fovea::cuda
