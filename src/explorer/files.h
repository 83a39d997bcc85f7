#pragma once

#include <span>
#include <string_view>
#include <utility>

// The page's files, as CMake embeds them (cmake/Embed.cmake).
namespace fovea::explorer::files {

extern const std::string_view index_html;
extern const std::span<const std::pair<std::string_view, std::string_view>> all;  // name, text

}  // namespace fovea::explorer::files
