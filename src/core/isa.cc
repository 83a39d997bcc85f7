#include "core/isa.h"

#include <hwy/highway.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <string>
#include <vector>

#include "fovea/error.h"
#include "fovea/runtime.h"

namespace fovea {
namespace {

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

void choose(int64_t mask) {
  hwy::SetSupportedTargetsForTest(mask);
  hwy::GetChosenTarget().DeInit();  // the next dispatch looks again
}

void choose(const std::string& name) {
  targets();
  if (name.empty()) return choose(0);
  std::string known;
  for (const int64_t target : targets()) {
    if (lower_name(target) == name) return choose(target);
    known += (known.empty() ? "" : ", ") + lower_name(target);
  }
  throw Error("use_isa", "no instruction set '" + name + "' here; there are " + known);
}

}  // namespace

std::vector<std::string> isas() {
  std::vector<std::string> names;
  for (const int64_t target : targets()) names.push_back(lower_name(target));
  return names;
}

std::string isa() {
  use_isa_from_environment();
  targets();
  return lower_name(hwy::SupportedAndGeneratedTargets().front());
}

void use_isa(const std::string& name) {
  use_isa_from_environment();  // not later, over this
  choose(name);
}

void use_isa_from_environment() {
  static const bool done = [] {
    const char* name = std::getenv("FOVEA_ISA");
    if (name != nullptr && *name != '\0') choose(std::string(name));
    return true;
  }();
  static_cast<void>(done);
}

const char* version() { return FOVEA_VERSION; }

}  // namespace fovea
