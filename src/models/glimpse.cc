#include "fovea/glimpse.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include "core/random.h"
#include "kernels/glimpse.h"
#include "models/checks.h"
#include "tensor/impl.h"

namespace fovea::models {

const char* name_of(GlimpseModel m) {
  static constexpr const char* kNames[] = {"recurrent", "soft", "random", "dense", "conv"};
  return kNames[static_cast<int>(m)];
}

GlimpseModel glimpse_model(const std::string& name) {
  return by_name("glimpse", "model", name,
                 {GlimpseModel::recurrent, GlimpseModel::soft, GlimpseModel::random,
                  GlimpseModel::dense, GlimpseModel::conv});
}

bool glimpses(const GlimpseConfig& c) {
  return c.model != GlimpseModel::dense && c.model != GlimpseModel::conv;
}

namespace {

constexpr int64_t kFilters = 8, kFilter = 10, kStride = 5;

int64_t seen_width(const Sensor& s) { return s.scales * s.size * s.size; }

int64_t strides(int64_t length) { return (length - kFilter) / kStride + 1; }

}  // namespace

void check(const GlimpseConfig& c) {
  const auto in_range = [](const char* field, int64_t value, int64_t low, int64_t high) {
    expect_range("glimpse", field, value, low, high);
  };
  in_range("height", c.height, 1, 4096);
  in_range("width", c.width, 1, 4096);
  in_range("classes", c.classes, 1, kLargest);
  in_range("size", c.sensor.size, 1, 256);
  in_range("scales", c.sensor.scales, 1, 8);
  in_range("glimpses", c.glimpses, 1, 1000);
  in_range("parts", c.parts, 1, 16384);
  in_range("hidden", c.hidden, 1, 16384);
  in_range("locator", c.locator, 1, 16384);
  in_range("grid", c.grid, 1, 64);
  if (!(c.sigma > 0 && c.sigma <= 10)) {
    throw Error("glimpse", fmt::format("sigma must be in (0, 10], found {}", c.sigma));
  }
  if (c.model == GlimpseModel::conv && std::min(c.height, c.width) < kFilter) {
    throw Error("glimpse", fmt::format("conv has filters of {0} × {0}, the images are {1} × {2}",
                                       kFilter, c.height, c.width));
  }
  if (c.model != GlimpseModel::soft) return;
  check(static_cast<const LookConfig&>(c));
  if (draws(c)) {
    throw Error("glimpse", fmt::format("weighting '{}' chooses one place: that is the model "
                                       "recurrent; soft takes softmax, sigmoid and their like",
                                       c.weighting));
  }
}

Tensor sense(const Sensor& sensor, const Tensor& images, const Tensor& places) {
  expect_dtype("sense", "images", images, DType::f32);
  expect_dtype("sense", "places", places, DType::f32);
  if (images.rank() != 3 || places.rank() != 2 || places.size(1) != 2 || images.size(0) == 0 ||
      places.size(0) % images.size(0) != 0) {
    throw Error("sense",
                fmt::format("images are {}, places are {}, expected [B,Y,X] and [N,2], N a "
                            "multiple of B",
                            to_string(images.shape()), to_string(places.shape())));
  }
  const kernels::Glimpses g{.B = images.size(0),
                            .Y = images.size(1),
                            .X = images.size(2),
                            .N = places.size(0),
                            .size = sensor.size,
                            .scales = sensor.scales};
  const auto here = [](const Tensor& t) { return t.detach().to(Device::cpu).contiguous(); };
  const Tensor seen = Tensor::empty({g.N, seen_width(sensor)}, DType::f32, Device::cpu);
  kernels::sense(g, raw(here(images)), raw(here(places)), raw(seen));
  return seen.to(images.device());
}

// ---- Weights -----------------------------------------------------------------------------------
namespace {

void add_glimpse_network(Glimpse& m) {
  const GlimpseConfig& c = m.config;
  m.see = nn::linear(m.weights, "see", seen_width(c.sensor), c.parts);
  m.where = nn::linear(m.weights, "where", 2, c.parts);
  m.join_seen = nn::linear(m.weights, "join.seen", c.parts, c.hidden);
  m.join_where = nn::linear(m.weights, "join.where", c.parts, c.hidden, nn::WithBias::no);
  m.core = nn::cell_weights(m.weights, "core", c.cell, c.hidden, c.hidden);
}

}  // namespace

Glimpse glimpse(const GlimpseConfig& c, nn::Weights weights) {
  check(c);
  Glimpse m{.config = c, .weights = std::move(weights)};
  nn::Weights& w = m.weights;
  if (glimpses(c)) add_glimpse_network(m);
  switch (c.model) {
    case GlimpseModel::recurrent:
      m.locate = nn::linear(w, "locate", c.hidden, c.locator);
      m.aim = nn::linear(w, "aim", c.locator, 2);
      m.baseline = nn::linear(w, "baseline", c.hidden, 1);
      break;
    case GlimpseModel::soft:
      m.look = look_weights(w, "look.", c, {.query = c.hidden, .key = c.hidden, .hidden = c.parts});
      break;
    case GlimpseModel::random:
      break;
    case GlimpseModel::dense:
      m.first = nn::linear(w, "first", c.height * c.width, c.hidden);
      m.second = nn::linear(w, "second", c.hidden, c.hidden);
      break;
    case GlimpseModel::conv:
      m.filters = w.add("filters.weight", {kFilters, 1, kFilter, kFilter}, nn::Init::uniform);
      m.filters_bias = w.add("filters.bias", {kFilters}, nn::Init::zeros);
      m.second = nn::linear(w, "second", kFilters * strides(c.height) * strides(c.width), c.hidden);
      break;
  }
  m.output = nn::linear(w, "output", c.hidden, c.classes);
  return m;
}

int64_t count_weights(const GlimpseConfig& c) {
  return glimpse(c, nn::Weights::sketch()).weights.count();
}

// ---- A pass ------------------------------------------------------------------------------------
namespace {

// The glimpse network at many steps of a pass: weights' gradients are taken once for all.
class Seeing {
 public:
  explicit Seeing(const Glimpse& m)
      : see_(m.see), where_(m.where), join_seen_(m.join_seen), join_where_(m.join_where) {}

