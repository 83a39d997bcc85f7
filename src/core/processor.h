#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

// What the system says of the processor; empty and 0 where it says nothing.
namespace fovea {

struct Cache {
  int level = 0;
  int64_t bytes = 0;  // of data, of those that share one
};

struct Processor {
  std::string name;
  std::string vendor;                   // "AuthenticAMD", "GenuineIntel", …
  int family = 0;                       // of x86: 25 is Zen 3 and 4, 26 is Zen 5
  std::vector<Cache> caches;            // those of the first core, the nearest first
  std::vector<std::string> arithmetic;  // of 16 and 8 bits: "avx512_bf16", "bf16", "amx_int8", …
};

Processor processor();

// Intel's matrix unit (AMX), with products of bf16 and of 8 bits, beside vectors that have them
// too. The system keeps it from a process that does not ask; this asks once.
bool has_matrix_unit();

// How kernels best compute many 1/x (bench/ports.cc): two by a division that they share; one by a
// division, the next by an estimate and Newton's step; or all by these, where divisions are slow.
enum class Inverses : uint8_t { shared, by_turns, estimated };
Inverses best_inverses();
void assume_inverses(std::optional<Inverses>);  // for tests; nothing: as the processor is

// Bytes ahead of its reader at which a stream of weights is best fetched.
int64_t fetched_ahead();

}  // namespace fovea
