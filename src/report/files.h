#pragma once

#include <string_view>

// The files of this folder that are no C++, as CMake embeds them (cmake/Embed.cmake).
namespace fovea::report::files {

extern const std::string_view page_css, page_js, picture_css, chart_css;

}  // namespace fovea::report::files
