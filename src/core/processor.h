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
  std::vector<Cache> caches;            // those of the first core, the nearest first
  std::vector<std::string> arithmetic;  // of 16 and 8 bits: "avx512_bf16", "bf16", "amx_int8", …
};

Processor processor();

// Intel's matrix unit (AMX), with products of bf16 and of 8 bits, beside vectors that have them
// too. The system keeps it from a process that does not ask; this asks once.
bool has_matrix_unit();

// Whether a division keeps its unit busy for much longer than the six or so products that it takes
// elsewhere, so that an estimate of 1/x and Newton's step are better (bench/ports.cc).
bool divides_slowly();
void assume_slow_divisions(std::optional<bool> slow);  // for tests; nothing: as the processor is

}  // namespace fovea
