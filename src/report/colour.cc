#include <algorithm>
#include <array>
#include <cmath>

#include "report/drawing.h"

namespace fovea::report {
namespace {

using Stops = std::array<Colour, 6>;

// Lightness falls (rises) by about the same step from each to the next.
constexpr Stops kOnWhite = {{{250, 251, 253},
                             {205, 223, 241},
                             {150, 192, 228},
                             {84, 148, 205},
                             {28, 95, 167},
                             {8, 40, 99}}};
constexpr Stops kOnBlack = {{{28, 32, 40},
                             {28, 62, 110},
                             {24, 106, 150},
                             {38, 155, 158},
                             {128, 205, 140},
                             {250, 236, 150}}};

using SignedStops = std::array<Colour, 7>;
constexpr SignedStops kSignedOnWhite = {{{8, 56, 120},
                                         {60, 138, 194},
                                         {174, 209, 233},
                                         {248, 248, 248},
                                         {252, 205, 154},
                                         {224, 122, 36},
                                         {133, 58, 4}}};
constexpr SignedStops kSignedOnBlack = {{{160, 214, 255},
                                         {62, 148, 214},
                                         {26, 72, 122},
                                         {28, 32, 40},
                                         {112, 62, 16},
                                         {214, 126, 42},
                                         {255, 208, 140}}};

template <size_t n>
Colour between(const std::array<Colour, n>& stops, double share) {
  const double place = std::clamp(share, 0.0, 1.0) * (stops.size() - 1);
  const size_t from = std::min(static_cast<size_t>(place), stops.size() - 2);
  const double part = place - static_cast<double>(from);
  Colour colour{};
  for (size_t c = 0; c < colour.size(); ++c) {
    colour[c] =
        static_cast<uint8_t>(std::lround(stops[from][c] * (1 - part) + stops[from + 1][c] * part));
  }
  return colour;
}

}  // namespace

Colour colour_of(double share, Background background) {
  return between(background == Background::white ? kOnWhite : kOnBlack, share);
}

Colour signed_colour_of(double share, Background background) {
  return between(background == Background::white ? kSignedOnWhite : kSignedOnBlack,
                 (share + 1) / 2);
}

std::string hex(Colour colour) {
  return fmt::format("#{:02x}{:02x}{:02x}", colour[0], colour[1], colour[2]);
}

Colour shade(int k, Background background) {
  return colour_of(static_cast<double>(k) / (kShades - 1), background);
}

std::string shade_rules(Background background) {
  std::string css;
  for (const Scale scale : {Scale::from_zero, Scale::around_zero}) {
    for (int k = 0; k < shades_of(scale); ++k) {
      css +=
          fmt::format(".{}{}{{fill:{}}}", shade_letter(scale), k, hex(shade(k, background, scale)));
    }
  }
  return css;
}

Colour signed_shade(int k, Background background) {
  return signed_colour_of(2.0 * k / (kSignedShades - 1) - 1, background);
}

int shade_of(double share, Scale scale) {
  if (scale == Scale::from_zero) {
    return static_cast<int>(std::lround(std::clamp(share, 0.0, 1.0) * (kShades - 1)));
  }
  return static_cast<int>(
      std::lround((std::clamp(share, -1.0, 1.0) + 1) / 2 * (kSignedShades - 1)));
}

int shades_of(Scale scale) { return scale == Scale::from_zero ? kShades : kSignedShades; }
char shade_letter(Scale scale) { return scale == Scale::from_zero ? 'k' : 'd'; }

Colour shade(int k, Background background, Scale scale) {
  return scale == Scale::from_zero ? shade(k, background) : signed_shade(k, background);
}

}  // namespace fovea::report
