#include <algorithm>
#include <array>
#include <cmath>

#include "report/picture.h"

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

}  // namespace

Colour colour_of(double share, Paper paper) {
  const Stops& stops = paper == Paper::white ? kOnWhite : kOnBlack;
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

std::string hex(Colour colour) {
  return fmt::format("#{:02x}{:02x}{:02x}", colour[0], colour[1], colour[2]);
}

Colour shade(int k, Paper paper) {
  return colour_of(static_cast<double>(k) / (kShades - 1), paper);
}

std::string shade_rules(Paper paper) {
  std::string css;
  for (int k = 0; k < kShades; ++k) css += fmt::format(".k{}{{fill:{}}}", k, hex(shade(k, paper)));
  return css;
}

}  // namespace fovea::report
