#include "core/processor.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <sstream>

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

enum class Divisions : uint8_t { as_they_are, fast, slow };
std::atomic<Divisions> assumed{Divisions::as_they_are};

}  // namespace

// Of 16 floats: 6 products on Zen 4, 5 on Zen 5, some 32 on Intel's.
bool divides_slowly() {
  static const bool slow = processor().vendor == "GenuineIntel";
  const Divisions now = assumed.load(std::memory_order_relaxed);
  return now == Divisions::as_they_are ? slow : now == Divisions::slow;
}

void assume_slow_divisions(std::optional<bool> slow) {
  assumed = !slow ? Divisions::as_they_are : *slow ? Divisions::slow : Divisions::fast;
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
