#pragma once

#include <string>

namespace fovea {

// Where a module is that is opened at run time: what the environment's `variable` names, else
// `file` beside the program, in the folder above or in its lib, else `file`, wherever the system
// finds it.
std::string module_file(const char* variable, const char* file);

}  // namespace fovea
