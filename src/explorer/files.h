#pragma once

#include <string_view>

// The page's files, as CMake embeds them (cmake/Embed.cmake).
namespace fovea::explorer::files {

extern const std::string_view index_html, explorer_css, main_js, api_js, state_js, matrix_js,
    links_js, inside_js, shaded_js, curves_js, dom_js;

}  // namespace fovea::explorer::files
