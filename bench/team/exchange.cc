// What a step's gradients cost on their way: summed in the order of batches, each part by its
// owner, and the weights gathered again, beside MPI_Allreduce of as many numbers. Under a launcher:
// mpirun -n 2 build/bench/exchange [network]
// With `network`: what a message and a byte take.
#include <fmt/format.h>
#include <mpi.h>

#include <algorithm>
#include <cstdio>
#include <string_view>
#include <vector>

#include "team/launched.h"
#include "train/meter.h"
#include "train/shards.h"

namespace {

using namespace fovea;

double median(std::vector<double> seconds) {
  std::ranges::sort(seconds);
  return seconds[seconds.size() / 2];
}

template <class F>
double seconds_of(team::Team& team, const F& f) {
  std::vector<double> all;
  for (int i = 0; i < 11; ++i) {
    team.barrier();
    const double began = train::clock_seconds();
    f();
    all.push_back(train::clock_seconds() - began);
  }
  return median(all);
}

void measure(team::Team& team, int64_t megabytes) {
  const int64_t n = megabytes * (1 << 20) / 4;
  const Tensors weights{{"w", Tensor::randn({n}, 1)}};
  train::Shards shards(team, weights);
  const Tensor gradient = Tensor::randn({n}, 2 + static_cast<uint64_t>(team.rank()));
  const double ordered = seconds_of(team, [&] {
    shards.sum({{team.rank(), 0, {{"w", gradient}}}}, team.size());
    shards.share();
  });
  std::vector<float> in = gradient.to_vector(), out(in.size());
  const double reduced = seconds_of(team, [&] {
    MPI_Allreduce(in.data(), out.data(), static_cast<int>(n), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  });
  if (!team.is_first()) return;
  fmt::print("{{\"megabytes\": {}, \"ranks\": {}, \"ordered\": {:.6f}, \"allreduce\": {:.6f}}}\n",
             megabytes, team.size(), ordered, reduced);
  std::fflush(stdout);
}

// The network as estimates have it: seconds a message, and bytes a second that a rank sends to all
// others together while they send to it.
void measure_network(team::Team& team) {
  const size_t ranks = static_cast<size_t>(team.size()), others = ranks - 1;
  const auto seconds = [&](size_t bytes) {
    const std::vector<std::byte> out(bytes);
    std::vector<std::vector<std::byte>> in(ranks, out);
    const std::vector<team::ConstBytes> send(ranks, out);
    const std::vector<team::Bytes> received(in.begin(), in.end());
    return seconds_of(team, [&] { team.exchange(send, received); });
  };
  const size_t bucket = (size_t{4} << 20) / ranks;
  const double few = seconds(8), many = seconds(bucket);
  if (!team.is_first()) return;
  fmt::print("{{\"ranks\": {}, \"latency\": {:.9f}, \"bandwidth\": {:.0f}}}\n", ranks,
             few / static_cast<double>(others),
             static_cast<double>(bucket * others) / std::max(many - few, 1e-9));
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  team::Team& team = team::launched();
  if (argc > 1 && std::string_view(argv[1]) == "network") {
    measure_network(team);
    team::leave(0);
    return 0;
  }
  for (const int64_t megabytes : {4, 16, 64}) measure(team, megabytes);
  team::leave(0);
}
