#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "image/image.h"
#include "report/heatmap.h"

namespace fovea::report {

// A grey image and where it was looked at, glimpse by glimpse.
struct Scanpath {
  struct Place {  // in pixels of the image
    double x = 0, y = 0;
  };
  struct Glimpse {
    double x = 0, y = 0;             // its middle, in pixels of the image
    std::vector<double> sides;       // of the squares around it, in pixels, the sharpest first
    std::vector<image::Image> seen;  // what was seen of each
    std::string said;                // what the answer would have been then
    std::vector<float> shares;       // how likely each class was then, if that is known
  };
  std::string title;
  image::Image image;
  std::vector<Glimpse> glimpses;
  std::vector<std::string> classes;        // that `shares` are of
  std::vector<std::vector<Place>> others;  // ways that chance might have led: shown as density
};
// Throws where pixels are not those of a grey image, or shares not of the classes.
void check(const Scanpath&);

// How often the other ways looked where, on a grid of squares over the image.
struct Density {
  int64_t rows = 0, columns = 0;
  double side = 1;                // of a square, in pixels of the image
  std::vector<int64_t> glimpses;  // row by row
  int64_t most = 0;
};
Density density_of(const Scanpath&);

// Drawn: the image with the path, over the density of other ways where there are some; beside it
// what each glimpse saw, the sharpest above.
struct ScanpathDrawing {
  std::string svg;  // of itself, to stand in a page too
  double width = 0, height = 0;
};
ScanpathDrawing drawing_of(const std::vector<Scanpath>&);
std::string to_png(const std::vector<Scanpath>&);  // throws where it would be too large

std::string to_json(const Scanpath&);
// For a terminal: the image in letters, the glimpses in it by their numbers.
std::string to_text(const Scanpath&, Ink, int width = 80);
// By the ending: .json (a list where they are several), .svg or .png. Whole or not at all.
void write(const std::filesystem::path&, const std::vector<Scanpath>&);

}  // namespace fovea::report
