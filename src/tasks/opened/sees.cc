#include <fmt/format.h>

#include <algorithm>

#include "fovea/error.h"
#include "fovea/ops.h"
#include "image/class_folders.h"
#include "image/resize.h"
#include "tasks/classes.h"
#include "tasks/deal.h"
#include "tasks/explain.h"
#include "tasks/opened/opened.h"

// Encoders that tell the class of a picture.
namespace fovea::tasks::opened {
namespace {

image::Image brought_to_size(const Opened& o, const image::Image& picture) {
  const checkpoints::PicturePlan& p = o.picture->plan;
  image::Image resized = image::resized(picture, p.side, p.side);
  if (resized.channels == p.channels) return resized;
  return image::fitted(resized, image::Fit{p.side, p.side, p.channels});
}

Tensor by_channel(const std::vector<float>& numbers) {
  return Tensor::from(numbers, {1, static_cast<int64_t>(numbers.size()), 1, 1});
}

// Pixels [R,C,Y,X] from 0 to 1 → rows.
Tensor read_pictures(const Opened& o, const Tensor& pixels,
                     const models::TransformerPass& pass = {}) {
  const checkpoints::PictureRows& p = *o.picture;
  const Tensor rows = p((pixels - by_channel(p.mean)) / by_channel(p.deviation));
  return models::encode(o.model.config, o.model.encoder, rows, {}, pass);
}

Tensor pixels_of(const image::Image& i) {
  return Tensor::from(i.pixels, {1, i.height, i.width, i.channels}).permute({0, 3, 1, 2});
}

Tensor picture_logits(const Opened& o, const image::Image& picture) {
  const NoGrad off;
  const Tensor rows = read_pictures(o, pixels_of(brought_to_size(o, picture)).contiguous());
  return checkpoints::said(*o.head, o.about.purpose, rows).select(0, 0);
}

// What the row that is judged looks at among the places: [H,1,places].
std::vector<LayerSeen> looks_of(const Opened& o, const RunPass& pass,
                                const std::vector<std::string>& places) {
  std::vector<LayerSeen> layers;
  for (auto b = o.model.encoder.blocks.rbegin(); b != o.model.encoder.blocks.rend(); ++b) {
    layers.push_back({b->self.name,
                      {"the picture"},
                      places,
                      b->self.config.heads,
                      [pass, name = b->self.name, &o](const Select& asked) {
                        const Tensor w = weights_in(pass, name, {asked.heads, {0}});
                        return w.slice(2, o.picture->plan.tokens, w.size(2));
                      }});
  }
  return layers;
}

Inside inside_picture(const Opened& o, const image::Image& picture) {
  const NoGrad off;
  Inside inside = look_inside_picture(o, picture);
  inside.outputs = o.about.classes;
  say_of_first_rows(o, o.picture->plan.tokens, inside.states, inside);
  say_class(inside);
  return inside;
}

class SeeingRun final : public OpenedRun<NoSettings, TopSettings> {
 public:
  using OpenedRun::OpenedRun;

  std::optional<Inside> inside(const Input& input) const override {
    return inside_picture(model(), picture_of(input));
  }
  std::optional<Tensors> logits(const Input& input) const override {
    return Tensors{{"logits", picture_logits(model(), picture_of(input))}};
  }
  std::vector<Example> examples(size_t) const override { return {}; }

 protected:
  std::vector<Predictions> predict_as(std::span<const Input> inputs, const TopSettings& how,
                                      const Predicting& watch) const override {
    return predictions_of(*this, inputs, By::attention, watch, [&](const Input& input) {
      const Tensor logits = picture_logits(model(), picture_of(input));
      return best_classes(model().about.classes, logits, how.n_best);
    });
  }
  Evaluation evaluate_as(const Judged& what, const NoSettings&,
                         const ShareDone& done) const override {
    const std::string& folder = file_to_judge(what, "a folder with a folder for each class");
    const checkpoints::PicturePlan& p = model().picture->plan;
    std::vector<std::string> warnings;
    const image::LabelledImages all =
        image::read_class_folders(folder, {p.side, p.side, p.channels}, image::keep_in(warnings));
    const std::vector<int64_t> places =
        places_of_classes(all.classes, model().about.classes, "eval", folder);
    std::vector<int64_t> right;
    std::vector<std::vector<float>> logits;
    for (const image::LabelledImage& one : all.images) {
      right.push_back(places[static_cast<size_t>(one.label)]);
    }
    const auto work = [&](size_t i) {
      return picture_logits(model(), all.images[i].image).to_vector();
    };
    deal(done, all.images.size(), work,
         [&](size_t, std::vector<float> found) { logits.push_back(std::move(found)); });
    Evaluation e = accuracy_of(model().about.classes, right, logits, "images");
    e.warnings = warnings;
    return e;
  }
};

std::unique_ptr<const Run> open_seeing(const RunFolder& folder) {
  return std::make_unique<const SeeingRun>(load_opened(folder));
}

}  // namespace

const image::Image& picture_of(const Input& input) {
  if (const auto* given = std::get_if<GivenImage>(&input)) return given->image;
  throw Error("predict", "this model sees pictures: name a PNG or JPEG file");
}

Inside look_inside_picture(const Opened& o, const image::Image& picture) {
  const NoGrad off;
  const checkpoints::PicturePlan& p = o.picture->plan;
  Inside inside{.title = "the picture", .outputs = {"the picture"}};
  const float grey =
      set_picture(inside, brought_to_size(o, picture), {p.side / p.patch, p.side / p.patch});
  inside.states = [&o, grey](const Tensor& rows, const models::TransformerPass& pass) {
    return read_pictures(o, rows + grey, pass);
  };
  inside.opens = Inside::Opens::blocks;
  const RunPass passing = [states = inside.states, x = inside.x.unsqueeze(0)](
                              const models::TransformerPass& pass) { states(x, pass); };
  inside.attention = [&o, passing, places = inside.inputs] { return looks_of(o, passing, places); };
  inside.rollout = [&o, passing] {
    const NoGrad none;
    HeadsSeen seen;
    passing({.hook = seen.hook()});
    std::vector<Tensor> layers;
    for (const nn::Block& b : o.model.encoder.blocks) layers.push_back(seen.named(b.self.name));
    const Tensor all = explain::rollout(layers);
    return all.slice(0, 0, 1).slice(1, o.picture->plan.tokens, all.size(1));
  };
  return inside;
}

Tensor rows_of_picture(const Opened& o, const image::Image& picture) {
  const NoGrad off;
  return read_pictures(o, pixels_of(brought_to_size(o, picture)).contiguous()).select(0, 0);
}

extern const Task task_sees = {
    .name = "classes of pictures",
    .title = "Classes of pictures",
    .about = "An encoder that somebody else trained, which tells what is on a picture",
    .takes = Takes::pictures,
    .scored = true,
    .measures = {{"accuracy", "accuracy, %", Better::higher, 2},
                 {"loss", "loss", Better::lower, 4}},
    .config = make<OpenedConfig, TaskConfig>,
    .evaluate_settings = make<NoSettings>,
    .predict_settings = make<TopSettings>,
    .open = open_seeing,
};

}  // namespace fovea::tasks::opened
