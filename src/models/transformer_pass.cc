#include "models/transformer_pass.h"

#include <fmt/format.h>

#include <cmath>

#include "fovea/ops.h"
#include "models/checks.h"
#include "nn/dropout.h"

namespace fovea::models {
namespace {

void check_positions(const TransformerConfig& c, int64_t needed) {
  if (c.positions == nn::Positions::learned && needed > c.longest) {
    throw Error("transformer",
                fmt::format("a sequence of {}, and {} positions are learned: give it in parts, "
                            "or train with other positions",
                            needed, c.longest));
  }
}

float embedding_scale(const TransformerConfig& c) {
  if (c.embedding_scale) return *c.embedding_scale;
  const bool grows = c.positions == nn::Positions::sinusoidal;
  return grows ? std::sqrt(static_cast<float>(c.depth)) : 1.0f;
}

// of(run) for each, one after the other [L,·].
template <class Of>
Tensor of_runs(const RowRuns& runs, const Of& of) {
  if (runs.size() == 1) return of(runs[0]);
  std::vector<Tensor> all;
  for (const RowRun& run : runs) all.push_back(of(run));
  return concatenate(all, 0);
}

}  // namespace

// widen(norm(scale·x + positions + type))
Tensor entered(const TransformerConfig& c, const Stack& s, const Tensor& embedded,
               const RowRuns& runs) {
  for (const RowRun& run : runs) check_positions(c, run.end);
  const float scale = embedding_scale(c);
  Tensor x = scale == 1.0f ? embedded : embedded * scale;
  if (c.positions == nn::Positions::learned) {
    const int64_t at = c.first_position;
    x = x + of_runs(runs, [&](const RowRun& r) {
          return s.positions.slice(0, at + r.begin, at + r.end);
        });
  }
  if (c.types > 0) x = x + s.types.slice(0, 0, 1);
  if (c.positions == nn::Positions::sinusoidal) {
    x = x + of_runs(runs, [&](const RowRun& r) {
          return nn::sinusoidal_positions(r.begin, r.end - r.begin, x.size(2));
        });
  }
  if (c.embedding_norm) x = s.first(x);
  return c.embedding_width > 0 ? s.widen(x) : x;
}

const nn::Rotary* PassAngles::of(const nn::RotaryConfig& c) {
  for (const auto& [config, table] : made_) {
    if (*config == c) return table.get();
  }
  std::vector<Tensor> cos, sin;
  for (const RowRun& run : runs_) {
    const nn::Rotary r = nn::rotary_positions(run.begin, run.end - run.begin, depth_, c);
    cos.push_back(r.cos);
    sin.push_back(r.sin);
  }
  const bool one = runs_.size() == 1;
  made_.emplace_back(
      &c, std::make_unique<nn::Rotary>(
              nn::Rotary{one ? cos[0] : concatenate(cos, 0), one ? sin[0] : concatenate(sin, 0)}));
  return made_.back().second.get();
}

std::optional<Bias> bias_of(const TransformerConfig& c, const Stack& s, int64_t Lq, int64_t Lk) {
  if (c.positions == nn::Positions::alibi) {
    return biases::alibi(nn::alibi_slopes(c.heads), Lq, Lk);
  }
  if (c.positions == nn::Positions::t5) {
    return biases::t5(s.positions, Lq, Lk, !s.causal, c.farthest);
  }
  return {};
}

Mask mask_of(const Stack& s, const nn::Block& b, const Mask& mask) {
  const int64_t window = b.config.window;
  return window > 0 && s.causal ? mask & masks::window(window - 1, 0) : mask;
}

Tensor logits_of(const TransformerConfig& c, const nn::Linear& output, const Tensor& states) {
  const Tensor l = output(states);
  return c.output_cap ? *c.output_cap * tanh(l / *c.output_cap) : l;
}

Losses output_losses(const TransformerConfig& c, const nn::Linear& output) {
  if (!c.output_cap) return losses_of(output);
  return [&c, output](const Tensor& rows, const Tensor& targets, const CrossEntropy& how) {
    return cross_entropy(logits_of(c, output, rows), targets, how);
  };
}

void expect_part(const char* call, const Stack& s, const char* part) {
  if (s.blocks.empty()) throw Error(call, std::string("this Transformer has no ") + part);
}

TransformerPass pass_of(const LossConfig& c, const nn::HeadsHook& hook) {
  if (c.mode == Mode::eval) return {.hook = hook, .type = c.type};
  return {.noise = {c.dropout, c.seed}, .hook = hook, .type = c.type};
}

TransformerPass at(const TransformerPass& p, const char* place) {
  return {nn::Dropout(p.noise).at(place).noise(), p.hook, p.block, p.type};
}

}  // namespace fovea::models
