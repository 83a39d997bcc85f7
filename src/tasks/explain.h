#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "report/heatmap.h"
#include "report/report.h"
#include "tasks/task.h"

// Where a model looks, by several ways of asking, and whether they agree.
namespace fovea::tasks {

enum class By : uint8_t {
  attention,
  rollout,
  jacobian,
  jacobian_signed,
  saliency,
  saliency_input,
  saliency_smoothed,
  saliency_integrated,
  occlusion,
  gradcam,
  gradcam_places,
  lens,
  heads,
  patching,
};
const char* name_of(By);                  // as it is typed
const char* title_of(By);                 // as papers call it: "Integrated Gradients"
const char* about(By);                    // a line
bool is_of_inputs(By);                    // outputs by inputs, as most are; else it is of blocks
std::vector<By> ways();                   // all of them
std::vector<By> ways_for(const Inside&);  // those that it can answer
By way(const std::string&);               // older names too; throws, with the nearest there is

struct Explaining {
  std::vector<By> by;
  std::string output;  // its number from 1, or its label; empty: all, or the one that was said
  std::vector<size_t> only;        // these outputs; empty: as `output` says
  std::string layer;               // its name or number from 1; empty: the one to show
  std::string head;                // its number from 1; empty: the mean
  std::string against;             // why the output rather than this one
  const Inside* beside = nullptr;  // patching: the other text
  int64_t top = 5;                 // lens: how many are listed
  ShareDone done;
};

// Outputs in rows, inputs in columns: of a picture, its places.
struct Explanation {
  By by;
  report::Heatmap map;
  std::vector<std::string> words, notes;  // in the cells, where it has any; under the pointer
  report::Table table;                    // what does not go into a map
  bool of_outputs = true;        // comparable with others: not the weights of a layer of other rows
  std::string note;              // what should be known about it
  Tensor fine;                   // [T,Y,X]: what came to more places of a picture than its grid has
  std::vector<int64_t> outputs;  // which of them the rows are
};
std::vector<Explanation> explain(const Inside&, const Explaining&);

// Kendall's τ between each two, a mean over outputs: by the size of the values, or by the values
// themselves, of the ways that have signs. No rows where there are fewer than two.
enum class TauOf : uint8_t { sizes, values };
report::Table agreement_of(const std::vector<Explanation>&, TauOf = TauOf::sizes);

// A text where the inputs are words of one, an image where they are places of one, a heat-map else.
report::Picture picture_of(const Inside&, const Explanation&);
std::vector<report::Picture> pictures_of(const Inside&, const std::vector<Explanation>&);
report::Page page_of(const std::string& title, const Inside&, const std::vector<Explanation>&);
nlohmann::ordered_json to_json(const Inside&, const std::vector<Explanation>&);

// Fast and slow weights: what a layer of attention applies to two inputs, and what the convolution
// nearest to it does: its kernel is the mean of the weights along the diagonals of both.
std::vector<report::Picture> fast_and_slow(const Inside& a, const Inside& b, const Explaining&);

}  // namespace fovea::tasks
