#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace fovea::image {

inline constexpr char32_t kUnreadable = 0xfffd;

// Bytes that are no UTF-8 (overlong forms, surrogates and cut sequences included) read as U+FFFD,
// one for each byte.
std::u32string from_utf8(std::string_view);
std::string to_utf8(std::u32string_view);

}  // namespace fovea::image
