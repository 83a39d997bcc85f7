#include "core/isa.h"

#include <hwy/highway.h>

#include <algorithm>
#include <atomic>
#include <cctype>
#include <cstdlib>
#include <string>
#include <vector>

#include "core/processor.h"
#include "fovea/error.h"
#include "fovea/runtime.h"

namespace fovea {
namespace {

constexpr const char* kMatrixUnit = "amx";
std::atomic<bool> matrix_unit_wanted{true};

std::string lower_name(int64_t target) {
  std::string name = hwy::TargetName(target);
  for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return name;
}

// Best first: Highway gives better targets lower bits. Read once, before any choice narrows it.
const std::vector<int64_t>& targets() {
  static const std::vector<int64_t> all = hwy::SupportedAndGeneratedTargets();
  return all;
}

bool matrix_unit_there() { return targets().front() == HWY_AVX3 && has_matrix_unit(); }

void choose(int64_t mask, bool matrix_unit) {
  hwy::SetSupportedTargetsForTest(mask);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  matrix_unit_wanted.store(matrix_unit, std::memory_order_relaxed);
}

void choose(const std::string& name) {
  targets();
  if (name.empty() || (name == kMatrixUnit && matrix_unit_there())) return choose(0, true);
  for (const int64_t target : targets()) {
    if (lower_name(target) == name) return choose(target, false);
  }
  std::string known;
  for (const std::string& one : isas()) known += (known.empty() ? "" : ", ") + one;
  throw Error("use_isa", "no instruction set '" + name + "' here; there are " + known);
}

}  // namespace

std::vector<std::string> isas() {
  std::vector<std::string> names;
  if (matrix_unit_there()) names.emplace_back(kMatrixUnit);
  for (const int64_t target : targets()) names.push_back(lower_name(target));
  return names;
}

std::string isa() {
  use_isa_from_environment();
  targets();
  if (uses_matrix_unit()) return kMatrixUnit;
  return lower_name(hwy::SupportedAndGeneratedTargets().front());
}

void use_isa(const std::string& name) {
  use_isa_from_environment();  // not later, over this
  choose(name);
}

void use_isa_from_environment() {
  static const bool done = [] {
    const char* name = std::getenv("FOVEA_ISA");
    // At once, even where nothing is asked for: a dispatched function whose address is kept would
    // choose anew at each call.
    choose(name == nullptr ? "" : name);
    return true;
  }();
  static_cast<void>(done);
}

bool uses_matrix_unit() {
  // Where another instruction set was chosen, the system is not asked for the unit either.
  if (!matrix_unit_wanted.load(std::memory_order_relaxed)) return false;
  static const bool there = matrix_unit_there();
  return there;
}

const char* version() { return FOVEA_VERSION; }

}  // namespace fovea
