#include "io/base64.h"

#include <array>
#include <cstdint>

#include "fovea/error.h"

namespace fovea {
namespace {

constexpr std::string_view kLetters =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

constexpr std::array<int8_t, 256> values() {
  std::array<int8_t, 256> v{};
  v.fill(-1);
  for (size_t i = 0; i < kLetters.size(); ++i) {
    v[static_cast<unsigned char>(kLetters[i])] = static_cast<int8_t>(i);
  }
  return v;
}

}  // namespace

std::string to_base64(std::string_view bytes) {
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t i = 0; i < bytes.size(); i += 3) {
    uint32_t bits = 0;
    for (size_t j = 0; j < 3; ++j) {
      bits = bits << 8 | (i + j < bytes.size() ? static_cast<unsigned char>(bytes[i + j]) : 0U);
    }
    for (size_t j = 0; j < 4; ++j) {
      text += i + j <= bytes.size() ? kLetters[bits >> (18 - 6 * j) & 63] : '=';
    }
  }
  return text;
}

std::string from_base64(std::string_view text) {
  static constexpr std::array<int8_t, 256> kValues = values();
  if (text.size() % 4 != 0) throw Error("base64", "the length is no multiple of four");
  std::string bytes;
  bytes.reserve(text.size() / 4 * 3);
  for (size_t i = 0; i < text.size(); i += 4) {
    size_t padding = 0;
    uint32_t bits = 0;
    for (size_t j = 0; j < 4; ++j) {
      const char c = text[i + j];
      const bool pads = c == '=' && i + 4 == text.size() && j >= 2;
      const int value = pads ? 0 : kValues[static_cast<unsigned char>(c)];
      if (value < 0 || (!pads && padding > 0)) throw Error("base64", "there is another character");
      padding += pads ? 1 : 0;
      bits = bits << 6 | static_cast<uint32_t>(value);
    }
    for (size_t j = 0; j < 3 - padding; ++j) bytes += static_cast<char>(bits >> (16 - 8 * j) & 255);
  }
  return bytes;
}

}  // namespace fovea
