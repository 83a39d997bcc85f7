#include "checkpoints/rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace fovea::checkpoints {
namespace {

// base^(−2i/d)
std::vector<double> rates_of(double base, int64_t depth) {
  std::vector<double> rates;
  for (int64_t i = 0; i < depth / 2; ++i) {
    rates.push_back(std::pow(base, -2.0 * static_cast<double>(i) / static_cast<double>(depth)));
  }
  return rates;
}

// Fast rates stay, slow ones are divided by the factor, those between are mixed: by how often a
// rate turns in the length of the first training, n = L·rate/2π.
void slow_down_as_llama3(std::vector<double>& rates, const Config& c, double length) {
  const double factor = c.real("factor"), low = c.real("low_freq_factor"),
               high = c.real("high_freq_factor");
  if (!(factor > 0 && high > low)) c.refuse("factor", "no scaling that llama3 has");
  for (double& rate : rates) {
    const double turns = length * rate / (2 * std::numbers::pi);
    const double kept = std::clamp((turns - low) / (high - low), 0.0, 1.0);
    rate = (1 - kept) * rate / factor + kept * rate;
  }
}

// The same by the number of the pair: from `fast` turns on rates stay, up to `slow` they are
// divided. What is turned grows by 1 + log(factor)/10.
void slow_down_as_yarn(nn::RotaryConfig& r, const Config& c, double base, double length) {
  const double factor = c.real("factor"), fast = c.real("beta_fast", 32),
               slow = c.real("beta_slow", 1);
  if (!(factor >= 1)) c.refuse("factor", "expected 1 or more");
  const auto pairs = static_cast<double>(r.rates.size());
  const auto pair_that_turns = [&](double times) {
    return pairs * std::log(length / (times * 2 * std::numbers::pi)) / std::log(base);
  };
  double first = pair_that_turns(fast), last = pair_that_turns(slow);
  if (c.flag("truncate", true)) first = std::floor(first), last = std::ceil(last);
  first = std::max(first, 0.0);
  last = std::min(last, 2 * pairs - 1);
  if (first == last) last += 0.001;
  for (size_t i = 0; i < r.rates.size(); ++i) {
    const double divided = std::clamp((static_cast<double>(i) - first) / (last - first), 0.0, 1.0);
    r.rates[i] = r.rates[i] / factor * divided + r.rates[i] * (1 - divided);
  }
  for (const char* key : {"mscale", "mscale_all_dim"}) {
    if (c.has(key)) c.refuse(key, "a scaling that is not known here");
  }
  r.gain = static_cast<float>(c.real("attention_factor", 0.1 * std::log(factor) + 1.0));
}

nn::RotaryConfig scaled(const Config& whole, const Config& c, int64_t depth, double base) {
  if (!(base > 1)) c.refuse("rope_theta", "expected a number above 1");
  if (c.real("partial_rotary_factor", whole.real("partial_rotary_factor", 1.0)) != 1.0) {
    c.refuse("partial_rotary_factor", "and only whole heads are turned here");
  }
  nn::RotaryConfig r{.rates = rates_of(base, depth)};
  const std::string type = c.text("rope_type", c.text("type", "default"));
  const auto length = [&] {
    return c.real("original_max_position_embeddings", whole.real("max_position_embeddings"));
  };
  if (type == "linear") {
    for (double& rate : r.rates) rate /= c.real("factor");
  } else if (type == "llama3") {
    slow_down_as_llama3(r.rates, c, length());
  } else if (type == "yarn") {
    slow_down_as_yarn(r, c, base, length());
  } else if (type != "default") {
    c.refuse(c.has("rope_type") ? "rope_type" : "type",
             "and known here are default, linear, llama3 and yarn");
  }
  return r;
}

}  // namespace

nn::RotaryConfig base_alone(int64_t depth, double base) { return {.rates = rates_of(base, depth)}; }

nn::RotaryConfig rotary_in(const Config& config, int64_t depth, double base) {
  const std::optional<Config> now = config.object("rope_parameters"),
                              before = config.object("rope_scaling");
  const Config& c = now ? *now : before ? *before : config;
  const double theta = c.real("rope_theta", config.real("rope_theta", base));
  if (!now && !before) return {.rates = rates_of(theta, depth)};
  return scaled(config, c, depth, theta);
}

nn::RotaryConfig rotary_in(const Config& config, int64_t depth, double base,
                           const std::string& layers) {
  const std::optional<Config> all = config.object("rope_parameters");
  const std::optional<Config> own = all ? all->object(layers) : std::nullopt;
  if (!own) return rotary_in(config, depth, base);
  return scaled(config, *own, depth, own->real("rope_theta", base));
}

}  // namespace fovea::checkpoints
