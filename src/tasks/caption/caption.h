#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "fovea/captioner.h"
#include "fovea/text.h"
#include "image/class_folders.h"
#include "image/image.h"
#include "report/seen_image.h"
#include "tasks/caption/scenes.h"
#include "tasks/packed_image.h"
#include "tasks/run_folder.h"
#include "tasks/task.h"

// Captions: from images with sentences to a trained model, its scores and where it looked at each
// word.
namespace fovea::tasks {
extern const Task task_caption;
}

namespace fovea::tasks::captions {

struct CaptionData {
  std::string builtin = "scenes";  // used where no file is given
  int64_t examples = 12000;        // of the built-in data
  std::string data;                // the user's: TSV, a token file, or JSON
  std::string images;              // the folder that its names are in; empty: the file's own
  std::string places;              // a file of what another network made of them; empty: none
  std::string encoder;             // a model that sees them in place of a convolution; empty: none
  std::string seen;                // the run's own file of what that made of them; no setting
  double valid_share = 0.05, test_share = 0.1;
};

struct CaptionConfig final : TaskConfig {
  CaptionData data;
  text::TokenizerConfig words{.unit = text::Unit::words, .size = 10000, .min_count = 1};
  models::CaptionerConfig network;  // the vocabulary is found in the data
  models::LossConfig loss;
  int64_t valid_images = 200;  // captioned at each validation
  int64_t beam = 1;            // of the final scores

  CaptionConfig() {
    train.batch_tokens = 1 << 20;  // so many images decide alone
    network.depth = 0;             // more where it was said, before suit_data()
  }
  void visit(Fields&) override;
  void suit_data() override;
  std::string data_name() const override;
  std::string model() const override;
  std::string attention() const override;
};
const std::vector<Measure>& measures();

struct EvaluateSettings : Settings {
  models::DecodeConfig decode;
  std::string places;  // of the images; empty: the file of the training
  void visit(Fields&) override;
};
struct PredictSettings final : EvaluateSettings {
  void visit(Fields&) override;
};

// ---- Data ---------------------------------------------------------------------------------------

struct CaptionModel;

// What a file says of images, before any is read.
enum class Side : uint8_t { any, train, valid, test };  // any: as the shares say
struct ListedImage {
  std::string name;  // as the file has it
  std::vector<std::string> captions;
  Side side = Side::any;
};
// "image<TAB>caption" a line, with or without Flickr's #0 … #4 after the name; JSON as COCO has it
// (images and annotations) or with sentences and a split in each image (Karpathy). In the order in
// which images first come.
std::vector<ListedImage> read_captions(const std::string& file);

// An image in bytes, as many as fit_of() says, and what is said of it.
struct CaptionedImage {
  std::string name, key;  // key: as the data call it
  PackedImage pixels;
  Tensor places;  // [F,Y,X] where they are given: what the model sees in place of the pixels
  std::vector<std::string> captions;
  std::optional<Scene> scene;  // built-in data: its objects and words, without the pixels
};

struct CaptionSets {
  std::vector<CaptionedImage> train, valid, test;
  std::string fingerprint;
  std::vector<std::string> warnings;  // images that were left out
};
image::Fit fit_of(const CaptionConfig&);  // of the images as they are shown
class Seer;                               // seer.h; null where there is no encoder
CaptionSets load_data(const CaptionConfig&, const Seer* = nullptr);
// The i-th scene of a run's data, whichever set it is of.
CaptionedImage scene_of(const CaptionConfig&, int64_t i);
// The images of a file of the user's; broken ones are left out, if others are not, and told of.
// `places` as places_file() takes them.
std::vector<CaptionedImage> read_captioned(const CaptionModel&, const std::string& file,
                                           const std::string& places, const image::Warn& = {});

// ---- The model at work --------------------------------------------------------------------------

inline constexpr const char* kWordsFile = "words.vocab";

struct CaptionModel {
  CaptionConfig config;
  text::Tokenizer words;
  models::Captioner model;
  std::shared_ptr<const Seer> seer = {};
};
CaptionModel load_caption_model(const RunFolder&);
bool looks(const CaptionConfig&);
bool convolves(const CaptionConfig&);  // sees pixels, and no places of another network

// The n best of each image, in its order.
std::vector<std::vector<models::Decoded>> describe(const CaptionModel&,
                                                   std::span<const CaptionedImage* const> images,
                                                   const models::DecodeConfig&,
                                                   const ShareDone& = {});

// Pictures as the model gets them, `places` as places_file() takes them.
std::vector<CaptionedImage> captioned(const CaptionModel&, std::span<const GivenImage* const>,
                                      const std::string& places);

std::vector<Predictions> predict(const CaptionModel&, std::span<const CaptionedImage>,
                                 const models::DecodeConfig&, const ShareDone& = {});

// The words that were written, and what moved each: places are inputs.
Inside inside(const CaptionModel&, const CaptionedImage&);

// ---- Scores -------------------------------------------------------------------------------------

// Of the words that name an object and were written in their place: how many had the centre of the
// place looked at most inside the object's box.
struct ObjectHits {
  int64_t words = 0, hits = 0;
  double percent() const;  // NaN where there are no words
};
ObjectHits object_hits(const CaptionModel&, const Scene&, const models::Decoded&);

Evaluation evaluate(const CaptionModel&, std::span<const CaptionedImage>,
                    const models::DecodeConfig&, const ShareDone& = {});
double mean_loss(const CaptionModel&, std::span<const CaptionedImage>, const ShareDone&);

// What the model sees of images: [B,C,height,width].
Tensor seen_of(const CaptionModel&, std::span<const CaptionedImage* const> images);
models::CaptionBatch make_batch(const CaptionModel&, std::span<const CaptionedImage* const> images,
                                std::span<const std::vector<int64_t>* const> captions);

// What is minimised: −log p of the captions. It refers to the model.
train::Learner learner(const CaptionModel&, const CaptionSets&, const Watching&);

}  // namespace fovea::tasks::captions
