#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "checkpoints/config.h"
#include "checkpoints/tensors.h"
#include "fovea/transformer.h"

// An architecture is one file: architectures/NAME.cc defines `extern const Architecture
// architecture_NAME`, NAME being the `model_type` of config.json, which maps its keys and tensors
// onto our Transformer. CMake makes a table of the files (cmake/Tables.cmake).
namespace fovea::checkpoints {

enum class Purpose : uint8_t {
  writes,      // a decoder by itself: text that goes on
  translates,  // an encoder and a decoder: text into text
  fills,       // an encoder that says what a masked token was
  tells,       // an encoder that says of which class a text is
  sees,        // the same of a picture
  reads,       // an encoder of texts by itself, which says nothing of them
  views,       // the same of pictures
};
const char* name_of(Purpose);
bool is_of_pictures(Purpose);

// What comes after an encoder's rows: out(norm(curve(dense(x)))); what has no width is left out.
struct HeadPlan {
  enum class Curve : uint8_t { none, tanh, relu, gelu, gelu_tanh };
  int64_t in = 0;     // width of the rows
  int64_t dense = 0;  // of its first layer
  Curve curve = Curve::none;
  bool norm = false;
  int64_t out = 0;      // tokens or classes
  bool tied = false;    // the output layer is the embedding
  bool second = false;  // DeiT: another layer over the second row; the mean of both counts
};

// How a picture becomes rows.
struct PicturePlan {
  int64_t side = 0, patch = 0, channels = 3;
  int64_t tokens = 0;  // learned rows before those of the patches
};

struct ModelPlan {
  Purpose purpose = Purpose::writes;
  models::TransformerConfig network;
  std::optional<HeadPlan> head;
  std::optional<PicturePlan> picture;
  int64_t longest = 0;  // tokens that it was made for; 0: not known
  Recipe recipe;
  std::vector<std::string> passed_by;  // ends of names of tensors that are not needed
};

struct Architecture {
  std::string type;    // "gpt2"
  std::string title;   // "GPT-2"
  std::string prefix;  // of the inner model's tensors, there or not: "transformer."
  ModelPlan (*plan)(const Config&, const StoredTensors&);
  std::string for_classes = {};  // what transformers calls it with a head that tells classes
};

std::span<const Architecture* const> architecture_table();
// Throws, with the nearest name or all there are.
const Architecture& architecture(const Config&);

// ---- What their files share
// ----------------------------------------------------------------------

// Whether the config is of an inner model without a head, as "BertModel" is, or does not say.
bool is_by_itself(const Config&);

nn::Activation activation_in(const Config&, const std::string& key, const std::string& otherwise);
HeadPlan::Curve curve_of(nn::Activation);

// The weights of a layer of ours, "NAME.weight" and, where it has one, "NAME.bias".
struct LinearParts {
  std::vector<std::string> from;  // one under the other
  Shape rows;                     // of each
  int64_t in = 0;
  bool bias = true;
  bool transposed = false;
};
void add_linear(Recipe&, const std::string& ours, const LinearParts&);
void add_norm(Recipe&, const std::string& ours, const std::string& theirs, int64_t width,
              nn::NormKind);
void add_tensor(Recipe&, const std::string& ours, const std::string& theirs, const Shape&);

}  // namespace fovea::checkpoints
