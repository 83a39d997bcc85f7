#pragma once

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "report/axis.h"
#include "report/markup.h"
#include "report/page.h"

// Lines and the axes under them, for pages and for files. Colours are the style's, by class.
namespace fovea::report {

struct Reach {
  double low = INFINITY, high = -INFINITY;
  bool whole = true;  // numbers that are counted
  void take(double value);
  bool empty() const { return !(low <= high); }
};

// The curves of a chart as they are drawn, and how far they reach.
struct Plot {
  std::string x, y;
  bool log_y = false;
  std::vector<std::string> names;
  std::vector<Thinned> lines;
  Reach xs, ys;
  bool draws(const std::pair<double, double>& point) const;
};
Plot plot_of(const Chart&);

// Where it stands in a drawing: the plot itself, and room for ticks and the name of an axis.
struct Frame {
  double left, top, width, height;
  Axis x, y;
  double across(double value) const { return left + width * x.place(value); }
  double down(double value) const { return top + height * (1 - y.place(value)); }
  double bottom() const;  // of all of it
};
Frame frame_of(const Plot&, double pixels);

void put_axes(Markup&, const Frame&, const Plot&);
void put_lines(Markup&, const Frame&, const Plot&);

}  // namespace fovea::report
