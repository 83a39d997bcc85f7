#pragma once

#include <span>
#include <string>
#include <string_view>

namespace fovea {

// What to add to "there is no such name": "; did you mean "NAME"?" where one of the names is a slip
// of the fingers away, else "; there are …", all of them. Nothing where there are none.
std::string nearest_hint(std::string_view typed, std::span<const std::string> names);

}  // namespace fovea
