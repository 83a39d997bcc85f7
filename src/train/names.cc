#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>

#include "fovea/train.h"

namespace fovea::train {
namespace {

constexpr std::array kMethods{"adam", "adamw", "sgd"};
constexpr std::array kDecays{"constant", "cosine", "inverse_root", "plateau"};

template <class E, size_t N>
E find(const char* call, const std::array<const char*, N>& names, const std::string& name) {
  for (size_t i = 0; i < N; ++i) {
    if (name == names[i]) return static_cast<E>(i);
  }
  throw Error(call, fmt::format("expected one of {}, found '{}'", fmt::join(names, ", "), name));
}

}  // namespace

const char* name_of(Method m) { return kMethods[static_cast<size_t>(m)]; }
const char* name_of(Decay d) { return kDecays[static_cast<size_t>(d)]; }
const char* name_of(Kept k) { return k == Kept::best ? "best" : "last"; }
Method method(const std::string& name) { return find<Method>("method", kMethods, name); }
Decay decay(const std::string& name) { return find<Decay>("decay", kDecays, name); }

}  // namespace fovea::train
