#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "report/markup.h"
#include "report/report.h"

// The parts of a page. Each writes its HTML and, where the script has something to say under the
// pointer, leaves the figures for it.
namespace fovea::report {

class Html : public Markup {
 public:
  // Keeps figures for the script and gives their number, for a data-i attribute.
  size_t keep(nlohmann::ordered_json figures) {
    figures_.push_back(std::move(figures));
    return figures_.size() - 1;
  }
  const nlohmann::ordered_json& figures() const { return figures_; }

 private:
  nlohmann::ordered_json figures_ = nlohmann::ordered_json::array();
};

void add(Html&, const Text&);
void add(Html&, const Table&);
void add(Html&, const Chart&);
void add(Html&, const Bars&);
void add(Html&, const Pictures&);

// A drawing is made for a desk and once more for a phone; the style shows the one that fits.
struct Width {
  const char* name;
  double pixels;
};
inline constexpr Width kWidths[] = {{"wide", 816}, {"slim", 340}};

constexpr size_t kSeriesColours = 8;  // of the style; then they repeat, dashed
inline std::string series_class(size_t series) {
  return fmt::format("s{}{}", series % kSeriesColours,
                     series / kSeriesColours % 2 == 1 ? " dashed" : "");
}
void add_legend(Html&, const std::string& measure, const std::vector<std::string>& series);

// A curve of many points as one drawn of few: of each stretch its lowest and its highest point, so
// that no spike is lost, and its mean. A short curve stays as it is and has no means.
using Points = std::vector<std::pair<double, double>>;
struct Thinned {
  Points points, means;
  size_t stretch = 1;  // points that a mean is of
};
Thinned thinned(const Points&);

std::string heat_colours();  // CSS: the shades of the heat-maps and of their scale

}  // namespace fovea::report
