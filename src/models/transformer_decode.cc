#include <fmt/format.h>

#include <optional>

#include "fovea/error.h"
#include "fovea/ops.h"
#include "fovea/transformer.h"
#include "models/screen.h"
#include "models/tokens.h"
#include "models/translated.h"
#include "nn/past.h"

namespace fovea::models {
namespace {

// The decoder as a search asks it: a step is a token of every row.
class Attending : public Generator {
 public:
  Attending(const Transformer& m, std::vector<nn::KeyValues> source, bool keep_weights, DType kept)
      : model_(m) {
    decoding_.source = std::move(source);
    decoding_.kept = kept;
    if (!keep_weights) return;
    pass_.hook = [this, last = m.decoder.blocks.back().cross.name](const nn::Heads& heads) {
      if (heads.name == last) weights_ = mean(heads.attended.weights(), {1}).squeeze(1);
      return Tensor();
    };
  }

  void read(const Tensor& ids) { decode_more(model_, ids, decoding_, pass_); }

  void advance(const Tensor& tokens) override {
    if (!states_) output_ = {model_.screen, model_.output, tokens.numel()};
    states_ = decode_more(model_, tokens.unsqueeze(1), decoding_, pass_).squeeze(1);
  }
  std::optional<Likeliest> likeliest(int64_t row, std::span<const int64_t> never) override {
    return output_.likeliest(raw(states_) + row * states_.size(1), never);
  }
  Tensor logits() override { return models::logits(model_, states_); }
  Tensor weights() override { return weights_; }
  void select_rows(const Tensor& ids) override {
    for (nn::KeyValues& past : decoding_.past) past = nn::select_rows(past, ids);
  }

 private:
  const Transformer& model_;
  Decoding decoding_;
  TransformerPass pass_;
  ScreenedOutput output_;
  Tensor states_, weights_;  // [rows,W], [rows,S]
};

}  // namespace

std::unique_ptr<Generator> generator(const Transformer& m, const Tensor& before, DType kept) {
  auto made = std::make_unique<Attending>(m, std::vector<nn::KeyValues>(), false, kept);
  if (before && before.size(1) > 0) made->read(before);
  return made;
}

std::vector<std::vector<Decoded>> decode(const Transformer& m, const Tensor& source,
                                         const Tensor& source_lengths, const DecodeConfig& c) {
  check(c);
  const bool learned = m.config.positions == nn::Positions::learned;
  const int64_t most = learned ? m.config.longest : INT64_MAX;
  if (c.longest > most) {
    throw Error("decode", fmt::format("longest must be at most {}, as many positions as the model "
                                      "has learned, found {}",
                                      most, c.longest));
  }
  const NoGrad off;
  const Tensor encoded = encode(m, source.transpose(0, 1).contiguous(), source_lengths);
  std::vector<nn::KeyValues> projected = project(m, encoded, source_lengths);
  const Tensor rows = each_repeated(source_lengths.size(0), c.beam);
  if (c.beam > 1) {
    for (nn::KeyValues& kv : projected) kv = nn::select_rows(kv, rows);
  }
  Attending generator(m, std::move(projected), c.weights || c.places, DType::f32);
  return search_translations(generator, source_lengths, c, most);
}

}  // namespace fovea::models
