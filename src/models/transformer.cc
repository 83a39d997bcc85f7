#include "fovea/transformer.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <utility>

#include "fovea/ops.h"
#include "models/checks.h"
#include "models/screen.h"
#include "models/tokens.h"
#include "models/transformer_pass.h"
#include "nn/dropout.h"

namespace fovea::models {
namespace {

struct OfStack {
  int64_t blocks = 0;
  bool cross = false;
};
OfStack encoder_of(const TransformerConfig& c) { return {c.blocks, false}; }
OfStack decoder_of(const TransformerConfig& c) {
  return {c.decoder_blocks > 0 ? c.decoder_blocks : c.blocks, c.source_vocabulary > 0};
}

int64_t embedding_width(const TransformerConfig& c) {
  return c.embedding_width > 0 ? c.embedding_width : c.depth;
}

nn::BlockConfig block_of(const TransformerConfig& c, const OfStack& stack, int64_t b) {
  nn::HeadGroup group{.heads = c.heads, .score = c.score, .weighting = c.weighting};
  nn::BlockConfig config = {.heads = {.width = c.depth,
                                      .heads = c.heads,
                                      .key_heads = c.key_heads,
                                      .depth = c.head_depth,
                                      .groups = {c.linear ? nn::linear_heads(c.heads) : group},
                                      .bias = c.biases.in,
                                      .out_bias = c.biases.out,
                                      .scale = c.score_scale,
                                      .cap = c.score_cap,
                                      .qk_epsilon = c.qk_epsilon,
                                      .init = c.init},
                            .mlp_width = c.mlp_width,
                            .activation = c.activation,
                            .norm = c.norm,
                            .epsilon = c.epsilon,
                            .order = c.order,
                            .mlp_bias = c.biases.mlp,
                            .cross = stack.cross,
                            .of = stack.blocks,
                            .rotary = c.rotary};
  if (c.each.empty()) return config;
  const TransformerConfig::Own& own = c.each[static_cast<size_t>(b)];
  config.window = own.window;
  config.rotary = own.rotary;
  return config;
}

// The weights of `first` under the name of another block.
nn::Block again(nn::Block first, const std::string& name) {
  const auto rename = [&](nn::MultiHead& heads, const char* part) {
    const std::string before = heads.name;
    heads.name = name + part;
    for (nn::HeadCall& call : heads.calls) call.name.replace(0, before.size(), heads.name);
  };
  rename(first.self, ".self");
  if (first.config.cross) rename(first.cross, ".cross");
  return first;
}

Stack stack_of(nn::Weights& w, const std::string& name, const TransformerConfig& c,
               const OfStack& of) {
  Stack s;
  for (int64_t b = 0; b < of.blocks; ++b) {
    const std::string own = name + "." + std::to_string(b);
    const bool shared = c.shared_blocks && b > 0;
    s.blocks.push_back(shared ? again(s.blocks.front(), own)
                              : nn::block(w, own, block_of(c, of, b)));
  }
  if (c.order != nn::NormOrder::post) {
    s.last = nn::norm(w, name + ".norm", c.norm, c.depth, c.epsilon);
  }
  const int64_t E = embedding_width(c);
  if (c.positions == nn::Positions::learned) {
    s.positions = w.add(name + ".positions", {c.first_position + c.longest, E}, nn::Init::small);
  } else if (c.positions == nn::Positions::t5) {
    s.positions = w.add(name + ".positions", {c.buckets, c.heads}, nn::Init::small);
  }
  if (c.types > 0) s.types = w.add(name + ".types", {c.types, E}, nn::Init::small);
  if (c.embedding_norm) s.first = nn::norm(w, name + ".first_norm", c.norm, E, c.epsilon);
  if (c.embedding_width > 0) s.widen = nn::linear(w, name + ".widen", E, c.depth);
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

// x [B,L,W], embedded.
Tensor through(const TransformerConfig& c, const Stack& s, const Tensor& embedded,
               const StackPass& pass) {
  const int64_t L = embedded.size(1);
  const nn::Dropout drop = pass.how.noise;
  nn::BlockPass each;
  Mask mask;
  if (s.causal) mask = masks::causal();
  if (pass.lengths) mask = mask & masks::lengths(pass.lengths);
  const RowRuns runs{{pass.first, pass.first + L}};
  PassAngles angles(runs, head_depth(c));
  each.self.bias = bias_of(c, s, L, pass.first + L);
  if (pass.how.hook) each.self.hook = each.cross.hook = &pass.how.hook;
  Tensor x = dropped(entered(c, s, embedded, runs), drop.at("embedded")).to(pass.how.type);
  for (size_t b = 0; b < s.blocks.size(); ++b) {
    const nn::BlockConfig& own = s.blocks[b].config;
    each.self.mask = mask_of(s, s.blocks[b], mask);
    if (c.positions == nn::Positions::rotary) each.self.rotary = angles.of(own.rotary);
    if (pass.source) each.source = &(*pass.source)[b];
    if (pass.past) each.self.past = &(*pass.past)[b];
    each.noise = drop.at(static_cast<int64_t>(b)).noise();
    x = pass.how.block ? pass.how.block(s.blocks[b], x, each) : s.blocks[b](x, each);
  }
  return c.order == nn::NormOrder::post ? x : s.last(x);
}

Loss loss_of(const Transformer& m, const Tensor& states, const Tensor& targets, const LossConfig& c,
             int64_t padding) {
  return token_loss(states, targets, output_losses(m.config, m.output), c.label_smoothing, padding);
}

}  // namespace

int64_t head_depth(const TransformerConfig& c) {
  return c.head_depth > 0 ? c.head_depth : c.depth / c.heads;
}

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
  in_range("first_position", c.first_position, 0, 100 * kLargest);
  in_range("types", c.types, 0, kLargest);
  in_range("decoder_blocks", c.decoder_blocks, 0, 512);
  in_range("head_depth", c.head_depth, 0, 65536);
  in_range("embedding_width", c.embedding_width, 0, 65536);
  const int64_t own = std::max(encoder_of(c).blocks, decoder_of(c).blocks);
  if (!c.each.empty() && static_cast<int64_t>(c.each.size()) != own) {
    throw Error("transformer", fmt::format("{} blocks, and {} of them have values of their own",
                                           own, c.each.size()));
  }
  if (c.head_depth == 0 && c.depth % c.heads != 0) {
    throw Error("transformer",
                fmt::format("{} heads do not divide a query depth of {}", c.heads, c.depth));
  }
  if (c.positions == nn::Positions::rotary && head_depth(c) % 2 != 0) {
    throw Error("transformer",
                fmt::format("rotary positions need an even depth of each head, found {}{}",
                            c.head_depth > 0 ? "" : fmt::format("{} / {} = ", c.depth, c.heads),
                            head_depth(c)));
  }
  if (c.linear && (c.positions == nn::Positions::alibi || c.positions == nn::Positions::t5)) {
    throw Error("transformer", fmt::format("linear attention has no scores that {} positions could "
                                           "be added to; take rotary",
                                           name_of(c.positions)));
  }
  nn::check(block_of(c, encoder_of(c), 0).heads);
}

Transformer transformer(const TransformerConfig& c, nn::Weights weights) {
  check(c);
  Transformer m{.config = c, .weights = std::move(weights)};
  nn::Weights& w = m.weights;
  const bool encodes = c.source_vocabulary > 0, decodes = c.target_vocabulary > 0;
  if (encodes) {
    m.source.table =
        w.add("source.weight", {c.source_vocabulary, embedding_width(c)}, nn::Init::small);
    m.encoder = stack_of(w, "encoder", c, encoder_of(c));
  }
  if (decodes) {
    // One that is the output layer too starts small, so that no token is likelier than another.
    // Else it starts as large as what blocks add to it: what a token is must not be lost in what
    // they see around it, or they are long in learning to look for it.
    const float size = c.tied ? 1.0f : 50.0f;
    m.target.table =
        w.add("target.weight", {c.target_vocabulary, embedding_width(c)}, nn::Init::small, size);
    m.decoder = stack_of(w, "decoder", c, decoder_of(c));
    m.decoder.causal = true;
    m.output.weight =
        c.tied ? m.target.table : w.add("output.weight", {c.target_vocabulary, c.depth}, c.init);
    if (c.biases.output == nn::WithBias::yes) {
      m.output.bias = w.add("output.bias", {c.target_vocabulary}, nn::Init::zeros);
    }
    if (!c.output_cap) m.screen = std::make_shared<OutputScreen>();
  }
  return m;
}

int64_t count_weights(const TransformerConfig& c) {
  return transformer(c, nn::Weights::sketch()).weights.count();
}

Stack encoder_stack(nn::Weights& w, const std::string& name, const TransformerConfig& c) {
  return stack_of(w, name, c, encoder_of(c));
}

Tensor logits(const Transformer& m, const Tensor& states) {
  return logits_of(m.config, m.output, states);
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
  d.past.resize(m.decoder.blocks.size(), {.kept = d.kept});
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
  return loss_of(m, states, batch_major(batch.target_out), c, batch.padding);
}

Loss loss(const Transformer& m, const Tensor& ids, const LossConfig& c, const nn::HeadsHook& hook) {
  const int64_t T = ids.size(1) - 1;
  const Tensor states = decode_all(m, ids.slice(1, 0, T), {}, at(pass_of(c, hook), "decoder"));
  return loss_of(m, states, ids.slice(1, 1, T + 1).contiguous(), c, kNoPadding);
}

}  // namespace fovea::models
