#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "report/heatmap.h"
#include "report/markup.h"

// What drawings share, those of a heat-map above all.
namespace fovea::report {

// The weight that gets the full colour: 1, or the largest where that is small or above 1; around 0,
// the one of the largest size.
double full_weight(const Heatmap&);

// A weight's share of the full one as two columns of a terminal: blocks that fill up, with a minus
// below 0, or a colour from dark to bright.
std::string cell_of(float share, Ink);

std::string low_end(const Heatmap&);  // of its scale: 0, or the full weight with a minus

// ---- Colours ------------------------------------------------------------------------------------

using Colour = std::array<uint8_t, 3>;  // red, green, blue

// From nothing (0) to full (1), lighter to darker on white and darker to lighter on black, in steps
// that look alike.
enum class Background : uint8_t { white, black };
Colour colour_of(double share, Background);
std::string hex(Colour);

// Cells of like weight are one path, so that a drawing of many cells stays small.
inline constexpr int kShades = 32;
Colour shade(int, Background);        // of 0 … kShades − 1
std::string shade_rules(Background);  // CSS: .k0{fill:#…} and so on, .d0{…} for signed weights

// Of −1 … 1: blue below 0, orange above, which no kind of colour blindness takes for one another.
Colour signed_colour_of(double share, Background);
inline constexpr int kSignedShades = 31;  // the middle one is 0
Colour signed_shade(int, Background);     // of 0 … kSignedShades − 1

// A weight's shade by its share of the full one, and how many there are; k or d.
int shade_of(double share, Scale);
int shades_of(Scale);
char shade_letter(Scale);
Colour shade(int, Background, Scale);

// ---- Labels and cells ---------------------------------------------------------------------------

// A map's labels as they are shown, and how to set them.
struct Labels {
  std::vector<std::string> rows, columns;
  int longest_row = 0, longest_column = 0;  // in columns of a terminal
};
bool upwards(const std::string& label);  // of a column: too wide, so it reads from bottom to top
Labels labels_of(const Heatmap&, int longest);

// In the drawing's units.
struct GridStyle {
  double cell = 24;   // from one cell to the next
  double gap = 8;     // between labels and cells
  double letter = 8;  // a column of a label takes so much, or less
  double line = 18;   // the height of labels that run across
  double drop = 5;    // from the middle of a row down to the base line of its label
  int longest_label = 32;
};
// The labels, and the place of the cells to the right of and below them.
struct MapGrid {
  GridStyle style;
  Labels labels;
  Heatmap::Axes axes;
  double left = 0, top = 0, right = 0, bottom = 0;  // of the cells
  double high = 0;                                  // the columns' labels, with the gap below them
  double lowest() const;                            // where cells and the rows' axis end
};
MapGrid grid_of(const Heatmap&, const GridStyle&);
void put_labels(Markup&, const MapGrid&);

// The cells as paths: squares of `size`, one every `pitch`, from (0, 0).
struct Cells {
  std::array<std::string, kShades> shaded;
  std::string unknown;  // NaN
};
Cells cells_of(const Heatmap&, int pitch, int size);

// ---- Heat-maps ----------------------------------------------------------------------------------

std::string text_of(const Heatmap&, Ink, int width);

// Heat-maps one below the other, in several columns where they are many.
struct Sheet {
  struct Placed {
    Picture picture;
    std::string title;
    MapGrid grid;
    double x = 0, y = 0, width = 0, height = 0;
    const Heatmap& map() const { return picture.get<Heatmap>(); }
  };
  std::vector<Placed> maps;
  double width = 0, height = 0;
};
Sheet sheet_of(std::span<const Picture>);
Drawing drawing_of(const Sheet&, Target);  // SVG has a cell's labels and weight under the pointer

void add_maps(Html&, std::span<const Picture>);

}  // namespace fovea::report
