// attend_ranks LENGTH HEADS WIDTH: causal attention over the processes that a launcher started,
// forward and backward. The first prints, as a line of JSON, what it came to (a hash of the context
// and of all gradients), the seconds that it took and the most memory that a rank held.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "core/random.h"
#include "fovea/ranks.h"
#include "fovea/runtime.h"
#include "team/team.h"

namespace {

using namespace fovea;

double seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Rows [begin, end) of a random sequence [1,H,length,D]: each row by its place.
Tensor rows_from(const RowRange& rows, int64_t heads, int64_t width, uint64_t seed) {
  Tensor all = Tensor::empty({1, heads, rows.size(), width});
  for (int64_t i = rows.begin; i < rows.end; ++i) {
    const Tensor row = Tensor::randn({1, heads, 1, width}, seed + 3 * static_cast<uint64_t>(i));
    all.slice(2, i - rows.begin, i - rows.begin + 1).copy_(row);
  }
  return all;
}

Tensor held(const team::Team& team, int64_t length, int64_t heads, int64_t width, uint64_t seed) {
  const auto [front, back] = rows_of_rank(length, team.rank(), team.size());
  Tensor all = Tensor::empty({1, heads, front.size() + back.size(), width});
  all.slice(2, 0, front.size()).copy_(rows_from(front, heads, width, seed));
  all.slice(2, front.size(), all.size(2)).copy_(rows_from(back, heads, width, seed));
  return all;
}

// Of all rows in their order, whoever holds them: at the first.
uint64_t hash_of_rows(team::Team& team, const Tensor& mine, int64_t length, uint64_t before) {
  const Tensor by_row = mine.detach().transpose(1, 2).contiguous();  // [1,rows,H,·]
  const auto* bytes = reinterpret_cast<const char*>(by_row.data<float>());
  const size_t size = static_cast<size_t>(by_row.numel()) * sizeof(float);
  const std::vector<std::string> all = team::gather(team, std::string(bytes, size));
  if (!team.is_first()) return before;
  const size_t row = size / static_cast<size_t>(mine.size(2));
  for (int r = 0; r < team.size(); ++r) {
    const size_t front = static_cast<size_t>(rows_of_rank(length, r, team.size())[0].size());
    before = hash_of(std::string_view(all[static_cast<size_t>(r)]).substr(0, front * row), before);
  }
  for (int r = team.size(); r-- > 0;) {
    const size_t front = static_cast<size_t>(rows_of_rank(length, r, team.size())[0].size());
    before = hash_of(std::string_view(all[static_cast<size_t>(r)]).substr(front * row), before);
  }
  return before;
}

void run(team::Team& team, int64_t length, int64_t heads, int64_t width) {
  Tensor q = held(team, length, heads, width, 1).set_requires_grad();
  Tensor k = held(team, length, heads, width, 2).set_requires_grad();
  Tensor v = held(team, length, heads, width, 3).set_requires_grad();
  const Tensor d = held(team, length, heads, width, 4);
  team.barrier();
  reset_memory_peak();
  const double began = seconds();
  const AttendedRows a = attend(team, q, k, v, {.mask = masks::causal()}, {length, length});
  team.barrier();
  const double forward = seconds() - began;
  a.context.backward(d);
  team.barrier();
  const double both = seconds() - began;
  int64_t most = 0;
  for (const int64_t peak : team::gather(team, memory_peak())) most = std::max(most, peak);
  uint64_t hash = kEmptyHash;
  for (const Tensor& t : {a.context, q.grad(), k.grad(), v.grad()}) {
    hash = hash_of_rows(team, t, length, hash);
  }
  if (!team.is_first()) return;
  std::printf(
      "{\"ranks\": %d, \"hash\": \"%016llx\", \"forward\": %.3f, \"seconds\": %.3f, "
      "\"peak\": %lld}\n",
      team.size(), static_cast<unsigned long long>(hash), forward, both,
      static_cast<long long>(most));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  int code = 0;
  try {
    run(team::launched(), std::atoll(argv[1]), std::atoll(argv[2]), std::atoll(argv[3]));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    code = 1;
  } catch (const team::Elsewhere& other) {
    code = other.exit_code;
  }
  team::leave(code);
  return code;
}
