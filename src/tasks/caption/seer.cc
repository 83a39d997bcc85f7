#include "tasks/caption/seer.h"

#include <fmt/format.h>

#include "fovea/error.h"
#include "fovea/io.h"
#include "fovea/ops.h"

namespace fovea::tasks::captions {

const opened::Opened& Seer::opened() const {
  std::call_once(once_, [&] {
    const RunFolder folder(model_);
    if (!folder.is_checkpoint()) {
      throw Error("caption", fmt::format("--encoder {}: there is no config.json with a model_type, "
                                         "and new images cannot be seen without it",
                                         model_));
    }
    const checkpoints::CheckpointInfo about = checkpoints::about(model_);
    if (!is_of_pictures(about.purpose)) {
      throw Error("caption", fmt::format("--encoder {}: {} {}; images are seen by ViT or DeiT",
                                         model_, about.title, name_of(about.purpose)));
    }
    opened_ = opened::load_opened(folder);
  });
  return *opened_;
}

Shape Seer::shape() const {
  const checkpoints::PicturePlan& p = opened().picture->plan;
  return {opened().model.config.depth, p.side / p.patch, p.side / p.patch};
}

Tensor Seer::operator()(const image::Image& picture) const {
  const NoGrad off;
  const opened::Opened& o = opened();
  const Tensor rows = opened::rows_of_picture(o, picture);  // [tokens + places, W]
  const Tensor places = rows.slice(0, o.picture->plan.tokens, rows.size(0));
  return places.transpose(0, 1).contiguous().reshape(shape());
}

void suit_seer(CaptionConfig& c, const Seer& seer) {
  const Shape shape = seer.shape();
  models::CaptionerConfig& m = c.network;
  m.stride = 1;
  m.channels = m.features = shape[0];
  m.height = shape[1];
  m.width = shape[2];
}

void see(const CaptionConfig& c, const Seer& seer, CaptionedImage& x) {
  x.places = seer(unpacked(x.pixels, fit_of(c)));
}

void save_seen(const CaptionSets& sets, const std::string& file) {
  Tensors all;
  for (const auto* set : {&sets.train, &sets.valid, &sets.test}) {
    for (const CaptionedImage& x : *set) all[x.key] = x.places;
  }
  save_safetensors(file, all);
}

}  // namespace fovea::tasks::captions
