#include "fovea/transformer.h"

#include <cmath>
#include <optional>

#include "fovea/ops.h"
#include "models/checks.h"
#include "models/screen.h"
#include "models/tokens.h"
#include "nn/dropout.h"

namespace fovea::models {
namespace {

constexpr int64_t kT5Buckets = 32;

nn::BlockConfig block_of(const TransformerConfig& c, bool cross) {
  nn::HeadGroup group{.heads = c.heads, .score = c.score, .weighting = c.weighting};
  return {.heads = {.width = c.depth,
                    .heads = c.heads,
                    .key_heads = c.key_heads,
                    .groups = {c.linear ? nn::linear_heads(c.heads) : group},
                    .init = c.init},
          .mlp_width = c.mlp_width,
          .activation = c.activation,
          .norm = c.norm,
          .order = c.order,
          .cross = cross,
          .of = c.blocks};
}

Stack stack_of(nn::Weights& w, const std::string& name, const TransformerConfig& c, bool cross) {
  Stack s;
  for (int64_t b = 0; b < c.blocks; ++b) {
    s.blocks.push_back(nn::block(w, name + "." + std::to_string(b), block_of(c, cross)));
  }
  if (c.order == nn::NormOrder::pre) s.last = nn::norm(w, name + ".norm", c.norm, c.depth);
  if (c.positions == nn::Positions::learned) {
    s.positions = w.add(name + ".positions", {c.longest, c.depth}, nn::Init::small);
  } else if (c.positions == nn::Positions::t5) {
    s.positions = w.add(name + ".positions", {kT5Buckets, c.heads}, nn::Init::small);
  }
  return s;
}

// Where a stack's rows stand, and what each block is given.
struct StackPass {
  int64_t first = 0;  // position of the first row
  Tensor lengths;     // of the rows, padding after them
  const std::vector<nn::KeyValues>* source = nullptr;
  std::vector<nn::KeyValues>* past = nullptr;
  const TransformerPass& how;
};

void check_positions(const TransformerConfig& c, int64_t needed) {
  if (c.positions == nn::Positions::learned && needed > c.longest) {
    throw Error("transformer",
                fmt::format("a sequence of {}, and {} positions are learned: give it in parts, "
                            "or train with other positions",
                            needed, c.longest));
  }
}

Tensor with_positions(const TransformerConfig& c, const Stack& s, const Tensor& x, int64_t first) {
  const int64_t L = x.size(1);
  check_positions(c, first + L);
  if (c.positions == nn::Positions::learned) return x + s.positions.slice(0, first, first + L);
  if (c.positions != nn::Positions::sinusoidal) return x;
  return x * std::sqrt(static_cast<float>(c.depth)) + nn::sinusoidal_positions(first, L, c.depth);
}

std::optional<Bias> bias_of(const TransformerConfig& c, const Stack& s, int64_t Lq, int64_t Lk) {
  if (c.positions == nn::Positions::alibi) {
    return biases::alibi(nn::alibi_slopes(c.heads), Lq, Lk);
  }
  if (c.positions == nn::Positions::t5) return biases::t5(s.positions, Lq, Lk, !s.causal);
  return {};
}

// x [B,L,W], embedded.
Tensor through(const TransformerConfig& c, const Stack& s, const Tensor& embedded,
               const StackPass& pass) {
  const int64_t L = embedded.size(1);
  const nn::Dropout drop = pass.how.noise;
  nn::BlockPass each;
  if (s.causal) each.self.mask = masks::causal();
  if (pass.lengths) each.self.mask = each.self.mask & masks::lengths(pass.lengths);
  nn::Rotary rotary;
  if (c.positions == nn::Positions::rotary) {
    rotary = nn::rotary_positions(pass.first, L, c.depth / c.heads);
    each.self.rotary = &rotary;
  }
  each.self.bias = bias_of(c, s, L, pass.first + L);
  if (pass.how.hook) each.self.hook = each.cross.hook = &pass.how.hook;
  Tensor x = dropped(with_positions(c, s, embedded, pass.first), drop.at("embedded"));
  for (size_t b = 0; b < s.blocks.size(); ++b) {
    if (pass.source) each.source = &(*pass.source)[b];
    if (pass.past) each.self.past = &(*pass.past)[b];
    each.noise = drop.at(static_cast<int64_t>(b)).noise();
    x = pass.how.block ? pass.how.block(s.blocks[b], x, each) : s.blocks[b](x, each);
  }
  return c.order == nn::NormOrder::pre ? s.last(x) : x;
}

void expect_part(const char* call, const Stack& s, const char* part) {
  if (s.blocks.empty()) throw Error(call, std::string("this Transformer has no ") + part);
}

TransformerPass pass_of(const LossConfig& c, const nn::HeadsHook& hook) {
  if (c.mode == Mode::eval) return {.hook = hook};
  return {{c.dropout, c.seed}, hook};
}

TransformerPass at(const TransformerPass& p, const char* place) {
  return {nn::Dropout(p.noise).at(place).noise(), p.hook, p.block};
}

}  // namespace

void check(const TransformerConfig& c) {
  const auto in_range = [](const char* field, int64_t value, int64_t low, int64_t high) {
    expect_range("transformer", field, value, low, high);
  };
  in_range("source_vocabulary", c.source_vocabulary, 0, 10 * kLargest);
  in_range("target_vocabulary", c.target_vocabulary, c.source_vocabulary > 0 ? 0 : 1,
           10 * kLargest);
  in_range("blocks", c.blocks, 1, 512);
  in_range("query depth", c.depth, 1, 65536);
  in_range("heads", c.heads, 1, 1024);
  in_range("key_heads", c.key_heads, 0, 1024);
  in_range("mlp_width", c.mlp_width, 0, kLargest);
  in_range("longest", c.longest, 1, 100 * kLargest);
  if (c.depth % c.heads != 0) {
    throw Error("transformer",
                fmt::format("{} heads do not divide a query depth of {}", c.heads, c.depth));
  }
  if (c.positions == nn::Positions::rotary && c.depth / c.heads % 2 != 0) {
    throw Error("transformer",
                fmt::format("rotary positions need an even depth of each head, found {} / {} = {}",
                            c.depth, c.heads, c.depth / c.heads));
  }
  if (c.linear && (c.positions == nn::Positions::alibi || c.positions == nn::Positions::t5)) {
    throw Error("transformer", fmt::format("linear attention has no scores that {} positions could "
                                           "be added to; take rotary",
                                           name_of(c.positions)));
  }
  nn::check(block_of(c, false).heads);
}

Transformer transformer(const TransformerConfig& c, nn::Weights weights) {
  check(c);
  Transformer m{.config = c, .weights = std::move(weights)};
  nn::Weights& w = m.weights;
  const bool encodes = c.source_vocabulary > 0, decodes = c.target_vocabulary > 0;
  if (encodes) {
    m.source.table = w.add("source.weight", {c.source_vocabulary, c.depth}, nn::Init::small);
    m.encoder = stack_of(w, "encoder", c, false);
  }
  if (decodes) {
    // One that is the output layer too starts small, so that no token is likelier than another.
    // Else it starts as large as what blocks add to it: what a token is must not be lost in what
    // they see around it, or they are long in learning to look for it.
    const float size = c.tied ? 1.0f : 50.0f;
    m.target.table = w.add("target.weight", {c.target_vocabulary, c.depth}, nn::Init::small, size);
    m.decoder = stack_of(w, "decoder", c, encodes);
    m.decoder.causal = true;
    m.output.weight =
        c.tied ? m.target.table : w.add("output.weight", {c.target_vocabulary, c.depth}, c.init);
    m.screen = std::make_shared<OutputScreen>();
  }
  return m;
}

int64_t count_weights(const TransformerConfig& c) {
  return transformer(c, nn::Weights::sketch()).weights.count();
}

Stack encoder_stack(nn::Weights& w, const std::string& name, const TransformerConfig& c) {
  return stack_of(w, name, c, false);
}

Tensor encode(const TransformerConfig& c, const Stack& s, const Tensor& embedded,
              const Tensor& lengths, const TransformerPass& pass) {
  return through(c, s, embedded, {.lengths = lengths, .how = pass});
}

Tensor encode(const Transformer& m, const Tensor& ids, const Tensor& lengths,
              const TransformerPass& pass) {
  expect_part("encode", m.encoder, "encoder");
  return encode(m.config, m.encoder, m.source(ids), lengths, pass);
}

std::vector<nn::KeyValues> project(const Transformer& m, const Tensor& encoded,
                                   const Tensor& lengths) {
  std::vector<nn::KeyValues> all;
  for (const nn::Block& b : m.decoder.blocks) all.push_back(b.cross.project(encoded, lengths));
  return all;
}

Tensor decode_all(const Transformer& m, const Tensor& ids, const std::vector<nn::KeyValues>& source,
                  const TransformerPass& pass) {
  expect_part("decode", m.decoder, "decoder");
  return decode_embedded(m, m.target(ids), source, pass);
}

Tensor decode_embedded(const Transformer& m, const Tensor& embedded,
                       const std::vector<nn::KeyValues>& source, const TransformerPass& pass) {
  expect_part("decode", m.decoder, "decoder");
  return through(m.config, m.decoder, embedded,
                 {.source = source.empty() ? nullptr : &source, .how = pass});
}

Tensor decode_more(const Transformer& m, const Tensor& ids, Decoding& d,
                   const TransformerPass& pass) {
  expect_part("decode", m.decoder, "decoder");
  const NoGrad off;
  d.past.resize(m.decoder.blocks.size());
  const Tensor x = through(m.config, m.decoder, m.target(ids),
                           {.first = d.length,
                            .source = d.source.empty() ? nullptr : &d.source,
                            .past = &d.past,
                            .how = pass});
  d.length += ids.size(1);
  return x;
}

Loss loss(const Transformer& m, const Batch& batch, const LossConfig& c,
          const nn::HeadsHook& hook) {
  const TransformerPass pass = pass_of(c, hook);
  const auto batch_major = [](const Tensor& ids) { return ids.transpose(0, 1).contiguous(); };
  const Tensor encoded =
      encode(m, batch_major(batch.source), batch.source_lengths, at(pass, "encoder"));
  const Tensor states = decode_all(m, batch_major(batch.target_in),
                                   project(m, encoded, batch.source_lengths), at(pass, "decoder"));
  return token_loss(states, batch_major(batch.target_out), m.output, c.label_smoothing);
}

Loss loss(const Transformer& m, const Tensor& ids, const LossConfig& c, const nn::HeadsHook& hook) {
  const int64_t T = ids.size(1) - 1;
  const Tensor states = decode_all(m, ids.slice(1, 0, T), {}, at(pass_of(c, hook), "decoder"));
  return token_loss(states, ids.slice(1, 1, T + 1).contiguous(), m.output, c.label_smoothing);
}

}  // namespace fovea::models
