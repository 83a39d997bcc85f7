#pragma once

#include <cstddef>
#include <span>

#include "fovea/api.h"
#include "fovea/error.h"

// Processes that compute together, each by its rank. They move bytes to each other and nothing
// else: whatever is added is added by who asks, in an order of its own.
namespace fovea::team {

using Bytes = std::span<std::byte>;             // to be filled
using ConstBytes = std::span<const std::byte>;  // to be read

// All of a team make the same calls in the same order, with sizes that both sides know. One that
// fails throws Error; the team is of no further use then.
class FOVEA_API Team {
 public:
  virtual ~Team() = default;
  int rank() const { return rank_; }
  int size() const { return size_; }
  bool is_first() const { return rank_ == 0; }

  // send[r] goes to rank r; received[r] is filled by what that sends to this one.
  virtual void exchange(std::span<const ConstBytes> send, std::span<const Bytes> received) = 0;
  void gather(ConstBytes mine, std::span<const Bytes> all);  // everybody's, to everybody
  void broadcast(Bytes, int from = 0);
  void barrier();
  virtual void abort(int code) noexcept = 0;  // ends every process of the team

  // Whether all ranks know that the work is over, so that each may end by itself.
  bool is_over() const { return over_; }
  void set_over() { over_ = true; }

 protected:
  Team(int rank, int size) : rank_(rank), size_(size) {}

 private:
  const int rank_, size_;
  bool over_ = false;
};

// Thrown where another rank failed, and says so.
struct Elsewhere {
  int exit_code;
};

FOVEA_API Team& alone();  // a team of one

// The team that a launcher (mpirun, mpiexec, srun) started this process in; alone() where there is
// none. The first call opens libfovea_mpi.so and joins: it throws where that cannot be, since as
// many processes as were started would each do all of the work. One thread makes all calls.
FOVEA_API Team& launched();

// At the end of the process: leaves the team, or, where others may still be at work while this one
// failed, ends them.
FOVEA_API void leave(int exit_code) noexcept;

}  // namespace fovea::team
