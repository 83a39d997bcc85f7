#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "fovea/glimpse.h"
#include "image/image.h"
#include "image/placed.h"
#include "image/resize.h"
#include "tasks/run_folder.h"
#include "tasks/task.h"

// Images classified by glimpses: from images with their classes to a trained model, its errors, and
// the way it looks over an image.
namespace fovea::tasks {
extern const Task task_glimpse;
}

namespace fovea::tasks::glimpsing {

struct ImageData {
  std::string builtin = "digits";  // used where no data are given
  int64_t examples = 12000;        // of the built-in ones
  std::string data;                // the user's: a folder of idx files, or a CSV file
  std::string class_column;        // CSV: as image::read_csv() takes it
  image::PlacedConfig placed{.placing = image::Placing::unsaid};
  image::Augmentation augmentation;            // of training images
  double valid_share = 0.1, test_share = 0.1;  // test: where the data have no such set of their own
};

struct Config final : TaskConfig {
  ImageData data;
  models::GlimpseConfig network;  // its sizes and classes are found in the data
  models::GlimpseLossConfig loss;
  double sigma_start = 0;   // network.sigma when training begins; 0: the same throughout
  double locator_rate = 1;  // of what decides where to look, times the rate
  int64_t passes = 1;       // that an answer is the mean of

  Config() { train.batch_tokens = 1 << 20; }  // so many images decide alone
  void visit(Fields&) override;
  void suit_data() override;
  std::string data_name() const override;
  std::string model() const override;
  std::string attention() const override;
};
const std::vector<Measure>& measures();
// σ when a share of the training is done: σ_start·(σ/σ_start)^done.
float sigma_at(const Config&, double done);

struct EvaluateSettings final : Settings {
  int64_t passes = 0;        // 0: those of the training
  std::string class_column;  // empty: that of the training
  void visit(Fields&) override;
};
struct PredictSettings final : Settings {
  int64_t passes = 0, n_best = 1;
  int64_t ways = 0;
  std::string class_column;  // empty: that of the training
  void visit(Fields&) override;
};

// ---- Images -------------------------------------------------------------------------------------

struct Sets {
  std::vector<image::LabelledImage> train, valid, test;
  std::vector<std::string> classes;
  std::string class_column;  // CSV: where the classes were
  std::string fingerprint;
};
Sets load_data(const ImageData&, uint64_t seed);

// What goes with the weights: the classes, and the side of the canvas.
struct Known {
  std::vector<std::string> classes;
  int64_t side = 0;
};
inline constexpr const char* kKnownFile = "classes.json";
Known known_of(const Sets&, const ImageData&);
void save(const Known&, const RunFolder&);
Known load_known(const RunFolder&);

// Images on their canvases, [n,side,side]. Held out, image i of a set is always placed alike; in
// training, by a seed of the step's.
Tensor held_out_batch(const ImageData&, std::span<const image::LabelledImage>,
                      std::span<const int64_t> which, int64_t side);
Tensor training_batch(const ImageData&, std::span<const image::LabelledImage>,
                      std::span<const int64_t> which, int64_t side, uint64_t seed);
Tensor classes_of(std::span<const image::LabelledImage>, std::span<const int64_t> which);

// What is asked about, on the canvas: a row of a data set stands in its middle, a photo covers it.
image::Image placed_image(const Input&, const ImageData&, const Known&,
                          const std::function<const Sets&()>&);

// ---- The model at work --------------------------------------------------------------------------

struct Viewer {
  Config config;
  Known known;
  models::Glimpse model;
};
Viewer load_viewer(const RunFolder&);

// Errors in whole, by class and by how many glimpses were taken.
Evaluation evaluate(const Viewer&, std::span<const image::LabelledImage>, int64_t passes,
                    const ShareDone& = {});
Predictions predict(const Viewer&, const image::Image&, const PredictSettings&, Maps);

// What is minimised: models::loss(). It refers to the viewer and the sets.
train::Learner learner(const Viewer&, const Sets&, const Watching&);

}  // namespace fovea::tasks::glimpsing
