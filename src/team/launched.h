#pragma once

#include <string>

#include "team/team.h"

namespace fovea::team {

// The team that a launcher (mpirun, mpiexec, srun) started this process in; alone() where there is
// none. The first call opens libfovea_mpi.so and joins: it throws where that cannot be, since as
// many processes as were started would each do all of the work. One thread makes all calls.
Team& launched();

// The launcher that started this process as one of several: "Open MPI"; empty where none did.
std::string launcher_of_several();

// The rank in the environment that a launcher made, without joining: 0 where there is none.
int launched_rank();

// Whether others of the team may be at work, and know of no failure.
bool others_work() noexcept;

// At the end of the process: leaves the team, or, where others may still be at work while this one
// failed, ends them.
void leave(int exit_code) noexcept;

}  // namespace fovea::team
