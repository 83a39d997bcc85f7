#pragma once

#include <string>
#include <vector>

#include "fovea/attention.h"

namespace fovea::tasks {

// Of list_scores() and its like, for a field that is one of them.
inline std::vector<std::string> names_of(const std::vector<Listed>& listed) {
  std::vector<std::string> names;
  for (const Listed& l : listed) names.push_back(l.name);
  return names;
}

}  // namespace fovea::tasks
