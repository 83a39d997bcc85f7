#include "core/processor.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <sstream>

#if defined(__x86_64__) && defined(__linux__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace fovea {
namespace {

// What x86 and Arm call them in /proc/cpuinfo.
constexpr std::array kArithmetic{"avx512_bf16", "avx512_vnni", "avx512_fp16", "avx_vnni",
                                 "amx_bf16",    "amx_int8",    "bf16",        "i8mm",
                                 "asimddp",     "sve"};

std::string first_line(const std::filesystem::path& file) {
  std::string line;
  std::getline(std::ifstream(file) >> std::ws, line);
  return line;
}

// "32K", "1024K", "32M".
int64_t bytes_of(const std::string& size) {
  std::istringstream in(size);
  int64_t n = 0;
  char unit = ' ';
  in >> n >> unit;
  return n << (unit == 'K' ? 10 : unit == 'M' ? 20 : unit == 'G' ? 30 : 0);
}

std::vector<Cache> caches() {
  std::vector<Cache> found;
  const std::filesystem::path folder = "/sys/devices/system/cpu/cpu0/cache";
  for (int i = 0; std::filesystem::exists(folder / ("index" + std::to_string(i))); ++i) {
    const std::filesystem::path one = folder / ("index" + std::to_string(i));
    if (first_line(one / "type") == "Instruction") continue;
    std::istringstream level(first_line(one / "level"));
    Cache cache{.bytes = bytes_of(first_line(one / "size"))};
    if (level >> cache.level && cache.bytes > 0) found.push_back(cache);
  }
  std::sort(found.begin(), found.end(),
            [](const Cache& a, const Cache& b) { return a.level < b.level; });
  return found;
}

// A thread that uses it has 8 KB of registers more, which the system wants to be asked for.
bool asked_for_matrix_unit() {
#if defined(__x86_64__) && defined(__linux__)
  unsigned a = 0, b = 0, c = 0, d = 0;
  constexpr unsigned kVectorsOfBytes = 1u << 11, kVectorsOfBf16 = 1u << 5;
  constexpr unsigned kUnit = 1u << 22 | 1u << 24 | 1u << 25;  // of bf16, at all, of bytes
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0) return false;
  if ((c & kVectorsOfBytes) == 0 || (d & kUnit) != kUnit) return false;
  if (__get_cpuid_count(7, 1, &a, &b, &c, &d) == 0 || (a & kVectorsOfBf16) == 0) return false;
  constexpr long kRequestPermission = 0x1023, kTileData = 18;  // <asm/prctl.h> of newer systems
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
#else
  return false;
#endif
}

std::atomic<int> assumed{-1};  // none

bool is_zen5(const Processor& p) { return p.vendor == "AuthenticAMD" && p.family >= 26; }

// Of 16 floats a division takes 6 products on Zen 4, 5 on Zen 5, 20 on Intel's; an estimate and
// Newton's step 3 on Zen 5.
Inverses inverses_of(const Processor& p) {
  if (p.vendor == "GenuineIntel") return Inverses::estimated;
  return is_zen5(p) ? Inverses::by_turns : Inverses::shared;
}

}  // namespace

bool has_matrix_unit() {
  static const bool has = asked_for_matrix_unit();
  return has;
}

Inverses best_inverses() {
  static const Inverses best = inverses_of(processor());
  const int now = assumed.load(std::memory_order_relaxed);
  return now < 0 ? best : static_cast<Inverses>(now);
}

void assume_inverses(std::optional<Inverses> how) { assumed = how ? static_cast<int>(*how) : -1; }

int64_t fetched_ahead() {
  static const int64_t ahead = (is_zen5(processor()) ? 16 : 4) * 1024;
  return ahead;
}

Processor processor() {
  Processor p{.caches = caches()};
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line) && !line.empty();) {
    const size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    const std::string key = line.substr(0, line.find_last_not_of(" \t:", colon) + 1);
    std::istringstream words(line.substr(colon + 1));
    if (key == "model name") p.name = line.substr(std::min(line.size(), colon + 2));
    if (key == "vendor_id") words >> p.vendor;
    if (key == "cpu family") words >> p.family;
    if (key != "flags" && key != "Features") continue;
    for (std::string word; words >> word;) {
      if (std::find(kArithmetic.begin(), kArithmetic.end(), word) != kArithmetic.end()) {
        p.arithmetic.push_back(word);
      }
    }
  }
  return p;
}

}  // namespace fovea
