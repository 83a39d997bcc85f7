#pragma once

#include <span>
#include <string>
#include <vector>

#include "fovea/convnet.h"
#include "image/class_folders.h"
#include "image/resize.h"
#include "report/seen_image.h"
#include "tasks/packed_image.h"
#include "tasks/run_folder.h"
#include "tasks/task.h"

// Classification of images: from a folder for each class to a trained network, its scores and which
// places attend to which.
namespace fovea::tasks {
extern const Task task_image;
}

namespace fovea::tasks::images {

struct ImageData {
  std::string builtin = "pairs";  // used where no folder is given
  int64_t examples = 4000;        // of the built-in data
  std::string data, test;         // the user's: a folder for each class
  double valid_share = 0.1, test_share = 0.1;
};

struct ImageConfig final : TaskConfig {
  ImageData data;
  models::ConvnetConfig network;  // the classes are found in the data
  double dropout = 0, label_smoothing = 0;
  image::Augmentation augmentation;
  double gate_rate = 10;  // of the attention's gate, times the rate

  ImageConfig() { train.batch_tokens = 1 << 20; }  // so many images decide alone
  void visit(Fields&) override;
  void suit_data() override;
  std::string data_name() const override;
  std::string model() const override;
  std::string attention() const override;
};
const std::vector<Measure>& measures();

struct EvaluateSettings final : Settings {
  void visit(Fields&) override {}
};
struct PredictSettings final : Settings {
  int64_t n_best = 1;
  int64_t places = 4;
  void visit(Fields&) override;
};

// ---- Data ---------------------------------------------------------------------------------------

struct PackedExample {
  PackedImage pixels;
  int64_t label = 0;
  std::string name;
};
struct ImageSets {
  std::vector<std::string> classes;
  std::vector<PackedExample> train, valid, test;
  std::string fingerprint;
  std::vector<std::string> warnings;  // images that were left out
};
image::Fit fit_of(const ImageConfig&);
ImageSets load_data(const ImageConfig&);
// The i-th of the built-in images.
PackedExample pair_of(const ImageConfig&, int64_t i);
// Of a folder with a folder for each class; throws where one has no such name.
std::vector<PackedExample> read_examples(const ImageConfig&,
                                         const std::vector<std::string>& classes,
                                         const std::string& folder, const image::Warn& = {});

// ---- The model at work --------------------------------------------------------------------------

inline constexpr const char* kClassesFile = "classes.json";

struct ImageModel {
  ImageConfig config;
  std::vector<std::string> classes;
  models::Convnet model;
};
void save_classes(const std::vector<std::string>&, const RunFolder&);
std::vector<std::string> load_classes(const RunFolder&);
ImageModel load_image_model(const RunFolder&);

struct Judgement {
  std::vector<float> probabilities;  // by class
  std::vector<float> weights;        // [S,S], a mean over heads, when kept
};
std::vector<Judgement> judge(const ImageModel&, std::span<const PackedImage* const>, Maps,
                             const ShareDone& = {});

// The places that are attended to most, none beside another: shares [S].
std::vector<int64_t> most_attended(const std::vector<float>& share, int64_t columns, int64_t most);

// The class that was said, and what moved it: places are inputs.
Inside inside(const ImageModel&, const PackedImage&);

// What all places attend to on average, and what the few do that are attended to most.
report::SeenImage seen_of(const ImageModel&, const PackedImage&, const Judgement&, int64_t places);

std::vector<Predictions> predict(const ImageModel&, std::span<const PackedExample>,
                                 const PredictSettings&, const Predicting&);

// loss and accuracy; and accuracy by class.
Evaluation evaluate(const ImageModel&, std::span<const PackedExample>, const ShareDone& = {});

// What is minimised: −log p of the class. It refers to the model.
train::Learner learner(const ImageModel&, const ImageSets&, const Watching&);

}  // namespace fovea::tasks::images