  Tensor operator()(const Tensor& seen, const Tensor& places) {
    return relu(join_seen_(relu(see_(seen)), join_where_(relu(where_(places)))));
  }

 private:
  nn::SteppedLinear see_, where_, join_seen_, join_where_;
};

nn::State zeros(const Glimpse& m, int64_t rows) {
  nn::State s{Tensor::zeros({rows, m.config.hidden}), {}};
  if (m.config.cell == nn::Cell::lstm) s.c = Tensor::zeros({rows, m.config.hidden});
  return s;
}

// log N(l; μ, σ²) over both coordinates.
Tensor log_density(const Tensor& drawn, const Tensor& mean, float sigma) {
  const auto constant =
      static_cast<float>(-std::log(2 * std::numbers::pi * static_cast<double>(sigma * sigma)));
  return sum(square((drawn - mean) / sigma), {-1}) * -0.5f + constant;
}

// The places of one pass: each where the state before sends it. The policy reads the state and
// leaves it to the classes; what is drawn is off the tape, where it was aimed at on it.
class Places {
 public:
  Places(const Glimpse& m, const GlimpsePass& p, int64_t rows)
      : m_(m),
        p_(p),
        rows_(rows),
        seed_(Seed(p.seed).at("places")),
        random_(m.config.model == GlimpseModel::random),
        locate_(m.locate),
        aim_(m.aim) {}

  Tensor first() {
    if (p_.places) return keep(p_.places.select(0, 0));
    return keep(random_ ? anywhere() : Tensor::zeros({rows_, 2}));
  }

  Tensor next(const Tensor& state) {
    const Tensor given =
        p_.places ? p_.places.select(0, static_cast<int64_t>(all_.size())) : Tensor();
    if (random_) return keep(given ? given : anywhere());
    aims_.push_back(tanh(aim_(relu(locate_(state.detach())))));
    const NoGrad off;
    Tensor place = given ? given : aims_.back().detach();
    if (!given && p_.draw) place = place + noise() * sigma();
    drawn_.push_back(place);
    return keep(given ? given : clamp(place, -1.0f, 1.0f));
  }

  const std::vector<Tensor>& all() const { return all_; }
  const std::vector<Tensor>& aims() const { return aims_; }
  const std::vector<Tensor>& drawn() const { return drawn_; }
  float sigma() const { return p_.sigma > 0 ? p_.sigma : m_.config.sigma; }

 private:
  uint64_t seed_here() const { return seed_.at(static_cast<int64_t>(all_.size())).value(); }
  Tensor noise() const {
    if (p_.noise) return p_.noise.select(0, static_cast<int64_t>(all_.size()) - 1);
    return Tensor::randn({rows_, 2}, seed_here());
  }
  Tensor anywhere() const { return Tensor::rand({rows_, 2}, seed_here()) * 2.0f - 1.0f; }
  Tensor keep(const Tensor& place) {
    all_.push_back(place);
    return place;
  }

