#include "fovea/captioner.h"

#include <algorithm>

#include "models/checks.h"
#include "models/decoder.h"
#include "models/grid.h"
#include "models/tokens.h"
#include "models/translated.h"

namespace fovea::models {
namespace {

constexpr int64_t kWidest = 16384;

GridShape shape_of(const CaptionerConfig& c) { return {c.height, c.width, c.channels, c.stride}; }
bool given(const CaptionerConfig& c) { return c.stride == 1; }

}  // namespace

void check(const CaptionerConfig& c) {
  const auto in_range = [](const char* field, int64_t value, int64_t low, int64_t high) {
    expect_range("captioner", field, value, low, high);
  };
  in_range("features", c.features, 2, kWidest);
  if (given(c)) {
    in_range("height", c.height, 1, 4096);
    in_range("width", c.width, 1, 4096);
    if (c.channels != c.features) {
      throw Error("captioner", fmt::format("of places that are given (stride 1), channels are the "
                                           "features; found {} and {}",
                                           c.channels, c.features));
    }
  } else {
    check_grid("captioner", shape_of(c));
  }
  in_range("depth", c.depth, 0, 32);
  in_range("longest_caption", c.longest_caption, 1, kLargest);
  if (!(c.doubly >= 0 && c.doubly <= 1e3f)) {
    throw Error("captioner", fmt::format("doubly must be in [0, 1000], found {}", c.doubly));
  }
  check(c, "captioner");
}

int64_t rows_of(const CaptionerConfig& c) { return c.height / c.stride; }
int64_t columns_of(const CaptionerConfig& c) { return c.width / c.stride; }

int64_t reach_of(const CaptionerConfig& c) {
  return given(c) ? 1 + 2 * c.depth : reach_of_grid(c.stride, c.depth);
}

namespace {

// (y, x) of each of rows × columns places, both from −1 to 1: [rows,columns,2].
Tensor coordinates(int64_t rows, int64_t columns) {
  const auto at = [](int64_t i, int64_t n) {
    return (2.0f * static_cast<float>(i) + 1.0f) / static_cast<float>(n) - 1.0f;
  };
  std::vector<float> all;
  for (int64_t n = 0; n < rows * columns; ++n) {
    all.push_back(at(n / columns, rows));
    all.push_back(at(n % columns, columns));
  }
  return Tensor::from(all, {rows, columns, 2});
}

Encoded encoded(const Captioner& m, const Tensor& rows) {  // [B,S,F]
  const int64_t B = rows.size(0), S = rows.size(1);
  const std::vector<int64_t> lengths(static_cast<size_t>(B), S);
  Encoded e{
      .sequence = rows.transpose(0, 1), .last = {}, .lengths = Tensor::from_ids(lengths, {B})};
  e.last.assign(static_cast<size_t>(m.config.layers), {mean(rows, {1}), {}});
  return e;
}

Encoded encode(const Captioner& m, const Tensor& images, Mode mode, const Dropout& drop) {
  return encoded(m, dropped(grid_of(m, images, mode), drop.at("encoded")));
}

// λ Σ_ij (1 − Σ_t a_tij)² of each row, a mean over rows; `seen` by step [B',1,S], steps of padding
// count for nothing. Where rows go two ways, B' is 2B, both ways side by side.
Tensor doubly_stochastic(const std::vector<Tensor>& seen, const Tensor& target, float lambda) {
  const Tensor all = seen.size() == 1 ? seen[0] : concatenate(seen, 1);  // [B',T,S]
  Tensor counts = not_equal(target, Tensor::zeros({}, DType::i64)).to(DType::f32).transpose(0, 1);
  const int64_t B = counts.size(0);
  if (all.size(0) != B) counts = index_select(counts, 0, each_repeated(B, all.size(0) / B));
  const Tensor total = sum(all * counts.unsqueeze(-1), {1});  // [B',S]
  return mean(sum(square(1.0f - total), {1})) * lambda;
}

}  // namespace

Tensor maps_of(const Captioner& m, const Tensor& images, Mode mode) {
  const CaptionerConfig& c = m.config;
  expect_images("captioner", shape_of(c), images);
  Tensor x = images;
  if (!given(c)) {
    const Tensor pixels = coordinates(c.height, c.width).permute({2, 0, 1}).unsqueeze(0);
    x = concatenate({centred(images), pixels.expand({images.size(0), 2, c.height, c.width})}, 1);
  }
  for (const nn::NormedConv& conv : m.convs) x = relu(conv(x, mode));
  return x;
}

Tensor grid_of_maps(const Captioner& m, const Tensor& maps) {
  const Tensor places = coordinates(maps.size(2), maps.size(3)).reshape({-1, 2});
  return nn::rows_of_grid(maps) + linear(places, m.positions);
}

Tensor grid_of(const Captioner& m, const Tensor& images, Mode mode) {
  return grid_of_maps(m, maps_of(m, images, mode));
}

Captioner captioner(const CaptionerConfig& given, nn::Weights weights) {
  check(given);
  CaptionerConfig c = given;
  c.longest_source = rows_of(c) * columns_of(c);
  Captioner m;
  m.config = c;
  m.weights = std::move(weights);
  nn::Weights& w = m.weights;
  GridShape with_places = shape_of(c);
  with_places.channels += 2;
  m.convs = halvings(w, "grid", with_places, std::max<int64_t>(c.features / 2, 1), c.features);
  for (int64_t n = 0; n < c.depth; ++n) {
    m.convs.push_back(nn::normed_conv(w, "grid." + std::to_string(m.convs.size()),
                                      {.in = c.features, .out = c.features}));
  }
  m.positions = w.add("grid.positions", {c.features, 2}, nn::Init::xavier, 2.0f);
  static_cast<Writer&>(m) = writer(w, c, c.features);
  return m;
}

int64_t count_weights(const CaptionerConfig& c) {
  return captioner(c, nn::Weights::sketch()).weights.count();
}

Loss loss(const Captioner& m, const CaptionBatch& batch, const LossConfig& c,
          const Intervention& intervention) {
  const Dropout drop{c.dropout, Seed(c.seed).at("dropout")};
  const Encoded grid = encode(m, batch.images, c.mode, drop);
  const Targets targets{batch.target_in, batch.target_out};
  const bool penalised =
      c.mode == Mode::train && m.config.doubly > 0 && m.config.context == Context::attention;
  if (!penalised) return loss_of({m, m.config}, grid, targets, c, intervention);
  std::vector<Tensor> seen;
  const auto see = [&](const Weighed& w) {
    seen.push_back(intervention ? intervention(w) : w.weights);
    return seen.back();
  };
  Loss result = loss_of({m, m.config}, grid, targets, c, see);
  const float per_token =
      static_cast<float>(targets.in.size(1)) / static_cast<float>(result.tokens);
  result.loss = result.loss + doubly_stochastic(seen, targets.out, m.config.doubly) * per_token;
  return result;
}

Tensor logits(const Captioner& m, const Tensor& grid, const Tensor& target_in,
              const Intervention& intervention) {
  return logits_of({m, m.config}, encoded(m, grid), target_in, intervention);
}

std::vector<std::vector<Decoded>> decode(const Captioner& m, const Tensor& images,
                                         const DecodeConfig& c, const Intervention& intervention) {
  check(c);
  const NoGrad off;
  DecodeConfig how = c;
  if (how.longest == 0) how.longest = m.config.longest_caption;
  return write_out({m, m.config}, encode(m, images, Mode::eval, {}), how, intervention);
}

}  // namespace fovea::models
