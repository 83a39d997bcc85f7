#include "tasks/inside.h"

#include "fovea/error.h"
#include "fovea/ops.h"
#include "tasks/caption/caption.h"

namespace fovea::tasks::captions {
namespace {

using models::Intervention;

// A caption as the model wrote it, by force: what is asked is how likely each word was.
struct Said {
  std::vector<int64_t> in, out;  // begin y_1 …, and y_1 …
};

// Of grids [R,S,F], → [T,R,V].
Tensor logits_of(const CaptionModel& m, const Said& s, const Tensor& grid,
                 const Intervention& how) {
  const auto T = static_cast<int64_t>(s.in.size());
  const int64_t R = grid.size(0);
  const Tensor in = Tensor::from_ids(s.in, {T, 1}).expand({T, R}).contiguous();
  return models::logits(m.model, grid, in, how);
}

// What lies before the first look is computed once.
explain::LookAt look_at(const CaptionModel& m, const Said& s, const Tensor& image) {
  const NoGrad off;
  return [&m, s, grid = models::grid_of(m.model, image)](const Intervention& how) {
    std::vector<Tensor> used;  // [1,·,S], one look after the other
    const auto keep = [&](const models::Weighed& seen) {
      used.push_back(how ? how(seen) : seen.weights);
      return used.back();
    };
    const Tensor logits = logits_of(m, s, grid, Intervention(keep));
    return explain::Seen{log_softmax(logits.squeeze(1)), concatenate(used, 1).squeeze(0)};
  };
}

// Words that tell of an object and were written in their place.
std::vector<Inside::Boxed> boxed_in(const CaptionModel& m, const Scene& scene, const Said& said) {
  const double tall = static_cast<double>(m.config.network.height) / kSceneSide,
               wide = static_cast<double>(m.config.network.width) / kSceneSide;
  std::vector<Inside::Boxed> all;
  for (size_t t = 0; t < scene.words.size() && t < said.out.size(); ++t) {
    if (scene.names[t] < 0 || m.words.token(said.out[t]) != scene.words[t]) continue;
    const Box& b = scene.objects[static_cast<size_t>(scene.names[t])].box;
    all.push_back({t,
                   {static_cast<double>(b.left) * wide, static_cast<double>(b.top) * tall,
                    static_cast<double>(b.right - b.left) * wide,
                    static_cast<double>(b.bottom - b.top) * tall}});
  }
  return all;
}

void look_inside(const CaptionModel& m, const Said& said, float grey, Inside& inside) {
  inside.held = [&m, said, grey](const Tensor& rows) {
    const Tensor grid = models::grid_of(m.model, rows + grey);
    return log_odds_of(logits_of(m, said, grid, models::interventions::held()), said.out);
  };
  inside.look = look_at(m, said, inside.x.unsqueeze(0) + grey);
  inside.attention = [look = inside.look, inputs = inside.inputs, outputs = inside.outputs] {
    const NoGrad off;
    return std::vector<LayerSeen>{
        layer_of_weights("look", look({}).weights.unsqueeze(0), outputs, inputs)};
  };
}

}  // namespace

Inside inside(const CaptionModel& m, const CaptionedImage& x) {
  const NoGrad off;
  const std::vector<const CaptionedImage*> one = {&x};
  const models::Decoded d = describe(m, one, {})[0][0];
  Said said{.in = {text::kBegin}, .out = d.tokens};
  if (said.out.empty()) said.out = {text::kEnd};  // that it says nothing has reasons too
  said.in.insert(said.in.end(), said.out.begin(), said.out.end() - 1);

  Inside inside{.title = m.words.decode(d.tokens)};
  const auto shown = [&m](int64_t token) {
    return token == text::kEnd ? std::string("⏎") : m.words.token(token);
  };
  for (const int64_t token : said.out) inside.outputs.push_back(shown(token));
  float grey =
      set_picture(inside, unpacked(x.pixels, fit_of(m.config)),
                  {models::rows_of(m.config.network), models::columns_of(m.config.network)});
  if (x.places) {
    grey = 0;
    inside.x = x.places;
  }
  const auto of_maps = [&m, said](const Tensor& maps) {
    return log_odds_of(logits_of(m, said, models::grid_of_maps(m.model, maps), {}), said.out);
  };
  const auto maps_of = [&m, grey](const Tensor& rows) {
    return models::maps_of(m.model, rows + grey);
  };
  inside.convolution = {maps_of, of_maps};
  inside.log_odds = [maps_of, of_maps](const Tensor& rows) { return of_maps(maps_of(rows)); };
  inside.targets = said.out;
  inside.states = [&m, said, maps_of](const Tensor& rows, const models::TransformerPass&) {
    return logits_of(m, said, models::grid_of_maps(m.model, maps_of(rows)), {}).transpose(0, 1);
  };
  inside.said = [](const Tensor& logits) { return logits; };
  inside.named = shown;
  if (x.scene) inside.boxed = boxed_in(m, *x.scene, said);
  if (looks(m.config)) look_inside(m, said, grey, inside);
  return inside;
}

}  // namespace fovea::tasks::captions
