#include "fovea/ops.h"
#include "models/decoder.h"
#include "models/screen.h"
#include "models/translated.h"

namespace fovea::models {
namespace {

Encoded repeated(const Encoded& e, int64_t K) {
  return K == 1 ? e : select_rows(e, each_repeated(e.lengths.size(0), K));
}

// The decoder as a search asks it.
class Writing : public Generator {
 public:
  Writing(const ConfiguredWriter& m, const Encoded& encoded, const DecodeConfig& c,
          const Intervention& intervention)
      : model_(m),
        decoder_(m, repeated(encoded, c.beam),
                 {.keep_weights = c.weights || c.places, .intervention = intervention}) {
    if (c.beam == 1) output_ = {m.writer.screen, m.writer.output, encoded.lengths.size(0)};
  }

  void advance(const Tensor& tokens) override {
    const Tensor y = model_.writer.target(tokens);
    const Decoder::Step s = decoder_.step(decoder_.gates(y));
    Look look = s.look;
    if (decoder_.looks_once()) {
      look = decoder_.looker().step(s.state, t_);
      look.context = gated(model_.writer, s.state, look.context);
    }
    ++t_;
    weights_ = look.weights;
    const Tensor context = decoder_.fixed() ? decoder_.fixed() : look.context;
    out_ = s.out ? s.out : read_out(model_, s.state, context, y);
  }

  Tensor logits() override { return model_.writer.output(out_); }
  Tensor weights() override { return weights_; }
  void select_rows(const Tensor& ids) override { decoder_.select_rows(ids); }

  std::optional<Likeliest> likeliest(int64_t row, std::span<const int64_t> never) override {
    return output_.likeliest(raw(out_) + row * out_.size(1), never);
  }

 private:
  const ConfiguredWriter model_;
  Decoder decoder_;
  ScreenedOutput output_;
  Tensor out_, weights_;  // o_t [B·K,H], [B·K,S]
  int64_t t_ = 0;
};

}  // namespace

std::vector<std::vector<Decoded>> write_out(const ConfiguredWriter& m, const Encoded& memory,
                                            const DecodeConfig& c,
                                            const Intervention& intervention) {
  Writing generator(m, memory, c, intervention);
  return search_translations(generator, memory.lengths, c);
}

std::vector<std::vector<Decoded>> decode(const Seq2Seq& m, const Tensor& source,
                                         const Tensor& source_lengths, const DecodeConfig& c,
                                         const Intervention& intervention) {
  check(c);
  const NoGrad off;
  return write_out({m, writer_of(m.config)}, encode(m, source, source_lengths), c, intervention);
}

}  // namespace fovea::models
