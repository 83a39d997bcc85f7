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
class Translating : public Generator {
 public:
  Translating(const Seq2Seq& m, const Encoded& encoded, const DecodeConfig& c,
              const Intervention& intervention)
      : model_(m),
        decoder_(m, repeated(encoded, c.beam),
                 {.keep_weights = c.weights || c.places, .intervention = intervention}) {
    if (may_screen(m, c.beam, encoded.lengths.size(0))) screen_ = m.screen->of(m.output);
  }

  void advance(const Tensor& tokens) override {
    const Tensor y = model_.target(tokens);
    const Decoder::Step s = decoder_.step(decoder_.gates(y));
    Look look = s.look;
    if (decoder_.looks_once()) look = decoder_.looker().step(s.state, t_);
    ++t_;
    weights_ = look.weights;
    const Tensor context = decoder_.fixed() ? decoder_.fixed() : look.context;
    out_ = s.out ? s.out : read_out(model_, s.state, context, y);
  }

  Tensor logits() override { return model_.output(out_); }
  Tensor weights() override { return weights_; }
  void select_rows(const Tensor& ids) override { decoder_.select_rows(ids); }

  std::optional<Likeliest> likeliest(int64_t row, std::span<const int64_t> never) override {
    if (!screen_) return std::nullopt;
    const float* out = raw(out_) + row * out_.size(1);
    const auto c = kernels::choose(*screen_, matrix_of(model_.output), out, never);
    if (!c) return std::nullopt;
    return Likeliest{c->row, static_cast<double>(c->logit) - c->log_sum};
  }

 private:
  // A screen reads a quarter of the layer, and for each row again.
  static bool may_screen(const Seq2Seq& m, int64_t beams, int64_t sentences) {
    constexpr int64_t kRows = 3, kFewest = 1024, kSmallest = 1 << 20;
    const int64_t V = m.config.target_vocabulary;
    return m.screen && beams == 1 && sentences <= kRows && V >= kFewest &&
           V * m.config.hidden >= kSmallest;
  }

  const Seq2Seq& model_;
  Decoder decoder_;
  std::shared_ptr<const kernels::Screen> screen_;
  Tensor out_, weights_;  // o_t [B·K,H], [B·K,S]
  int64_t t_ = 0;
};

}  // namespace

std::vector<std::vector<Decoded>> decode(const Seq2Seq& m, const Tensor& source,
                                         const Tensor& source_lengths, const DecodeConfig& c,
                                         const Intervention& intervention) {
  check(c);
  const NoGrad off;
  Translating generator(m, encode(m, source, source_lengths), c, intervention);
  return search_translations(generator, source_lengths, c);
}

}  // namespace fovea::models
