#include <vector>

#include "cuda/loops.cuh"
#include "cuda/table.h"

// Passes over the weights of a model, all tensors in one launch: a block has a piece of a tensor,
// which a list says.
namespace fovea::cuda {
namespace {

constexpr int64_t kPiece = 1 << 14;

// Where the pieces of a list of tensors begin, in the device's memory.
template <class T>
struct Pieces {
  struct Piece {
    T tensor;
    int64_t begin;
  };
  Scratch<Piece> list;
  int64_t count = 0;

  explicit Pieces(std::span<const T> tensors) {
    std::vector<Piece> all;
    for (const T& x : tensors) {
      for (int64_t at = 0; at < x.n; at += kPiece) all.push_back({x, at});
    }
    count = static_cast<int64_t>(all.size());
    list = Scratch<Piece>(all.size());
    if (count > 0) upload(list.data(), all.data(), all.size() * sizeof(Piece));
  }
};

// f(tensor, i) for every number of the pieces.
template <class T, class F>
__device__ __forceinline__ void each_number(const typename Pieces<T>::Piece* pieces, const F& f) {
  const auto& piece = pieces[blockIdx.x];
  const int64_t end = min(piece.tensor.n, piece.begin + kPiece);
  for (int64_t i = piece.begin + threadIdx.x; i < end; i += kThreads) f(piece.tensor, i);
}

__global__ __launch_bounds__(kThreads) void adam_step(const Pieces<Learned>::Piece* pieces,
                                                      AdamUpdate by) {
  const float gain1 = 1.0f - by.beta1, gain2 = 1.0f - by.beta2;
  each_number<Learned>(pieces, [&](const Learned& x, int64_t i) {
    const float w = x.weight[i], g = fmaf(w, by.decay, x.gradient[i] * by.scale);
    const float m = fmaf(gain1, g - x.first[i], x.first[i]);
    const float v = fmaf(gain2, g * g, by.beta2 * x.second[i]);
    x.weight[i] = fmaf(-by.rate, m / fmaf(sqrtf(v), by.root, by.epsilon), w * by.keep);
    x.first[i] = m;
    x.second[i] = v;
  });
}

__global__ __launch_bounds__(kThreads) void momentum_step(const Pieces<Learned>::Piece* pieces,
                                                          MomentumUpdate by) {
  each_number<Learned>(pieces, [&](const Learned& x, int64_t i) {
    const float w = x.weight[i], g = fmaf(w, by.decay, x.gradient[i] * by.scale);
    const float m = fmaf(by.momentum, x.first[i], g);
    x.weight[i] = fmaf(-by.rate, m, w);
    x.first[i] = m;
  });
}

__global__ __launch_bounds__(kThreads) void average_step(const Pieces<Averaged>::Piece* pieces,
                                                         float gain) {
  each_number<Averaged>(pieces, [&](const Averaged& x, int64_t i) {
    x.average[i] = fmaf(gain, x.value[i] - x.average[i], x.average[i]);
  });
}

__global__ __launch_bounds__(kThreads) void scale_all(const Pieces<Values>::Piece* pieces,
                                                      float factor) {
  each_number<Values>(pieces, [&](const Values& x, int64_t i) { x.data[i] *= factor; });
}

__global__ __launch_bounds__(kThreads) void squares(const Pieces<Values>::Piece* pieces,
                                                    double* sums) {
  double sum = 0.0;
  each_number<Values>(pieces, [&](const Values& x, int64_t i) {
    const double v = x.data[i];
    sum += v * v;
  });
  sum = block_sum(sum);
  if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}

__global__ __launch_bounds__(kThreads) void exchange(int64_t n, float* a, float* b) {
  for (int64_t i = first_element(); i < n; i += element_step()) {
    const float x = a[i];
    a[i] = b[i];
    b[i] = x;
  }
}

}  // namespace

void adam(std::span<const Learned> tensors, const AdamUpdate& by) {
  const Pieces<Learned> pieces(tensors);
  if (pieces.count == 0) return;
  adam_step<<<static_cast<unsigned>(pieces.count), kThreads, 0, stream()>>>(pieces.list.data(), by);
  check_launch("adam");
}

void descend(std::span<const Learned> tensors, const MomentumUpdate& by) {
  const Pieces<Learned> pieces(tensors);
  if (pieces.count == 0) return;
  momentum_step<<<static_cast<unsigned>(pieces.count), kThreads, 0, stream()>>>(pieces.list.data(),
                                                                                by);
  check_launch("momentum");
}

void move_average(std::span<const Averaged> tensors, float decay) {
  const Pieces<Averaged> pieces(tensors);
  if (pieces.count == 0) return;
  average_step<<<static_cast<unsigned>(pieces.count), kThreads, 0, stream()>>>(pieces.list.data(),
                                                                               1.0f - decay);
  check_launch("moving average");
}

void scale(std::span<const Values> tensors, float factor) {
  const Pieces<Values> pieces(tensors);
  if (pieces.count == 0) return;
  scale_all<<<static_cast<unsigned>(pieces.count), kThreads, 0, stream()>>>(pieces.list.data(),
                                                                            factor);
  check_launch("scale");
}

double squared_norm(std::span<const Values> tensors) {
  const Pieces<Values> pieces(tensors);
  if (pieces.count == 0) return 0.0;
  const Scratch<double> sums(static_cast<size_t>(pieces.count));
  squares<<<static_cast<unsigned>(pieces.count), kThreads, 0, stream()>>>(pieces.list.data(),
                                                                          sums.data());
  check_launch("squared norm");
  std::vector<double> all(static_cast<size_t>(pieces.count));
  download(all.data(), sums.data(), all.size() * sizeof(double));
  double total = 0.0;
  for (const double sum : all) total += sum;
  return total;
}

void swap(Values x, float* other) {
  if (x.n == 0) return;
  exchange<<<grid_for(x.n), kThreads, 0, stream()>>>(x.n, x.data, other);
  check_launch("swap");
}

}  // namespace fovea::cuda
