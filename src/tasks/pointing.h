#pragma once

#include <nlohmann/json_fwd.hpp>
#include <span>
#include <vector>

#include "report/report.h"
#include "tasks/explain.h"

// Whether a way of asking points at what is named: in pictures of which it is known where a thing
// lies, for each word that names one.
namespace fovea::tasks {

// Whether the middle of the place with the largest value lies in the box, in the image's pixels. A
// map without a value above 0 points nowhere.
bool peak_in(std::span<const float> values, const Inside&, const report::SeenImage::Box&);

struct Pointed {
  By by;
  int64_t words = 0, hits = 0;
  int64_t with_occlusion = 0;  // words for which it and occlusion both point there, or neither
  std::vector<double> tau;     // with occlusion, over the places
};
struct Pointing {
  std::vector<Pointed> ways;
  double chance = 0;  // the sum over words of the box's share of the picture
};
// Adds the words that one input names; nothing where it names none.
void add_pointing(const Inside&, Pointing& to, const ShareDone& = {});
void add(const Pointing& of_other_inputs, Pointing& to);

report::Table table_of(const Pointing&);  // no rows where nothing was named
nlohmann::ordered_json to_json(const Pointing&);

}  // namespace fovea::tasks
