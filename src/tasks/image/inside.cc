#include "tasks/inside.h"

#include <fmt/format.h>

#include "fovea/ops.h"
#include "tasks/image/image_task.h"

namespace fovea::tasks::images {
namespace {

constexpr int64_t kPlaces = 4;

// What all places attend to on average, and what those do that are attended to most.
std::vector<LayerSeen> layers_of(const ImageModel& m, const Tensor& image, const Inside& labels) {
  const NoGrad off;
  const Tensor weights =
      models::classify(m.model, image, {.keep_weights = true}).weights.select(0, 0);  // [H,S,S]
  const Tensor all = mean(weights, {1}, Keep::yes);                                   // [H,1,S]
  const std::vector<int64_t> most =
      most_attended(mean(all, {0, 1}).to_vector(), labels.grid.columns, kPlaces);
  std::vector<std::string> from;
  for (const int64_t place : most) {
    from.push_back("from " + labels.inputs[static_cast<size_t>(place)]);
  }
  const Tensor of_most =
      index_select(weights, 1, Tensor::from_ids(most, {static_cast<int64_t>(most.size())}));
  return {layer_of_weights("all", all, {"all places"}, labels.inputs),
          layer_of_weights("places", of_most, from, labels.inputs)};
}

}  // namespace

Inside inside(const ImageModel& m, const PackedImage& image) {
  const NoGrad off;
  const models::ConvnetConfig& c = m.config.network;
  Inside inside{.outputs = m.classes};
  const float grey = set_picture(inside, unpacked(image, fit_of(m.config)),
                                 {c.height / c.stride, c.width / c.stride});
  const auto maps_of = [&m, grey](const Tensor& rows) {
    return models::classify(m.model, rows + grey).maps;
  };
  const auto of_maps = [&m](const Tensor& maps) {
    return log_odds_of_classes(m.model.output(mean(maps, {2, 3})));
  };
  inside.convolution = {maps_of, of_maps};
  inside.log_odds = [maps_of, of_maps](const Tensor& rows) { return of_maps(maps_of(rows)); };
  say_class(inside);
  if (!c.attention) return inside;
  inside.attention = [&m, image = inside.x.unsqueeze(0) + grey,
                      labels = Inside{.inputs = inside.inputs, .grid = inside.grid}] {
    return layers_of(m, image, labels);
  };
  return inside;
}

}  // namespace fovea::tasks::images
