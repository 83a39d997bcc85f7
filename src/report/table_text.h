#pragma once

#include <string>

#include "report/report.h"

// Tables for a terminal: columns aligned, the first to the left, the others to the right.
namespace fovea::report {

std::string to_text(const Table&, const std::string& indent = {});
std::string tables_as_text(const Page&);  // all of a page's, an empty line after each

}  // namespace fovea::report
