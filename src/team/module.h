#pragma once

#include <cstddef>

// What libfovea_mpi.so and libfovea_nccl.so hand out. Each is one file, src/mpi/module.cc and
// src/nccl/module.cc, that needs this header and <mpi.h> or <nccl.h>; whoever opens it needs none.
namespace fovea::team {

inline constexpr int kModuleVersion = 2;  // of the table below
inline constexpr const char* kModuleEntry = "fovea_team_module";

struct Message {
  int peer;
  void* bytes;
  size_t size;
};

// Functions that can fail give null, or a sentence that says why.
struct Module {
  int version = kModuleVersion;
  const char* library = "";  // what it was compiled with, as in "Open MPI v4.1.4"

  // In: what the launcher says, a size of 0 where it says nothing. Out: what is so.
  const char* (*join)(int* rank, int* size) = nullptr;
  // Begins to send and to receive; all of it is under way until poll() gives done.
  const char* (*begin)(const Message* sent, size_t n_sent, const Message* received,
                       size_t n_received) = nullptr;
  const char* (*poll)(bool* done) = nullptr;
  // Of what is under way, where it can tell; null: it cannot.
  bool (*has_come)(size_t received) = nullptr;
  bool (*has_gone)(size_t sent) = nullptr;
  // Tells all others that this rank waits for what is under way, and whether a rank has told so.
  // One that waits is no cause of a delay.
  void (*tell_waiting)() = nullptr;
  bool (*waits)(int rank) = nullptr;
  void (*leave)() = nullptr;
  void (*abort)(int code) = nullptr;
};

// The entry point's type; it gives null to who asks for another version.
using ModuleEntry = const Module* (*)(int version);

}  // namespace fovea::team
