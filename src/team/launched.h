#pragma once

#include <string>

#include "team/team.h"

namespace fovea::team {

// The launcher that started this process as one of several: "Open MPI"; empty where none did.
std::string launcher_of_several();

// The rank in the environment that a launcher made, without joining: 0 where there is none.
int launched_rank();

// Whether this process is in a team that a launcher made.
bool has_joined() noexcept;
// Whether it was to be, whatever came of it.
bool has_tried_to_join() noexcept;

// Whether others of the team may be at work, and know of no failure.
bool others_work() noexcept;

}  // namespace fovea::team
