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

// Whether a division keeps its unit busy for much longer than the six or so products that it takes
// elsewhere, so that an estimate of 1/x and Newton's step are better (bench/ports.cc).
bool divides_slowly();
void assume_slow_divisions(std::optional<bool> slow);  // for tests; nothing: as the processor is

}  // namespace fovea