  const Glimpse& m_;
  const GlimpsePass& p_;
  int64_t rows_;
  Seed seed_;
  bool random_;
  nn::SteppedLinear locate_, aim_;
  std::vector<Tensor> all_, aims_, drawn_;
};

// One place after the other.
Glimpsed in_turn(const Glimpse& m, const Tensor& images, const GlimpsePass& p) {
  const GlimpseConfig& c = m.config;
  const int64_t N = images.size(0) * p.copies;
  Places places(m, p, N);
  Seeing seeing(m);
  nn::SteppedLinear input(m.core.input);
  nn::Stepper core(m.core);
  nn::State state = zeros(m, N);
  std::vector<Tensor> states, seen;
  for (int64_t t = 0; t < c.glimpses; ++t) {
    const Tensor place = t == 0 ? places.first() : places.next(state.h);
    const Tensor patch = sense(c.sensor, images, place);
    state = core(input(seeing(patch, place)), state);
    states.push_back(state.h);
    if (p.keep) seen.push_back(patch);
  }
  const Tensor all = stack(states, 0);  // [T,N,H]
  Glimpsed found{.logits = m.output(all), .places = stack(places.all(), 0)};
  if (p.keep) found.seen = stack(seen, 0);
  if (c.model == GlimpseModel::random || c.glimpses == 1) return found;
  found.drawn = stack(places.drawn(), 0);
  found.log_prob = log_density(found.drawn, stack(places.aims(), 0), places.sigma());
  found.baseline = m.baseline(all.slice(0, 0, c.glimpses - 1).detach()).squeeze(2);
  return found;
}

Tensor grid_places(int64_t side, int64_t rows) {
  std::vector<float> xy;
  for (int64_t k = 0; k < side * side; ++k) {
    const auto at = [&](int64_t i) {
      return static_cast<float>(2 * i + 1) / static_cast<float>(side) - 1.0f;
    };
    for (int64_t b = 0; b < rows; ++b) {
      xy.push_back(at(k % side));
      xy.push_back(at(k / side));
    }
  }
  return Tensor::from(xy, {side * side * rows, 2});
}

// All places of the grid at once; a state weighs what they show.
Glimpsed softly(const Glimpse& m, const Tensor& images, const GlimpsePass& p) {
  const GlimpseConfig& c = m.config;
  const int64_t B = images.size(0), S = c.grid * c.grid;
  const Tensor places = grid_places(c.grid, B);
  const Tensor shown =
      Seeing(m)(sense(c.sensor, images, places), places).reshape({S, B, c.hidden}).transpose(0, 1);
  const Tensor lengths = Tensor::from_ids(std::vector<int64_t>(static_cast<size_t>(B), S), {B});
  Looker looker(c, m.look, {shown, shown, lengths}, {.keep_weights = p.keep});
  nn::SteppedLinear input(m.core.input);
  nn::Stepper core(m.core);
  nn::State state = zeros(m, B);
  std::vector<Tensor> states, weights;
  for (int64_t t = 0; t < c.glimpses; ++t) {
    const Look look = looker.step(state.h, t);
    state = core(input(look.context), state);
    states.push_back(state.h);
    if (p.keep) weights.push_back(look.weights);
  }
  Glimpsed found{.logits = m.output(stack(states, 0))};
  if (p.keep) found.weights = stack(weights, 0);
  return found;
}

// All pixels at once.
Glimpsed whole(const Glimpse& m, const Tensor& images) {
  const int64_t B = images.size(0);
  Tensor first;
  if (m.config.model == GlimpseModel::dense) {
    first = m.first(images.reshape({B, images.size(1) * images.size(2)}));
  } else {
    Conv2d how;
    how.stride_y = how.stride_x = kStride;
    first = conv2d(images.unsqueeze(1), m.filters, m.filters_bias, how).reshape({B, -1});
  }
  return {.logits = m.output(relu(m.second(relu(first)))).unsqueeze(0)};
}

}  // namespace

Glimpsed look_around(const Glimpse& m, const Tensor& images, const GlimpsePass& p) {
  const GlimpseConfig& c = m.config;
  expect_dtype("glimpse", "images", images, DType::f32);
  if (images.rank() != 3 || images.size(1) != c.height || images.size(2) != c.width ||
      images.size(0) == 0) {
    throw Error("glimpse", fmt::format("images are {}, expected [B, {}, {}]",
                                       to_string(images.shape()), c.height, c.width));
  }
  if (p.copies < 1)
    throw Error("glimpse", fmt::format("copies must be 1 or more, found {}", p.copies));
  if (!(p.sigma >= 0 && p.sigma <= 10))
    throw Error("glimpse", fmt::format("sigma must be in [0, 10], found {}", p.sigma));
  const Shape places{c.glimpses, images.size(0) * p.copies, 2};
  if (p.places && p.places.shape() != places) {
    throw Error("glimpse", fmt::format("places are {}, expected {}", to_string(p.places.shape()),
                                       to_string(places)));
  }
  const Shape noise{c.glimpses - 1, places[1], 2};
  if (p.noise && p.noise.shape() != noise) {
    throw Error("glimpse", fmt::format("noise is {}, expected {}", to_string(p.noise.shape()),
                                       to_string(noise)));
  }
  if (c.model == GlimpseModel::soft) return softly(m, images, p);
  return glimpses(c) ? in_turn(m, images, p) : whole(m, images);
}

// ---- Learning ----------------------------------------------------------------------------------

namespace {

// Whether two passes may go different ways.
bool chances(const GlimpseConfig& c) {
  return c.model == GlimpseModel::recurrent || c.model == GlimpseModel::random;
}

// What answers [T,N,C] are worth, [T,N].
Tensor prizes_of(const Tensor& logits, const Tensor& targets, Prize prize) {
  const Shape shape{logits.size(0), logits.size(1)};
  if (prize == Prize::right) {
    return equal(argmax(logits, 2), targets.unsqueeze(0)).to(DType::f32);
  }
  const Tensor wanted = targets.unsqueeze(0).expand(shape).unsqueeze(2);
  return gather(softmax(logits), 2, wanted).squeeze(2);
}

}  // namespace

const char* name_of(Prize p) { return p == Prize::right ? "right" : "likely"; }
const char* name_of(Rewarded r) { return r == Rewarded::last ? "last" : "each"; }

GlimpseLoss loss(const Glimpsed& found, const Tensor& classes, const GlimpseLossConfig& c) {
  const int64_t T = found.logits.size(0), N = found.logits.size(1), B = classes.size(0);
  const Tensor targets = classes.unsqueeze(0).expand({N / B, B}).reshape({N});
  const auto nll_of = [&](const Tensor& logits, const Tensor& wanted) {
    return cross_entropy(logits, wanted, {.reduction = Reduction::mean});
  };
  const Tensor last = found.logits.select(0, T - 1);
  const Tensor nll = nll_of(last, targets);
  GlimpseLoss result{nll, static_cast<double>(nll.item()) * static_cast<double>(B)};
  if (T > 1 && c.early > 0) {
    result.loss = result.loss + c.early * nll_of(found.logits.slice(0, 0, T - 1),
                                                 targets.unsqueeze(0).expand({T - 1, N}));
  }
  if (!found.log_prob) return result;
  const Tensor prizes = prizes_of(found.logits.slice(0, 1, T).detach(), targets, c.prize);
  const Tensor ones = Tensor::full({T - 1, N}, 1.0f), none = Tensor::zeros({T - 1, N});
  const Tensor R = c.rewarded == Rewarded::last
                       ? prizes.slice(0, T - 2, T - 1).expand({T - 1, N})
                       : returns(prizes, c.discount) / returns(ones, c.discount);
  const Tensor terms = reinforce({found.log_prob, none, ones}, R, found.baseline, c);
  result.loss = result.loss + terms / static_cast<float>(N);
  return result;
}

GlimpseLoss loss(const Glimpse& m, const Tensor& images, const Tensor& classes,
                 const GlimpseLossConfig& c) {
  const GlimpsePass pass{
      .seed = c.seed, .copies = chances(m.config) ? c.copies : 1, .draw = true, .sigma = c.sigma};
  return loss(look_around(m, images, pass), classes, c);
}

Tensor probabilities(const Glimpse& m, const Tensor& images, int64_t passes, uint64_t seed) {
  const NoGrad off;
  const int64_t copies = chances(m.config) ? passes : 1, B = images.size(0);
  const Glimpsed found =
      look_around(m, images, {.seed = seed, .copies = copies, .draw = passes > 1});
  const Tensor p = softmax(found.logits);  // [T,copies·B,C]
  return mean(p.reshape({p.size(0), copies, B, p.size(2)}), {1});
}

}  // namespace fovea::models
