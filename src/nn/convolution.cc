#include "fovea/convolution.h"

#include "fovea/error.h"

namespace fovea::nn {

NormedConv normed_conv(Weights& w, const std::string& name, const ConvShape& s) {
  if (s.in < 1 || s.out < 1 || s.size < 1 || s.size % 2 == 0 || s.stride < 1) {
    throw Error("normed_conv", name + ": " + std::to_string(s.in) + " to " + std::to_string(s.out) +
                                   " channels, window " + std::to_string(s.size) + ", stride " +
                                   std::to_string(s.stride) +
                                   "; all must be 1 or more, the window odd");
  }
  NormedConv c;
  // ±√6/√fan_in: a relu that follows leaves the variance as it is.
  c.weight = w.add(name + ".weight", {s.out, s.in, s.size, s.size}, Init::uniform, 2.45f);
  c.scale = w.add(name + ".scale", {s.out}, Init::ones);
  c.shift = w.add(name + ".shift", {s.out}, Init::zeros);
  c.mean = w.add_buffer(name + ".mean", {s.out}, 0.0f);
  c.var = w.add_buffer(name + ".var", {s.out}, 1.0f);
  c.how.stride_y = c.how.stride_x = s.stride;
  c.how.pad_y = c.how.pad_x = s.size / 2;
  return c;
}

Tensor NormedConv::operator()(const Tensor& x, Mode mode) const {
  BatchNorm running{.running_mean = mean, .running_var = var};
  return batch_norm(conv2d(x, weight, {}, how), scale, shift, running, mode);
}

ResidualConv residual_conv(Weights& w, const std::string& name, int64_t channels) {
  const ConvShape same{.in = channels, .out = channels};
  return {normed_conv(w, name + ".first", same), normed_conv(w, name + ".second", same)};
}

Tensor ResidualConv::operator()(const Tensor& x, Mode mode) const {
  return relu(x + second(relu(first(x, mode)), mode));
}

Tensor rows_of_grid(const Tensor& x) {
  return x.reshape({x.size(0), x.size(1), x.size(2) * x.size(3)}).transpose(1, 2).contiguous();
}

Tensor grid_of_rows(const Tensor& rows, int64_t height, int64_t width) {
  return rows.transpose(1, 2).reshape({rows.size(0), rows.size(2), height, width});
}

GridAttention grid_attention(Weights& w, const std::string& name, const GridAttentionConfig& c) {
  if (c.channels < 1 || c.heads < 1 || c.depth < 1) {
    throw Error("grid_attention", name + ": channels, heads and depth must be 1 or more, found " +
                                      std::to_string(c.channels) + ", " + std::to_string(c.heads) +
                                      " and " + std::to_string(c.depth));
  }
  const int64_t inside = c.heads * c.depth;
  GridAttention g;
  g.heads = c.heads;
  // Sharper from the start than linear() would begin: what is uniform tells no place from another.
  const auto sharp = [&](const std::string& part) {
    return Linear{w.add(name + part + ".weight", {inside, c.channels}, Init::uniform, 4.0f),
                  w.add(name + part + ".bias", {inside}, Init::zeros)};
  };
  g.queries = sharp(".queries");
  g.keys = sharp(".keys");
  g.values = linear(w, name + ".values", c.channels, inside);
  g.out = linear(w, name + ".out", inside, c.channels);
  g.gate = w.add(name + ".gate", {1}, Init::zeros);
  g.attention.score = scores::scaled_dot();
  return g;
}

GridAttention::Output GridAttention::operator()(const Tensor& x, Keep keep) const {
  const Tensor rows = rows_of_grid(x);  // [B,S,C]
  const auto split = [&](const Tensor& t) {
    return t.reshape({t.size(0), t.size(1), heads, t.size(2) / heads}).transpose(1, 2);
  };
  const Attended a = attend(split(queries(rows)), split(keys(rows)), split(values(rows)), attention,
                            {.weights = keep == Keep::weights});
  const Tensor merged = a.context.transpose(1, 2).reshape({rows.size(0), rows.size(1), -1});
  Output result{.y = x + gate * grid_of_rows(out(merged), x.size(2), x.size(3))};
  if (keep == Keep::weights) result.weights = a.weights().detach();
  return result;
}

}  // namespace fovea::nn
